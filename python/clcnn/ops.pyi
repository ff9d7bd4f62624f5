"""Written by `python -m clcnn._stubgen` from the operator tables; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from clcnn.graph import Value

Operand = Value | NDArray[Any] | float
MANY_OUTPUTS: tuple[str, ...]
MADE_BY_REWRITES: tuple[str, ...]

__all__ = [
    "abs",
    "acos",
    "acosh",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "add",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "avg_pool",
    "batch_norm",
    "cast",
    "ceil",
    "celu",
    "clip",
    "concat",
    "conv",
    "conv_transpose",
    "cos",
    "cosh",
    "div",
    "dropout",
    "elu",
    "equal",
    "erf",
    "exp",
    "expand",
    "flatten",
    "floor",
    "gather",
    "gather_elements",
    "gather_nd",
    "gelu",
    "gemm",
    "greater",
    "greater_equal",
    "hard_sigmoid",
    "hard_swish",
    "identity",
    "is_inf",
    "is_nan",
    "leaky_relu",
    "less",
    "less_equal",
    "linear",
    "local_response_norm",
    "log",
    "log_softmax",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "max_pool",
    "maximum",
    "minimum",
    "mish",
    "mod",
    "mul",
    "neg",
    "pad",
    "pow",
    "prelu",
    "reciprocal",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_sum",
    "relu",
    "relu6",
    "reshape",
    "resize",
    "round",
    "selu",
    "shrink",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "split",
    "sqrt",
    "squeeze",
    "sub",
    "tan",
    "tanh",
    "thresholded_relu",
    "transpose",
    "unsqueeze",
    "where",
]

def abs(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def acos(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def acosh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def adaptive_avg_pool(
    x: Operand,
    *,
    output_size: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def adaptive_max_pool(
    x: Operand,
    *,
    output_size: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def add(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def asin(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def asinh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def atan(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def atanh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def avg_pool(
    x: Operand,
    *,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = ...,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    name: str | None = None,
) -> Value: ...
def batch_norm(
    x: Operand,
    weight: Operand,
    bias: Operand,
    running_mean: Operand,
    running_var: Operand,
    *,
    eps: float = 1e-05,
    name: str | None = None,
) -> Value: ...
def cast(
    x: Operand,
    *,
    to: Literal["float32", "int64", "int32", "bool"] = "float32",
    name: str | None = None,
) -> Value: ...
def ceil(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def celu(
    x: Operand,
    *,
    alpha: float = 1.0,
    name: str | None = None,
) -> Value: ...
def clip(
    x: Operand,
    *,
    min: float = ...,
    max: float = ...,
    name: str | None = None,
) -> Value: ...
def concat(
    *xs: Operand | Sequence[Operand],
    dim: int = 1,
    name: str | None = None,
) -> Value: ...
def conv(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    name: str | None = None,
) -> Value: ...
def conv_transpose(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    output_padding: int | Sequence[int] = 0,
    groups: int = 1,
    name: str | None = None,
) -> Value: ...
def cos(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def cosh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def div(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def dropout(
    x: Operand,
    *,
    p: float = 0.5,
    name: str | None = None,
) -> Value: ...
def elu(
    x: Operand,
    *,
    alpha: float = 1.0,
    name: str | None = None,
) -> Value: ...
def equal(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def erf(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def exp(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def expand(
    x: Operand,
    *,
    shape: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def flatten(
    x: Operand,
    *,
    start_dim: int = 1,
    end_dim: int = -1,
    name: str | None = None,
) -> Value: ...
def floor(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def gather(
    x: Operand,
    indices: Operand,
    *,
    dim: int = 0,
    name: str | None = None,
) -> Value: ...
def gather_elements(
    x: Operand,
    indices: Operand,
    *,
    dim: int = 0,
    name: str | None = None,
) -> Value: ...
def gather_nd(
    x: Operand,
    indices: Operand,
    *,
    batch_dims: int = 0,
    name: str | None = None,
) -> Value: ...
def gelu(
    x: Operand,
    *,
    approximate: Literal["none", "tanh"] = "none",
    name: str | None = None,
) -> Value: ...
def gemm(
    a: Operand,
    b: Operand,
    c: Operand | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    trans_a: bool = False,
    trans_b: bool = False,
    name: str | None = None,
) -> Value: ...
def greater(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def greater_equal(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def hard_sigmoid(
    x: Operand,
    *,
    alpha: float = 0.16666666666666666,
    beta: float = 0.5,
    name: str | None = None,
) -> Value: ...
def hard_swish(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def identity(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def is_inf(
    x: Operand,
    *,
    sign: Literal["both", "positive", "negative"] = "both",
    name: str | None = None,
) -> Value: ...
def is_nan(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def leaky_relu(
    x: Operand,
    *,
    negative_slope: float = 0.01,
    name: str | None = None,
) -> Value: ...
def less(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def less_equal(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def linear(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    *,
    name: str | None = None,
) -> Value: ...
def local_response_norm(
    x: Operand,
    *,
    size: int,
    alpha: float = 0.0001,
    beta: float = 0.75,
    k: float = 1.0,
    name: str | None = None,
) -> Value: ...
def log(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def log_softmax(
    x: Operand,
    *,
    dim: int = -1,
    name: str | None = None,
) -> Value: ...
def logical_and(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def logical_not(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def logical_or(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def logical_xor(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def matmul(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def max_pool(
    x: Operand,
    *,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = ...,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Value: ...
def maximum(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def minimum(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def mish(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def mod(
    a: Operand,
    b: Operand,
    *,
    sign: Literal["divisor", "dividend"] = "divisor",
    name: str | None = None,
) -> Value: ...
def mul(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def neg(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def pad(
    x: Operand,
    *,
    pads: int | Sequence[int],
    value: float = 0.0,
    mode: Literal["constant", "reflect", "edge", "wrap"] = "constant",
    name: str | None = None,
) -> Value: ...
def pow(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def prelu(
    x: Operand,
    slope: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def reciprocal(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def reduce_max(
    x: Operand,
    *,
    axes: int | Sequence[int] = ...,
    keepdims: bool = True,
    name: str | None = None,
) -> Value: ...
def reduce_mean(
    x: Operand,
    *,
    axes: int | Sequence[int] = ...,
    keepdims: bool = True,
    name: str | None = None,
) -> Value: ...
def reduce_min(
    x: Operand,
    *,
    axes: int | Sequence[int] = ...,
    keepdims: bool = True,
    name: str | None = None,
) -> Value: ...
def reduce_sum(
    x: Operand,
    *,
    axes: int | Sequence[int] = ...,
    keepdims: bool = True,
    name: str | None = None,
) -> Value: ...
def relu(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def relu6(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def reshape(
    x: Operand,
    *,
    shape: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def resize(
    x: Operand,
    *,
    size: int | Sequence[int] = ...,
    scales: float | Sequence[float] = ...,
    mode: Literal["nearest", "linear"] = "nearest",
    coordinates: Literal["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"] = "half_pixel",
    nearest_rounding: Literal["floor", "round_prefer_floor", "round_prefer_ceil", "ceil"] = "floor",
    name: str | None = None,
) -> Value: ...
def round(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def selu(
    x: Operand,
    *,
    alpha: float = 1.6732632423543772,
    gamma: float = 1.0507009873554805,
    name: str | None = None,
) -> Value: ...
def shrink(
    x: Operand,
    *,
    lambd: float = 0.5,
    bias: float = 0.0,
    name: str | None = None,
) -> Value: ...
def sigmoid(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def sign(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def silu(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def sin(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def sinh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def slice(
    x: Operand,
    *,
    starts: int | Sequence[int],
    ends: int | Sequence[int],
    axes: int | Sequence[int] = ...,
    steps: int | Sequence[int] = 1,
    name: str | None = None,
) -> Value: ...
def softmax(
    x: Operand,
    *,
    dim: int = -1,
    name: str | None = None,
) -> Value: ...
def softplus(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def softsign(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def split(
    x: Operand,
    *,
    sizes: int | Sequence[int],
    dim: int = 1,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def sqrt(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def squeeze(
    x: Operand,
    *,
    axes: int | Sequence[int] = ...,
    name: str | None = None,
) -> Value: ...
def sub(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def tan(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def tanh(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def thresholded_relu(
    x: Operand,
    *,
    alpha: float = 1.0,
    name: str | None = None,
) -> Value: ...
def transpose(
    x: Operand,
    *,
    perm: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def unsqueeze(
    x: Operand,
    *,
    axes: int | Sequence[int],
    name: str | None = None,
) -> Value: ...
def where(
    cond: Operand,
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
