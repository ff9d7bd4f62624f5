"""The functions of nn.functional that take as arguments what layers keep as weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn import _docs, conv
from clcnn.nn._args import Ints, ntuple
from clcnn.value import Value

CONV = """\
{what} with its weights as arguments: x [N, in, *spatial] -> [N, out, *spatial].

The function of `nn.{layer}`, which has the formulas of the sizes. Operands are float32.

Parameters
----------
input : Value
    x, a symbolic value in a graph.
weight : Value or array
    {weight}.
bias : Value or array, optional
    [out].
{others}

Returns
-------
Value
    The result, symbolic, in the same graph: plans compute it.

Raises
------
ArgumentError
    For arguments.
DtypeError
    For operands that are not float32.
ShapeError
    For shapes that do not fit.

Examples
--------
{example}"""


def prelu(input: Value, weight: Any) -> Value:
    """y = x where x >= 0, weight * x elsewhere: x [N, C, ...] -> the same shape.

    Source: He et al. 2015, section 2.1.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    weight : Value or array
        [C], a factor for each channel, or [1] for all.

    Returns
    -------
    Value
        y, float32.

    Raises
    ------
    DtypeError
        For operands that are not float32.
    ShapeError
        For a weight of another shape.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> import numpy as np
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.prelu(x, np.full(4, 0.25, np.float32)).shape
    (1, 4, 8, 8)
    """
    return ops.prelu(input, weight)


def linear(input: Value, weight: Any, bias: Any = None) -> Value:
    """y = x W^T + b: x [..., in] -> [..., out].

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    weight : Value or array
        W [out, in].
    bias : Value or array, optional
        b [out].

    Returns
    -------
    Value
        y, float32.

    Raises
    ------
    DtypeError
        For operands that are not float32.
    ShapeError
        For shapes that do not fit.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> import numpy as np
    >>> x = clcnn.Graph().input("x", (2, 7, 8))
    >>> F.linear(x, np.ones((5, 8), np.float32)).shape
    (2, 7, 5)
    """
    return ops.linear(input, weight, bias)


def _conv(rank: int) -> Callable[..., Value]:
    def function(
        input: Value,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Ints | str = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ) -> Value:
        owner = f"conv{rank}d"
        sizes = _rank(owner, input, weight, rank)
        far = ntuple(owner, "dilation", dilation, rank, 1)
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(far, sizes)]
            pads = [t // 2 for t in total] + [t - t // 2 for t in total]
            if any(s != 1 for s in ntuple(owner, "stride", stride, rank, 1)):
                raise ArgumentError(f"{owner}: padding='same' needs stride 1, not {stride}")
        elif isinstance(padding, str) and padding != "valid":
            raise ArgumentError(f"{owner}: padding={padding!r} must be 'same', 'valid' or ints")
        else:
            pads = list(ntuple(owner, "padding", 0 if padding == "valid" else padding, rank, 0))
        steps = ntuple(owner, "stride", stride, rank, 1)
        return ops.conv(input, weight, bias, stride=steps, padding=pads, dilation=far, groups=groups)

    function.__name__ = function.__qualname__ = f"conv{rank}d"
    call = f"conv{rank}d(x, np.ones({(8, 3, *[3] * rank)}, np.float32), padding=1)"
    function.__doc__ = CONV.format(
        what="Convolution (cross-correlation)",
        layer=f"Conv{rank}d",
        weight="[out, in / groups, *kernel]",
        others=_docs.chosen(conv.Conv2d, "stride", "padding", "dilation", "groups"),
        example=_docs.example(call, (1, 3, *[6] * rank), (1, 8, *[6] * rank), "import numpy as np"),
    )
    return function


def _conv_transpose(rank: int) -> Callable[..., Value]:
    def function(
        input: Value,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Ints = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Value:
        owner = f"conv_transpose{rank}d"
        _rank(owner, input, weight, rank)
        given = {"stride": (stride, 1), "padding": (padding, 0), "output_padding": (output_padding, 0)}
        given["dilation"] = (dilation, 1)
        attrs: dict[str, Any] = {
            name: ntuple(owner, name, x, rank, least) for name, (x, least) in given.items()
        }
        return ops.conv_transpose(input, weight, bias, groups=groups, **attrs)

    function.__name__ = function.__qualname__ = f"conv_transpose{rank}d"
    call = f"conv_transpose{rank}d(x, np.ones({(3, 8, *[2] * rank)}, np.float32), stride=2)"
    function.__doc__ = CONV.format(
        what="Transposed convolution",
        layer=f"ConvTranspose{rank}d",
        weight="[in, out / groups, *kernel]",
        others=_docs.chosen(
            conv.ConvTranspose2d, "stride", "padding", "output_padding", "groups", "dilation"
        ),
        example=_docs.example(call, (1, 3, *[6] * rank), (1, 8, *[12] * rank), "import numpy as np"),
    )
    return function


def _rank(owner: str, x: Value, weight: Any, rank: int) -> tuple[int, ...]:
    """The kernel's size. Raises ShapeError for another rank."""
    have = tuple(weight.shape)
    if len(have) != rank + 2 or x.ndim != rank + 2:
        raise ShapeError(f"{owner}: input {list(x.shape)} and weight {list(have)} must have rank {rank + 2}")
    return have[2:]


conv1d, conv2d, conv3d = _conv(1), _conv(2), _conv(3)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _conv_transpose(1),
    _conv_transpose(2),
    _conv_transpose(3),
)


def scaled_dot_product_attention(
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Value:
    """softmax(scale * q k^T + attn_mask) v: q [..., L, D], k [..., S, D], v [..., S, E] -> [..., L, E].

    Source: Vaswani et al. 2017, section 3.2.1.

    Parameters
    ----------
    query, key, value : Value or array
        q, k and v, float32, which differ in their last two dimensions only; one at least is a Value.
    attn_mask : Value or array, optional
        Broadcasts to [..., L, S]. float32 is added, where -inf leaves an element out; of bool, True keeps it.
    dropout_p : float
        Accepted for compatibility: only 0.
    is_causal : bool
        Leaves out the elements of key behind that of query. Default False.
    scale : float, optional
        1 / sqrt(D) where not given.

    Returns
    -------
    Value
        The sums of the rows of value, float32.

    Raises
    ------
    ArgumentError
        For another dropout_p.
    DtypeError
        For operands that are not float32, or a mask that is neither float32 nor bool.
    ShapeError
        For shapes that do not fit.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (2, 4, 5, 16))
    >>> F.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (2, 4, 5, 16)
    """
    if dropout_p:
        raise ArgumentError(f"scaled_dot_product_attention: dropout_p={dropout_p} is not offered")
    operands = (query, key, value, attn_mask)
    if attn_mask is not None and np.dtype(attn_mask.dtype) == np.bool_:
        graph = next(x.graph for x in operands if isinstance(x, Value))
        kept, left_out = (graph.constant(np.asarray(x, np.float32)) for x in (0.0, -np.inf))
        attn_mask = ops.where(attn_mask, kept, left_out)
    return ops.scaled_dot_product_attention(
        query, key, value, attn_mask, scale=1 / math.sqrt(query.shape[-1]) if scale is None else scale,
        is_causal=is_causal,
    )  # fmt: skip
