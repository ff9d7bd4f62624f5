"""Written by `make docs` from the operator tables; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from clcnn.graph import Value

Operand = Value | NDArray[Any] | float
MANY_OUTPUTS: tuple[str, ...]
ON_BYTES: tuple[str, ...]
MADE_BY_REWRITES: tuple[str, ...]
MADE_BY_LAYOUT: tuple[str, ...]

__all__ = [
    "abs",
    "acos",
    "acosh",
    "adamw_update",
    "adaptive_avg_pool",
    "adaptive_max_pool",
    "add",
    "argmax",
    "argmin",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "avg_pool",
    "batch_norm",
    "batch_norm_train",
    "batch_norm_train_grad",
    "cast",
    "ceil",
    "celu",
    "clip",
    "concat",
    "conv",
    "conv_filter_grad",
    "conv_transpose",
    "cos",
    "cosh",
    "cross_entropy",
    "cross_entropy_grad",
    "cumsum",
    "deform_conv",
    "depthwise_nhwc",
    "div",
    "dropout",
    "dropout_train",
    "elu",
    "equal",
    "erf",
    "exp",
    "expand",
    "fake_quantize",
    "flatten",
    "floor",
    "gather",
    "gather_elements",
    "gather_nd",
    "gelu",
    "gelu_grad",
    "gemm",
    "greater",
    "greater_equal",
    "grid_sample",
    "group_norm",
    "gru",
    "gru_cell",
    "hard_sigmoid",
    "hard_swish",
    "hard_swish_grad",
    "identity",
    "instance_norm",
    "is_inf",
    "is_nan",
    "l2_norm",
    "layer_norm",
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
    "lp_pool",
    "lstm",
    "lstm_cell",
    "matmul",
    "max_pool",
    "max_pool_grad",
    "max_pool_indices",
    "max_roi_pool",
    "max_unpool",
    "maximum",
    "minimum",
    "mish",
    "mod",
    "mul",
    "neg",
    "nms",
    "nonzero",
    "pad",
    "pow",
    "prelu",
    "reciprocal",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "relu",
    "relu6",
    "relu_grad",
    "reshape",
    "resize",
    "rms_norm",
    "roi_align",
    "rotary_embedding",
    "round",
    "scaled_dot_product_attention",
    "scatter",
    "selu",
    "sgd_update",
    "shrink",
    "sigmoid",
    "sign",
    "silu",
    "silu_grad",
    "sin",
    "sinh",
    "slice",
    "softmax",
    "softplus",
    "softsign",
    "split",
    "sqrt",
    "squeeze",
    "star_relu",
    "sub",
    "swish",
    "tan",
    "tanh",
    "thresholded_relu",
    "topk",
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
def adamw_update(
    p: Operand,
    g: Operand,
    m: Operand,
    v: Operand,
    hyper: Operand,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-08,
    weight_decay: float = 0.01,
    decoupled: bool = True,
    name: str | None = None,
) -> tuple[Value, ...]: ...
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
def argmax(
    x: Operand,
    *,
    dim: int = 0,
    keepdims: bool = True,
    select_last_index: bool = False,
    name: str | None = None,
) -> Value: ...
def argmin(
    x: Operand,
    *,
    dim: int = 0,
    keepdims: bool = True,
    select_last_index: bool = False,
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
def batch_norm_train(
    x: Operand,
    weight: Operand,
    bias: Operand,
    *,
    eps: float = 1e-05,
    low: float = ...,
    high: float = ...,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def batch_norm_train_grad(
    dy: Operand,
    x: Operand,
    weight: Operand,
    mean: Operand,
    var: Operand,
    bias: Operand,
    *,
    eps: float = 1e-05,
    low: float = ...,
    high: float = ...,
    name: str | None = None,
) -> tuple[Value, ...]: ...
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
def conv_filter_grad(
    x: Operand,
    dy: Operand,
    *,
    kernel_size: int | Sequence[int],
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
def cross_entropy(
    x: Operand,
    labels: Operand,
    *,
    reduction: Literal["mean", "none"] = "mean",
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Value: ...
def cross_entropy_grad(
    x: Operand,
    labels: Operand,
    dy: Operand,
    *,
    reduction: Literal["mean", "none"] = "mean",
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Value: ...
def cumsum(
    x: Operand,
    *,
    dim: int = 0,
    exclusive: bool = False,
    reverse: bool = False,
    name: str | None = None,
) -> Value: ...
def deform_conv(
    x: Operand,
    w: Operand,
    offset: Operand,
    b: Operand | None = None,
    mask: Operand | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    offset_groups: int = 1,
    name: str | None = None,
) -> Value: ...
def depthwise_nhwc(
    x: Operand,
    w: Operand,
    b: Operand | None = None,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
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
def dropout_train(
    x: Operand,
    key: Operand,
    *,
    p: float = 0.5,
    layer: int = 0,
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
def fake_quantize(
    x: Operand,
    *,
    scale: float = 1.0,
    zero_point: float = 0.0,
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
def gelu_grad(
    a: Operand,
    b: Operand,
    *,
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
def grid_sample(
    x: Operand,
    grid: Operand,
    *,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
    name: str | None = None,
) -> Value: ...
def group_norm(
    x: Operand,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    groups: int,
    eps: float = 1e-05,
    name: str | None = None,
) -> Value: ...
def gru(
    x: Operand,
    h: Operand,
    r: Operand,
    b: Operand,
    *,
    reverse: bool = False,
    name: str | None = None,
) -> Value: ...
def gru_cell(
    x: Operand,
    h: Operand,
    r: Operand,
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
def hard_swish_grad(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def identity(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def instance_norm(
    x: Operand,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    eps: float = 1e-05,
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
def l2_norm(
    x: Operand,
    *,
    dim: int = -1,
    eps: float = 1e-12,
    name: str | None = None,
) -> Value: ...
def layer_norm(
    x: Operand,
    weight: Operand | None = None,
    bias: Operand | None = None,
    *,
    dim: int = -1,
    dims: int = 0,
    eps: float = 1e-05,
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
def lp_pool(
    x: Operand,
    *,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = ...,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    p: int = 2,
    name: str | None = None,
) -> Value: ...
def lstm(
    x: Operand,
    h: Operand,
    c: Operand,
    r: Operand,
    *,
    reverse: bool = False,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def lstm_cell(
    x: Operand,
    h: Operand,
    c: Operand,
    r: Operand,
    *,
    name: str | None = None,
) -> tuple[Value, ...]: ...
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
def max_pool_grad(
    x: Operand,
    dy: Operand,
    *,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = ...,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    rectified: bool = False,
    name: str | None = None,
) -> Value: ...
def max_pool_indices(
    x: Operand,
    *,
    kernel_size: int | Sequence[int],
    stride: int | Sequence[int] = ...,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
    storage_order: int = 0,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def max_roi_pool(
    x: Operand,
    rois: Operand,
    *,
    output_size: int | Sequence[int],
    spatial_scale: float = 1.0,
    name: str | None = None,
) -> Value: ...
def max_unpool(
    x: Operand,
    indices: Operand,
    *,
    output_size: int | Sequence[int],
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
def nms(
    boxes: Operand,
    scores: Operand,
    *,
    max_output: int,
    iou_threshold: float = 0.0,
    score_threshold: float = ...,
    center_point_box: bool = False,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def nonzero(
    x: Operand,
    *,
    name: str | None = None,
) -> tuple[Value, ...]: ...
def pad(
    x: Operand,
    *,
    pads: int | Sequence[int],
    value: float = 0.0,
    mode: Literal["constant", "reflect", "edge", "wrap", "roll"] = "constant",
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
def reduce_prod(
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
def relu_grad(
    a: Operand,
    b: Operand,
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
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    coordinates: Literal["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize"] = "half_pixel",
    nearest_rounding: Literal["floor", "round_prefer_floor", "round_prefer_ceil", "ceil"] = "floor",
    cubic_coeff_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    extrapolation_value: float = 0.0,
    roi: float | Sequence[float] = ...,
    name: str | None = None,
) -> Value: ...
def rms_norm(
    x: Operand,
    weight: Operand | None = None,
    *,
    dim: int = -1,
    dims: int = 0,
    eps: float = 1e-05,
    name: str | None = None,
) -> Value: ...
def roi_align(
    x: Operand,
    rois: Operand,
    batch_indices: Operand,
    *,
    output_size: int | Sequence[int],
    mode: Literal["avg", "max"] = "avg",
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinates: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
    name: str | None = None,
) -> Value: ...
def rotary_embedding(
    x: Operand,
    cos: Operand,
    sin: Operand,
    *,
    interleaved: bool = False,
    name: str | None = None,
) -> Value: ...
def round(
    x: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def scaled_dot_product_attention(
    q: Operand,
    k: Operand,
    v: Operand,
    attn_mask: Operand | None = None,
    *,
    scale: float = 0.0,
    is_causal: bool = False,
    name: str | None = None,
) -> Value: ...
def scatter(
    x: Operand,
    indices: Operand,
    updates: Operand,
    *,
    dim: int = 0,
    reduction: Literal["none", "add", "mul", "max", "min"] = "none",
    name: str | None = None,
) -> Value: ...
def selu(
    x: Operand,
    *,
    alpha: float = 1.6732632423543772,
    gamma: float = 1.0507009873554805,
    name: str | None = None,
) -> Value: ...
def sgd_update(
    p: Operand,
    g: Operand,
    m: Operand,
    hyper: Operand,
    *,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    name: str | None = None,
) -> tuple[Value, ...]: ...
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
def silu_grad(
    a: Operand,
    b: Operand,
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
def star_relu(
    x: Operand,
    *,
    alpha: float = 0.8944271909999159,
    beta: float = -0.4472135954999579,
    name: str | None = None,
) -> Value: ...
def sub(
    a: Operand,
    b: Operand,
    *,
    name: str | None = None,
) -> Value: ...
def swish(
    x: Operand,
    *,
    alpha: float = 1.0,
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
def topk(
    x: Operand,
    *,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Value, ...]: ...
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
