"""Losses with torch.nn's names, arguments and defaults: called on symbolic values, they add their operators
to the graph of a training step."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from clcnn import ops
from clcnn.errors import ArgumentError, DtypeError, ShapeError
from clcnn.nn.module import Layer

Reduction = Literal["mean", "sum", "none"]
LEAST_LOG = -100.0  # what nn.BCELoss takes for the logarithm of 0, as PyTorch's
LEAST_NORMAL = float(np.finfo(np.float32).tiny)


class _Loss(Layer):
    """The result is float32: a scalar, or with reduction="none" the losses themselves.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}
        What becomes of the losses: their mean (default), their sum, or nothing.

    Raises
    ------
    ArgumentError
        For arguments.
    DtypeError
        When called on other dtypes.
    ShapeError
        When called on shapes that do not fit.
    """

    target_dtype = "float32"

    def __init__(self, reduction: Reduction) -> None:
        super().__init__()
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(
                f"{type(self).__name__}: reduction {reduction!r} is none of 'mean', 'sum', 'none'"
            )
        self.reduction = reduction

    @property
    def _name(self) -> str:
        return self.layer_name or "loss"

    def _reduced(self, losses: Any, divisor: Any = None) -> Any:
        """The result; divisor: of the mean, where that is not the number of losses."""
        if self.reduction == "none":
            return ops.identity(losses, name=self._name)
        if self.reduction == "mean" and divisor is None:
            return ops.reduce_mean(losses, keepdims=False, name=self._name)
        if self.reduction == "mean":
            return ops.div(ops.reduce_sum(losses, keepdims=False), divisor, name=self._name)
        return ops.reduce_sum(losses, keepdims=False, name=self._name)

    def counted(self, target: NDArray[Any]) -> float:
        """What the mean of a batch divides by, for weighing batches against each other: its samples."""
        return float(len(target))

    def _same_shape(self, x: Any, target: Any) -> None:
        if x.shape != target.shape:
            raise ShapeError(
                f"{type(self).__name__}: the net's result {list(x.shape)} and the target "
                f"{list(target.shape)} must have one shape"
            )

    def _number(self, key: str, value: float, positive: bool) -> float:
        if not np.isfinite(value) or value < 0 or (positive and value == 0):
            rule = "above 0" if positive else "0 or more"
            raise ArgumentError(f"{type(self).__name__}: {key} must be {rule}, got {value!r}")
        return float(value)

    def _weights(self, key: str, value: ArrayLike | None) -> NDArray[np.float32] | None:
        if value is None:
            return None
        weights = np.asarray(value)
        if weights.dtype.kind not in "fiu":
            raise DtypeError(f"{type(self).__name__}: {key} must be real numbers, got {weights.dtype}")
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ArgumentError(f"{type(self).__name__}: every {key} must be finite and 0 or more")
        return np.require(weights, np.float32, "C")

    def _weighted(self, losses: Any, key: str) -> Any:
        """losses times the weights of this name, which may have fewer dimensions."""
        weights = getattr(self, key)
        if weights is None:
            return losses
        last = losses.shape[losses.ndim - weights.ndim :] if weights.ndim <= losses.ndim else ()
        if len(last) != weights.ndim or any(w not in (1, n) for w, n in zip(weights.shape, last)):
            raise ShapeError(
                f"{type(self).__name__}: {key} {list(weights.shape)} does not go with {list(losses.shape)}"
            )
        return losses * weights

    def extra_repr(self) -> str:
        return f"reduction={self.reduction!r}"


class MSELoss(_Loss):
    """(x - target)^2, the squared error: x and target [...], float32 of one shape -> [].

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (3,)), graph.input("target", (3,))
    >>> graph.output(clcnn.nn.MSELoss()(x, target))
    >>> print(clcnn.compile(graph)([1, 2, 3], [1, 2, 6]))
    3.0
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        difference = x - target
        return self._reduced(difference * difference)


