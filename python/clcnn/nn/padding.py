"""Padding of the last dimensions."""

from __future__ import annotations

from typing import Any, Literal

from clcnn import ops
from clcnn.nn._args import Ints, ntuple
from clcnn.nn.module import Layer


class _Pad(Layer):
    """Leading dimensions may be of any number. Negative padding crops.

    Parameters
    ----------
    padding : int, or 2 ints for each dimension that is padded
        How many elements: (left, right) of the last dimension, then (top, bottom) of the one before, then
        (front, back). One int stands for all of them.

    Raises
    ------
    ArgumentError
        Where padding is of another type or length.
    ShapeError
        When called on x of too few dimensions, or where cropping leaves nothing.
    """

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
    """As numpy.pad's mode "constant".

    Parameters
    ----------
    value : float
        What is put around x.
    """

    def __init__(self, padding: Ints, value: float = 0.0) -> None:
        super().__init__(padding)
        self.value = float(value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with one value: x [N, C, W] -> [N, C, Q].

    Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ConstantPad1d((2, 1), 9.0), (1, 1, 3))([[[1, 2, 3]]]))
    [[[9. 9. 1. 2. 3. 9.]]]
    """

    _rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with one value: x [N, C, H, W] -> [N, C, P, Q].

    P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ConstantPad2d((1, 0, 0, 1), 9.0), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]])[0, 0])
    [[9. 1. 2.]
     [9. 3. 4.]
     [9. 9. 9.]]
    """

    _rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with one value: x [N, C, D, H, W] -> [N, C, O, P, Q].

    O = D + front + back, P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ConstantPad3d(1, 9.0), (1, 1, 1, 1, 2))([[[[[1, 2]]]]])[0, 0, 1])
    [[9. 9. 9. 9.]
     [9. 1. 2. 9.]
     [9. 9. 9. 9.]]
    """

    _rank = 3


class _ZeroPad(_Pad):
    """It is ConstantPad with the value 0."""

    def __init__(self, padding: Ints) -> None:
        super().__init__(padding)
        self.value = 0.0


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pads the last dimension with zeros: x [N, C, W] -> [N, C, Q].

    Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ZeroPad1d((2, 1)), (1, 1, 3))([[[1, 2, 3]]]))
    [[[0. 0. 1. 2. 3. 0.]]]
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pads the last two dimensions with zeros: x [N, C, H, W] -> [N, C, P, Q].

    P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ZeroPad2d((1, 0, 0, 1)), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]])[0, 0])
    [[0. 1. 2.]
     [0. 3. 4.]
     [0. 0. 0.]]
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pads the last three dimensions with zeros: x [N, C, D, H, W] -> [N, C, O, P, Q].

    O = D + front + back, P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ZeroPad3d(1), (1, 1, 1, 1, 2))([[[[[1, 2]]]]])[0, 0, 1])
    [[0. 0. 0. 0.]
     [0. 1. 2. 0.]
     [0. 0. 0. 0.]]
    """


class _ReflectionPad(_Pad):
    """The outermost elements are not repeated. Padding as wide as the dimension or wider goes to and fro, as
    numpy.pad's mode "reflect" does.
    """

    _mode = "reflect"


class ReflectionPad1d(_ReflectionPad):
    """Pads the last dimension by mirroring at the border: x [N, C, W] -> [N, C, Q].

    Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReflectionPad1d((2, 1)), (1, 1, 3))([[[1, 2, 3]]]))
    [[[3. 2. 1. 2. 3. 2.]]]
    """

    _rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two dimensions by mirroring at the border: x [N, C, H, W] -> [N, C, P, Q].

    P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReflectionPad2d((1, 0, 0, 1)), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]])[0, 0])
    [[2. 1. 2.]
     [4. 3. 4.]
     [2. 1. 2.]]
    """

    _rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three dimensions by mirroring at the border: x [N, C, D, H, W] -> [N, C, O, P, Q].

    O = D + front + back, P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReflectionPad3d(1), (1, 1, 1, 1, 2))([[[[[1, 2]]]]])[0, 0, 1])
    [[2. 1. 2. 1.]
     [2. 1. 2. 1.]
     [2. 1. 2. 1.]]
    """

    _rank = 3


class _ReplicationPad(_Pad):
    """As numpy.pad's mode "edge"."""

    _mode = "edge"


class ReplicationPad1d(_ReplicationPad):
    """Pads the last dimension with the outermost elements: x [N, C, W] -> [N, C, Q].

    Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReplicationPad1d((2, 1)), (1, 1, 3))([[[1, 2, 3]]]))
    [[[1. 1. 1. 2. 3. 3.]]]
    """

    _rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two dimensions with the outermost elements: x [N, C, H, W] -> [N, C, P, Q].

    P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReplicationPad2d((1, 0, 0, 1)), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]])[0, 0])
    [[1. 1. 2.]
     [3. 3. 4.]
     [3. 3. 4.]]
    """

    _rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three dimensions with the outermost elements: x [N, C, D, H, W] -> [N, C, O, P, Q].

    O = D + front + back, P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.ReplicationPad3d(1), (1, 1, 1, 1, 2))([[[[[1, 2]]]]])[0, 0, 1])
    [[1. 1. 2. 2.]
     [1. 1. 2. 2.]
     [1. 1. 2. 2.]]
    """

    _rank = 3


class _CircularPad(_Pad):
    """As numpy.pad's mode "wrap": padding wider than the dimension begins anew."""

    _mode = "wrap"


class CircularPad1d(_CircularPad):
    """Pads the last dimension from the other end: x [N, C, W] -> [N, C, Q].

    Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.CircularPad1d((2, 1)), (1, 1, 3))([[[1, 2, 3]]]))
    [[[2. 3. 1. 2. 3. 1.]]]
    """

    _rank = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions from the other end: x [N, C, H, W] -> [N, C, P, Q].

    P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.CircularPad2d((1, 0, 0, 1)), (1, 1, 2, 2))([[[[1, 2], [3, 4]]]])[0, 0])
    [[2. 1. 2.]
     [4. 3. 4.]
     [2. 1. 2.]]
    """

    _rank = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions from the other end: x [N, C, D, H, W] -> [N, C, O, P, Q].

    O = D + front + back, P = H + top + bottom, Q = W + left + right.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.CircularPad3d(1), (1, 1, 1, 1, 2))([[[[[1, 2]]]]])[0, 0, 1])
    [[2. 1. 2. 1.]
     [2. 1. 2. 1.]
     [2. 1. 2. 1.]]
    """

    _rank = 3
