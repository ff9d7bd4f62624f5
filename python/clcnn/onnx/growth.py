"""Which operators are computed at import when all their inputs are constants, and what that costs at most.

A few bytes of a model can ask for any amount of memory. So every operator that is folded has a rule, which
bounds what computing it makes before anything is computed: elements of its results and of what NumPy needs on
the way. An operator without a rule is not folded: the device computes it, or its parts are folded.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper

Arrays = Sequence[NDArray[Any] | None]
Rule = Callable[[onnx.NodeProto, Arrays], int]

STEP = 32  # elements that NumPy works on while Python takes one step of a loop
BOUNDLESS = 1 << 62
_FUSED = 16  # multiply-adders that take as long as an element that is stored


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = [a for a in node.attribute if a.name == name]
    return helper.get_attribute_value(found[0]) if found else default


def _given(arrays: Arrays, index: int) -> NDArray[Any] | None:
    return arrays[index] if index < len(arrays) else None


def _shape(arrays: Arrays, index: int = 0) -> tuple[int, ...]:
    array = _given(arrays, index)
    return () if array is None else array.shape


def _numbers(arrays: Arrays, index: int) -> list[int]:
    """The values of an input as whole numbers; those that are none count without bound."""
    array = _given(arrays, index)
    values = [] if array is None else array.reshape(-1).tolist()
    return [int(v) if math.isfinite(v) else BOUNDLESS for v in values]


def _number(arrays: Arrays, index: int, default: int = 0) -> int:
    return abs(next(iter(_numbers(arrays, index)), default))


def _dimension(shape: Sequence[int], axis: int, default: int = 1) -> int:
    return shape[axis] if -len(shape) <= axis < len(shape) else default


def _product(numbers: Sequence[int]) -> int:
    """Of lengths; negative ones are refused later."""
    return math.prod(max(n, 0) for n in numbers)


def _together(*shapes: Sequence[int]) -> int:
    """Elements of what shapes broadcast to."""
    columns = itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    return _product([max(column) for column in columns])


# ---- rules -------------------------------------------------------------------------------------------------


def _inputs(node: onnx.NodeProto, arrays: Arrays) -> int:
    """The results have no more elements than the inputs."""
    return sum(a.size for a in arrays if a is not None)


def _broadcast(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _together(*(a.shape for a in arrays if a is not None))


def _reduced(node: onnx.NodeProto, arrays: Arrays) -> int:
    """A sum over a dimension without elements has some."""
    return math.prod(max(n, 1) for n in _shape(arrays)) + _inputs(node, arrays)


def _per_channel(node: onnx.NodeProto, arrays: Arrays) -> int:
    """Parameters along one dimension, where NumPy broadcasts those that do not fit."""
    channels = max(_dimension(_shape(arrays), int(_attribute(node, "axis", 1))), 1)
    each = [-(-a.size // channels) for a in arrays[1:] if a is not None and a.size > 1]
    return 4 * max(math.prod(_shape(arrays)), 1) * max(each, default=1)


def _constant(node: onnx.NodeProto, arrays: Arrays) -> int:
    sparse = any(a.type == onnx.AttributeProto.SPARSE_TENSOR for a in node.attribute)
    return BOUNDLESS if sparse else sum(a.ByteSize() for a in node.attribute)


def _constant_of_shape(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _product(_numbers(arrays, 0))


def _range(node: onnx.NodeProto, arrays: Arrays) -> int:
    bounds = [a.reshape(-1).tolist() for a in arrays if a is not None]
    if [len(values) for values in bounds] != [1, 1, 1]:
        return BOUNDLESS
    (start,), (limit,), (delta,) = bounds
    steps = abs((limit - start) / delta) if delta else math.inf
    return 2 * math.ceil(steps) if math.isfinite(steps) else BOUNDLESS


def _expand(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape = _numbers(arrays, 1)
    return _product(shape) + _together(_shape(arrays), shape)


def _tile(node: onnx.NodeProto, arrays: Arrays) -> int:
    return math.prod(max(n, 1) for n in (*_shape(arrays), *_numbers(arrays, 1)))


def _pad(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape = _shape(arrays)
    pads = _numbers(arrays, 1) or list(_attribute(node, "pads", ())) or list(_attribute(node, "paddings", ()))
    axes = _numbers(arrays, 3) or list(range(len(shape)))
    after = list(shape)
    for axis, first, last in zip(axes, pads, pads[len(pads) // 2 :], strict=False):
        if -len(shape) <= axis < len(shape):
            after[axis] += max(first, 0) + max(last, 0)
    return _product(after)


def _center_crop_pad(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape, sizes = list(_shape(arrays)), _numbers(arrays, 1)
    for axis, size in zip(_attribute(node, "axes", range(len(shape))), sizes, strict=False):
        if -len(shape) <= axis < len(shape):
            shape[axis] = size
    return _product(shape)


def _gather(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape, axis = list(_shape(arrays)), int(_attribute(node, "axis", 0))
    if -len(shape) <= axis < len(shape):
        shape[axis] = 1
    return _product(shape) * math.prod(_shape(arrays, 1))


def _gather_elements(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _inputs(node, arrays) + STEP * _dimension(_shape(arrays), 0)


def _gather_nd(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape, at = _shape(arrays), _shape(arrays, 1)
    behind = max(int(_attribute(node, "batch_dims", 0)), 0) + _dimension(at, -1)
    return _product(at[:-1]) * (_product(shape[behind:]) + STEP)


def _scatter_elements(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _inputs(node, arrays) + STEP * _product(_shape(arrays, 1))


def _scatter_nd(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _inputs(node, arrays) + STEP * _product(_shape(arrays, 1)[:-1])


def _one_hot(node: onnx.NodeProto, arrays: Arrays) -> int:
    return 3 * _number(arrays, 1) * (math.prod(_shape(arrays)) + 1)


def _eye_like(node: onnx.NodeProto, arrays: Arrays) -> int:
    shape = _shape(arrays)
    return _product(shape if len(shape) > 1 else (*shape, *shape))


def _non_zero(node: onnx.NodeProto, arrays: Arrays) -> int:
    return 2 * _inputs(node, arrays) * max(len(_shape(arrays)), 1)


def _sorted(node: onnx.NodeProto, arrays: Arrays) -> int:
    """TopK and Unique, which make indices of all dimensions and sort."""
    k = _number(arrays, 1, int(_attribute(node, "k", 0)))
    return math.prod(_shape(arrays)) * (len(_shape(arrays)) + 8) + k


def _reverse_sequence(node: onnx.NodeProto, arrays: Arrays) -> int:
    return 2 * _inputs(node, arrays) + STEP * math.prod(_shape(arrays, 1))


def _split(node: onnx.NodeProto, arrays: Arrays) -> int:
    return _inputs(node, arrays) + STEP * max(int(_attribute(node, "num_outputs", 0)), len(node.output))


def _window(node: onnx.NodeProto, arrays: Arrays) -> int:
    """Sums of cosines in double precision."""
    return 8 * _number(arrays, 0)


def _mel_weights(node: onnx.NodeProto, arrays: Arrays) -> int:
    bins, lines = _number(arrays, 0), _number(arrays, 1) // 2 + 1
    return 2 * bins * lines + STEP * (bins + 2 * lines)


def _multiplied(batch: int, m: int, k: int, n: int) -> int:
    return max(batch * m * n, batch * m * n * k // _FUSED)


def _matmul(node: onnx.NodeProto, arrays: Arrays) -> int:
    a, b = _shape(arrays), _shape(arrays, 1)
    columns = _dimension(b, -1) if len(b) > 1 else 1
    return _multiplied(_together(a[:-2], b[:-2]), _dimension(a, -2), _dimension(a, -1), columns)


def _gemm(node: onnx.NodeProto, arrays: Arrays) -> int:
    a, b = _shape(arrays, 0), _shape(arrays, 1)
    m, k = (a if not _attribute(node, "transA", 0) else a[::-1]) if len(a) == 2 else (1, 1)
    n = _dimension(b, 0 if _attribute(node, "transB", 0) else -1)
    return _multiplied(1, m, k, n) + _together((m, n), _shape(arrays, 2))


def _einsum(node: onnx.NodeProto, arrays: Arrays) -> int:
    """All indices run: terms like "ij,...jk" name the dimensions of an input each."""
    equation = _attribute(node, "equation", b"").decode(errors="replace").replace(" ", "")
    terms, sizes, rest = equation.partition("->")[0].split(","), dict[str, int](), list[tuple[int, ...]]()
    if len(terms) != len(arrays) or len(terms) > 8:
        return BOUNDLESS
    for term, array in zip(terms, arrays, strict=True):
        front, dots, back = term.partition("...")
        shape = () if array is None else array.shape
        named = [*zip(front, shape, strict=False), *zip(back[::-1], shape[::-1], strict=False)]
        for letter, n in named:
            sizes[letter] = max(n, sizes.get(letter, 0))
        rest.append(shape[len(front) : len(shape) - len(back)] if dots else ())
    return math.prod(sizes.values()) * _together(*rest)


# ---- the table ---------------------------------------------------------------------------------------------

RULES: dict[str, Rule] = {
    **dict.fromkeys(("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot"), _inputs),
    **dict.fromkeys(("Cast", "CastLike", "Ceil", "Celu", "Compress", "Concat", "Cos", "Cosh"), _inputs),
    **dict.fromkeys(("CumProd", "CumSum", "DepthToSpace", "Elu", "Erf", "Exp", "Flatten", "Floor"), _inputs),
    **dict.fromkeys(("HardSigmoid", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "LogSoftmax"), _inputs),
    **dict.fromkeys(("Neg", "Not", "Reciprocal", "Relu", "Reshape", "Round", "Selu", "Shape"), _inputs),
    **dict.fromkeys(("Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax"), _inputs),
    **dict.fromkeys(("Softplus", "Softsign", "SpaceToDepth", "Sqrt", "Squeeze", "Swish", "Tan"), _inputs),
    **dict.fromkeys(("Tanh", "ThresholdedRelu", "Transpose", "Trilu", "Unsqueeze"), _inputs),
    **dict.fromkeys(("Add", "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Clip"), _broadcast),
    **dict.fromkeys(("Div", "Equal", "Greater", "GreaterOrEqual", "LayerNormalization"), _broadcast),
    **dict.fromkeys(("Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu"), _broadcast),
    **dict.fromkeys(("Pow", "RMSNormalization", "Sub", "Sum", "Where", "Xor"), _broadcast),
    **dict.fromkeys(("ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum"), _reduced),
    **dict.fromkeys(("ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin"), _reduced),
    **dict.fromkeys(("ReduceProd", "ReduceSum", "ReduceSumSquare"), _reduced),
    **dict.fromkeys(("BatchNormalization", "DequantizeLinear", "InstanceNormalization"), _per_channel),
    "QuantizeLinear": _per_channel,
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _window),
    **dict.fromkeys(("TopK", "Unique"), _sorted),
    "CenterCropPad": _center_crop_pad,
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Einsum": _einsum,
    "Expand": _expand,
    "EyeLike": _eye_like,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MelWeightMatrix": _mel_weights,
    "NonZero": _non_zero,
    "OneHot": _one_hot,
    "Pad": _pad,
    "Range": _range,
    "ReverseSequence": _reverse_sequence,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Split": _split,
    "Tile": _tile,
}