class L1Loss(_Loss):
    """|x - target|, the absolute error: x and target [...], float32 of one shape -> [].

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (4, 3)), graph.input("target", (4, 3))
    >>> clcnn.nn.L1Loss(reduction="none")(x, target).shape
    (4, 3)
    """

    def __init__(self, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        return self._reduced(ops.abs(x - target))


class HuberLoss(_Loss):
    """d^2 / 2 for d = |x - target| <= delta, delta * (d - delta / 2) above: x and target [...] -> [].

    x and target are float32 of one shape. Source: Huber 1964.

    Parameters
    ----------
    delta : float
        Distance from which on the loss grows linearly, above 0. Default 1.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (4, 3)), graph.input("target", (4, 3))
    >>> clcnn.nn.HuberLoss(delta=2.0)(x, target).shape
    ()
    """

    def __init__(self, reduction: Reduction = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = self._number("delta", delta, positive=True)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        return self._reduced(_huber(x, target, self.delta))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, delta={self.delta}"


class SmoothL1Loss(_Loss):
    """d^2 / (2 * beta) for d = |x - target| <= beta, d - beta / 2 above: x and target [...] -> [].

    HuberLoss(delta=beta) divided by beta; for beta 0, L1Loss. x and target are float32 of one shape. Source:
    Girshick 2015 (Fast R-CNN), section 2.3.

    Parameters
    ----------
    beta : float
        Distance from which on the loss grows linearly, 0 or more. Default 1.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (4, 3)), graph.input("target", (4, 3))
    >>> clcnn.nn.SmoothL1Loss(beta=0.5)(x, target).shape
    ()
    """

    def __init__(self, *, reduction: Reduction = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = self._number("beta", beta, positive=False)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        if not self.beta:
            return self._reduced(ops.abs(x - target))
        return self._reduced(_huber(x, target, self.beta) * (1.0 / self.beta))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, beta={self.beta}"


def _huber(x: Any, target: Any, delta: float) -> Any:
    """c * (d - c / 2) for c = min(d, delta): both branches in one formula."""
    distance = ops.abs(x - target)
    near = ops.minimum(distance, delta)
    return near * (distance - near * 0.5)


class BCELoss(_Loss):
    """-(t log x + (1 - t) log(1 - x)), the binary cross-entropy: x and target t [...] -> [].

    x are probabilities, which nn.Sigmoid gives; both are float32 of one shape, from 0 to 1. Logarithms are at
    least -100, as PyTorch's, and have no slope there. nn.BCEWithLogitsLoss loses fewer digits.

    Parameters
    ----------
    weight : array, optional
        Factors of the losses, 0 or more, of a shape that broadcasts to theirs.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (4, 3)), graph.input("target", (4, 3))
    >>> clcnn.nn.BCELoss()(x, target).shape
    ()
    """

    def __init__(self, weight: ArrayLike | None = None, *, reduction: Reduction = "mean") -> None:
        super().__init__(reduction)
        self.weight = self._weights("weight", weight)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        losses = -(target * _log(x) + (1.0 - target) * _log(1.0 - x))
        return self._reduced(self._weighted(losses, "weight"))


def _log(p: Any) -> Any:
    """log(p), at least LEAST_LOG."""
    small = ops.less(p, LEAST_NORMAL)
    return ops.where(small, LEAST_LOG, ops.log(ops.maximum(p, LEAST_NORMAL)))


class BCEWithLogitsLoss(_Loss):
    """pos_weight * t * softplus(-x) + (1 - t) * softplus(x): logits x and target t [...] -> [].

    BCELoss of sigmoid(x) in a form that overflows nowhere and loses no digits. x and target are float32 of
    one shape, targets from 0 to 1.

    Parameters
    ----------
    weight : array, optional
        Factors of the losses, 0 or more, of a shape that broadcasts to theirs.
    pos_weight : array, optional
        Factors of the losses of positive targets, likewise.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, target = graph.input("x", (4, 3)), graph.input("target", (4, 3))
    >>> clcnn.nn.BCEWithLogitsLoss(pos_weight=[1, 1, 5])(x, target).shape
    ()
    """

    def __init__(
        self,
        weight: ArrayLike | None = None,
        *,
        reduction: Reduction = "mean",
        pos_weight: ArrayLike | None = None,
    ) -> None:
        super().__init__(reduction)
        self.weight = self._weights("weight", weight)
        self.pos_weight = self._weights("pos_weight", pos_weight)

    def forward(self, x: Any, target: Any) -> Any:
        self._same_shape(x, target)
        positive = self._weighted(target * ops.softplus(-x), "pos_weight")
        losses = positive + (1.0 - target) * ops.softplus(x)
        return self._reduced(self._weighted(losses, "weight"))


class _LabelLoss(_Loss):
    """Labels are the indices of classes, int64.

    Parameters
    ----------
    weight : array, optional
        A factor for each class, 0 or more; the mean is then over the sum of the labels' factors.
    ignore_index : int, optional
        A label that counts for nothing. Without it every label must be a class; PyTorch's default is -100.
    """

    target_dtype = "int64"

    def __init__(self, weight: ArrayLike | None, ignore_index: int | None, reduction: Reduction) -> None:
        super().__init__(reduction)
        self.weight = self._weights("weight", weight)
        self.ignore_index = None if ignore_index is None else int(ignore_index)

    def counted(self, target: NDArray[Any]) -> float:
        """The labels that are not ignored, each with its weight."""
        kept = target if self.ignore_index is None else target[target != self.ignore_index]
        return float(kept.size if self.weight is None else self.weight[kept].sum(dtype=np.float64))

    def _check(self, x: Any, labels: Any) -> None:
        if x.ndim < 2 or labels.shape != (x.shape[0], *x.shape[2:]):
            raise ShapeError(
                f"{type(self).__name__}: the net's result {list(x.shape)} must be [N, C, ...] and labels "
                f"{list(labels.shape)} [N, ...]"
            )
        if self.weight is not None and self.weight.shape != x.shape[1:2]:
            raise ShapeError(
                f"{type(self).__name__}: weight {list(self.weight.shape)} must be one for each of the "
                f"{x.shape[1]} classes"
            )

    def _of_labels(self, logs: Any, labels: Any, smoothing: float) -> Any:
        """-sum of (1 - smoothing) * log at the label + smoothing / C * all logs, each with its weight."""
        classes = logs.shape[1]
        along = (1, classes, *(1 for _ in logs.shape[2:]))
        at_label = ops.equal(
            ops.unsqueeze(labels, axes=[1]), np.arange(classes, dtype=np.int64).reshape(along)
        )
        if self.weight is not None:
            logs = logs * self.weight.reshape(along)
        losses = -ops.reduce_sum(ops.where(at_label, logs, 0.0), axes=[1], keepdims=False)
        if smoothing:
            everywhere = ops.reduce_sum(logs, axes=[1], keepdims=False)
            losses = losses * (1.0 - smoothing) - everywhere * (smoothing / classes)
        if self.ignore_index is not None:
            counts = ops.logical_not(ops.equal(labels, np.array(self.ignore_index, np.int64)))
            losses = ops.where(counts, losses, 0.0)
            at_label = ops.logical_and(at_label, ops.unsqueeze(counts, axes=[1]))
        return self._reduced(losses, self._divisor(at_label, along))

    def _divisor(self, at_label: Any, along: tuple[int, ...]) -> Any:
        """The sum of the weights of all labels; None where that is their number."""
        if self.reduction != "mean" or (self.weight is None and self.ignore_index is None):
            return None
        ones = np.ones(along, np.float32) if self.weight is None else self.weight.reshape(along)
        return ops.reduce_sum(ops.where(at_label, ones, 0.0), keepdims=False)

    def extra_repr(self) -> str:
        ignored = "" if self.ignore_index is None else f"ignore_index={self.ignore_index}, "
        return f"{ignored}{super().extra_repr()}"


class NLLLoss(_LabelLoss):
    """-x at the label, the negative log likelihood: x [N, C, ...] and labels [N, ...] -> [].

    x are logarithms of probabilities, float32, which nn.LogSoftmax gives.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, labels = graph.input("x", (2, 5, 8, 8)), graph.input("labels", (2, 8, 8), "int64")
    >>> clcnn.nn.NLLLoss(reduction="none")(x, labels).shape
    (2, 8, 8)
    """

    def __init__(
        self,
        weight: ArrayLike | None = None,
        *,
        ignore_index: int | None = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(weight, ignore_index, reduction)

    def forward(self, x: Any, labels: Any) -> Any:
        self._check(x, labels)
        return self._of_labels(x, labels, 0.0)


class CrossEntropyLoss(_LabelLoss):
    """-log(softmax(x)) at the label: logits x [N, C, ...] and labels [N, ...] -> [].

    NLLLoss of the log_softmax; without weights and ignored labels, and for x [N, C], in one operator. x is
    float32.

    Parameters
    ----------
    label_smoothing : float
        This share of each label, from 0 to 1, is spread evenly over all classes. Default 0. Source: Szegedy
        et al. 2016, section 7.

    Examples
    --------
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> x, labels = graph.input("x", (2, 3)), graph.input("labels", (2,), "int64")
    >>> graph.output(clcnn.nn.CrossEntropyLoss()(x, labels))
    >>> print(clcnn.compile(graph)([[2, 0, 0], [0, 2, 0]], [0, 2]).round(3))
    1.24
    """

    def __init__(
        self,
        weight: ArrayLike | None = None,
        *,
        ignore_index: int | None = None,
        reduction: Reduction = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, ignore_index, reduction)
        if not 0 <= label_smoothing <= 1:
            raise ArgumentError(
                f"CrossEntropyLoss: label_smoothing must be from 0 to 1, got {label_smoothing!r}"
            )
        self.label_smoothing = float(label_smoothing)

    def forward(self, logits: Any, labels: Any) -> Any:
        self._check(logits, labels)
        smoothing = self.label_smoothing
        if logits.ndim > 2 or self.weight is not None or self.ignore_index is not None:
            return self._of_labels(ops.log_softmax(logits, dim=1), labels, smoothing)
        if self.reduction == "mean":
            return ops.cross_entropy(logits, labels, label_smoothing=smoothing, name=self._name)
        return self._reduced(ops.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, label_smoothing={self.label_smoothing}"
