"""PyTorch's answer to a case: a second opinion on the definitions of `reference`, by the translation that the
benchmarks use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clcnn._reference import fill
from torch_net import NoEquivalent, translate

__all__ = ["NoEquivalent", "run", "run_case"]


def _separable(inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any]) -> torch.Tensor:
    """A depthwise convolution, an activation and a 1x1 convolution."""
    x, dw, dw_b, pw, pw_b = (*inputs, None)[:5]
    geometry = {name: value for name, value in attrs.items() if name != "activation"}
    middle = run("conv", [x, dw, dw_b], geometry | {"groups": x.shape[1]})
    return run("conv", [run(attrs["activation"], [middle], {}), pw, pw_b], {})


def _inverted_residual(inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any]) -> torch.Tensor:
    """A 1x1 convolution, an activation and what is separable."""
    x, w, b, *others = inputs
    tail = {name: value for name, value in attrs.items() if name != "expand_activation"}
    wide = run(attrs["expand_activation"], [run("conv", [x, w, b], {})], {})
    return _separable([wide, *others], tail)


def _squeeze_excite(inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any]) -> torch.Tensor:
    """Means of channels, a layer, an activation and a layer: 1x1 convolutions, or linear ones."""
    x, w1, b1, w2, b2 = inputs
    linear = w1.dim() == 2
    mean = x.mean(dim=tuple(range(2, x.dim())), keepdim=not linear)
    layer = "linear" if linear else "conv"
    middle = run(layer, [mean, w1, b1], {})
    return run(layer, [run(attrs["activation"], [middle], {}), w2, b2], {})


# Operators that no user writes.
_MERGED = {
    "separable": _separable,
    "inverted_residual": _inverted_residual,
    "squeeze_excite": _squeeze_excite,
}


def run(op: str, inputs: Sequence[torch.Tensor | None], attrs: dict[str, Any]) -> Any:
    """Output of one operator. Raises NoEquivalent where PyTorch cannot say."""
    if op in _MERGED:
        return _MERGED[op](inputs, fill(op, attrs))
    return translate(op, fill(op, attrs), inputs[0].shape)(*inputs)


def _tensor(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    tensor = torch.from_numpy(array)
    return tensor.to(dtype) if tensor.is_floating_point() else tensor


def run_case(case: Any, data: Sequence[np.ndarray], dtype: torch.dtype) -> np.ndarray | list[np.ndarray]:
    """Output of a whole case computed by PyTorch in `dtype`. Raises NoEquivalent where it cannot say."""
    known: dict[str | None, Any] = {None: None}
    known.update((i.name, _tensor(a, dtype)) for i, a in zip(case.inputs, data))
    with torch.no_grad():
        for node in case.nodes:
            known[node.output] = run(node.op, [known[name] for name in node.inputs], node.attrs)
    out = known[case.nodes[-1].output]
    return [o.numpy() for o in out] if isinstance(out, (tuple, list)) else out.numpy()
