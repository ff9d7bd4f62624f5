"""Padding of the last dimensions."""

from __future__ import annotations

from typing import Any, Literal

from clcnn import ops
from clcnn.nn._args import Ints, ntuple
from clcnn.nn.module import Layer


class _Pad(Layer):
    """Pads the last dimensions: (left, right[, top, bottom[, front, back]]), or one int for all. Negative
    values crop."""

    _rank: int
    _mode: Literal["constant", "reflect", "edge", "wrap"] = "constant"

    def __init__(self, padding: Ints) -> None:
        super().__init__()
        limit = -(2**31)
        self.padding = ntuple(type(self).__name__, "padding", padding, 2 * self._rank, limit)

    def forward(self, x: Any) -> Any:
        keep = len(x.shape) - self._rank
        if keep < 0:
            raise self.misfit(x, "has too few dimensions")
        begins = [0] * keep + list(self.padding[0::2])[::-1]
        ends = [0] * keep + list(self.padding[1::2])[::-1]
        value = getattr(self, "value", 0.0)
        return ops.pad(x, pads=begins + ends, mode=self._mode, value=value, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"padding={self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Ints, value: float = 0.0) -> None:
        super().__init__(padding)
        self.value = float(value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension."""

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions."""

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions."""

    _rank = 3


class ZeroPad1d(ConstantPad1d):
    """ConstantPad1d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


class ZeroPad2d(ConstantPad2d):
    """ConstantPad2d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


class ZeroPad3d(ConstantPad3d):
    """ConstantPad3d with 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding, 0.0)


class _ReflectionPad(_Pad):
    _mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the last dimension with their elements mirrored at the outermost ones."""

    _rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two dimensions with their elements mirrored at the outermost ones."""

    _rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three dimensions with their elements mirrored at the outermost ones."""

    _rank = 3


class _ReplicationPad(_Pad):
    _mode = "edge"


class ReplicationPad1d(_ReplicationPad):
    """Pads the last dimension with their outermost elements."""

    _rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two dimensions with their outermost elements."""

    _rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three dimensions with their outermost elements."""

    _rank = 3


class _CircularPad(_Pad):
    _mode = "wrap"


class CircularPad1d(_CircularPad):
    """Pads the last dimension with their elements over again."""

    _rank = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions with their elements over again."""

    _rank = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions with their elements over again."""

    _rank = 3
