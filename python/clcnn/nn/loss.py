"""Losses with torch.nn's names, arguments and defaults: called on symbolic values, they add their operators
to the graph of a training step."""

from __future__ import annotations

from typing import Any, Literal

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn.module import Module


class CrossEntropyLoss(Module):
    """Softmax over the classes and the negative log-likelihood of the label, in one operator.

    reduction: "mean" or "sum" over the samples. label_smoothing: this share of each label is spread evenly
    over all classes (Szegedy et al. 2016, section 7).

    Called on logits (N, C) of float32 and labels (N,) of int64; the result has one element. Raises
    ArgumentError (reduction, label_smoothing outside 0 to 1), ShapeError.
    """

    target_dtype = "int64"

    def __init__(self, reduction: Literal["mean", "sum"] = "mean", label_smoothing: float = 0.0) -> None:
        super().__init__()
        if reduction not in ("mean", "sum"):
            raise ArgumentError(f"CrossEntropyLoss: reduction {reduction!r} is neither 'mean' nor 'sum'")
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"CrossEntropyLoss: label_smoothing must be from 0 to 1, got {label_smoothing!r}"
            )
        self.reduction, self.label_smoothing = reduction, float(label_smoothing)

    def forward(self, logits: Any, labels: Any) -> Any:
        if logits.ndim != 2 or labels.shape != logits.shape[:1]:
            raise ShapeError(
                f"CrossEntropyLoss: logits {list(logits.shape)} must be [N, C] and labels "
                f"{list(labels.shape)} [N]"
            )
        name = self.layer_name or "loss"
        smoothing = self.label_smoothing
        if self.reduction == "mean":
            return ops.cross_entropy(logits, labels, label_smoothing=smoothing, name=name)
        losses = ops.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing)
        return ops.reduce_sum(losses, keepdims=False, name=name)

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}, label_smoothing={self.label_smoothing}"
