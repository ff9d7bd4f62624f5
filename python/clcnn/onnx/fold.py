"""Computing at import what depends on constants alone, with onnx's own reference implementation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from clcnn.onnx.call import Refusal
from clcnn.onnx.tensors import widened

MAX_GROWTH = 1 << 27  # elements that one constant may grow to
# Too slow in the reference implementation, or a network rather than arithmetic on shapes: left to the device.
_HEAVY = frozenset(
    (
        *("AveragePool", "Conv", "ConvTranspose", "DeformConv", "GlobalAveragePool", "GlobalLpPool"),
        *(
            "GlobalMaxPool",
            "GridSample",
            "GRU",
            "LRN",
            "LSTM",
            "LpPool",
            "MaxPool",
            "MaxRoiPool",
            "MaxUnpool",
        ),
        *("NonMaxSuppression", "RNN", "Resize", "RoiAlign", "Upsample"),
    )
)
# Different at each run, control flow, or not about numbers.
_NEVER = frozenset(
    (
        *("Bernoulli", "Dropout", "If", "ImageDecoder", "Loop", "Multinomial", "RandomNormal"),
        *("RandomNormalLike", "RandomUniform", "RandomUniformLike", "Scan", "SequenceMap"),
    )
)
_MATRIX = ("Gemm", "MatMul", "Einsum")
_MATRIX_LIMIT = 1 << 20


def can_fold(op: str, arrays: list[NDArray[Any] | None]) -> bool:
    """Whether to compute an operator now, its inputs being these constants."""
    if op in _NEVER:
        return False
    empty = any(a is not None and a.size == 0 for a in arrays)
    if op in _HEAVY:
        return False
    return op not in _MATRIX or empty or all(a is None or a.size <= _MATRIX_LIMIT for a in arrays)


def evaluate(
    node: onnx.NodeProto, opsets: dict[str, int], arrays: list[NDArray[Any] | None]
) -> list[NDArray[Any] | None]:
    """The outputs of one node; None for those without a name. Raises Refusal when the reference cannot."""
    grown = _growth(node, arrays)
    if grown > MAX_GROWTH:
        raise Refusal(f"a constant of {grown} elements is more than the {MAX_GROWTH} that are allowed")
    feeds = {name: a for name, a in zip(node.input, arrays, strict=True) if name and a is not None}
    names = [name for name in node.output if name]
    unknown = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "fold",
        [unknown(name, onnx.TensorProto.UNDEFINED, None) for name in feeds],
        [unknown(name, onnx.TensorProto.UNDEFINED, None) for name in names],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    model = helper.make_model(graph, opset_imports=imports)
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(model).run(None, feeds)
    except (MemoryError, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever the reference implementation runs into on a wrong node
        raise Refusal(
            f"its constant inputs could not be evaluated: {type(error).__name__}: {error}"
        ) from error
    made = dict(zip(names, (_checked(r) for r in results), strict=True))
    return [made.get(name) for name in node.output]


def _checked(result: Any) -> NDArray[Any]:
    if not isinstance(result, (np.ndarray, np.generic)) or np.asarray(result).dtype.kind not in "fiubV":
        raise Refusal("its result is not a tensor of numbers")
    array = widened(np.asarray(result))
    if array.dtype.kind == "V":
        raise Refusal(f"elements of type {array.dtype} are not supported")
    array.flags.writeable = False
    return array


def _growth(node: onnx.NodeProto, arrays: list[NDArray[Any] | None]) -> int:
    """Elements of the result, where it can be larger than all inputs together."""
    first = arrays[0] if arrays else None
    second = arrays[1] if len(arrays) > 1 else None
    numbers = [int(n) for n in second.reshape(-1)] if second is not None and second.dtype.kind in "iu" else []
    if node.op_type == "ConstantOfShape" and first is not None:
        return math.prod(int(n) for n in first.reshape(-1))
    if node.op_type in ("Expand", "Tile") and first is not None:
        return first.size * math.prod(max(n, 1) for n in numbers)
    if node.op_type == "Concat":
        return sum(a.size for a in arrays if a is not None)
    if node.op_type == "Gather" and first is not None and second is not None:
        return first.size * second.size // max(min(first.shape, default=1), 1)
    if node.op_type == "OneHot" and first is not None:
        return first.size * max(numbers, default=1)
    if node.op_type == "Pad" and first is not None:
        numbers = numbers or [
            int(n) for a in node.attribute if a.name in ("pads", "paddings") for n in a.ints
        ]
        half = len(numbers) // 2
        return math.prod(n + max(a + b, 0) for n, a, b in zip(first.shape, numbers[:half], numbers[half:]))
    if node.op_type == "Range" and len(arrays) == 3 and all(a is not None and a.size == 1 for a in arrays):
        start, limit, delta = (float(a.reshape(-1)[0]) for a in arrays if a is not None)
        return (
            int(min(abs((limit - start) / delta), 2.0**60)) if delta and math.isfinite(start + limit) else 0
        )
    shapes = [a.shape for a in arrays if a is not None]
    try:
        return math.prod(np.broadcast_shapes(*shapes)) if len(shapes) <= 32 else 0
    except (ValueError, RuntimeError):
        return 0  # not an operator that broadcasts
