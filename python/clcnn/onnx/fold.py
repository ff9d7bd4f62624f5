"""Computing at import what depends on constants alone, by NumPy or with onnx's reference implementation."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from clcnn.onnx import arithmetic, functions, growth, quantised
from clcnn.onnx.call import Refusal
from clcnn.onnx.tensors import widened

MAX_GROWTH = 1 << 27  # elements that computing one constant may make, or as many as its inputs have
_LAST_BEFORE_MODES = 13  # opset of BatchNormalization without the attribute training_mode
_WITH_MODES = 15
_SOFTMAX_OF_AN_AXIS = 13
_FEW = 64  # elements that a node takes, and makes, which is computed once for all that are alike


def _quantized(attrs: dict[str, Any], x: Any, scale: Any, zero: Any = None) -> NDArray[Any]:
    own = None if zero is None else zero.dtype.name
    dtype = quantised.wanted_type(own, int(attrs.get("output_dtype", 0)))
    return quantised.quantize_array(x, scale, zero, dtype, attrs.get("axis", 1), attrs.get("block_size", 0))


def _dequantized(attrs: dict[str, Any], x: Any, scale: Any, zero: Any = None) -> NDArray[Any]:
    return quantised.dequantize_array(x, scale, zero, attrs.get("axis", 1), attrs.get("block_size", 0))


def _expanded(attrs: dict[str, Any], x: Any, shape: Any) -> NDArray[Any]:
    try:
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape.tolist())))
    except (ValueError, TypeError) as error:
        raise Refusal(f"its constant inputs could not be evaluated: {error}") from error


# What the reference gets wrong, which checks neither scales nor zero points, and copies what it repeats.
_OWN: dict[str, Callable[..., NDArray[Any]]] = {
    "Expand": _expanded,
    "Identity": lambda attrs, x: x,
    "QuantizeLinear": _quantized,
    "DequantizeLinear": _dequantized,
}


def held_bytes(array: NDArray[Any]) -> int:
    """Memory behind an array, of which dimensions that only repeat take none."""
    return int(array.itemsize * math.prod(n for n, step in zip(array.shape, array.strides) if step))


def can_fold(domain: str, op: str) -> bool:
    """Whether to compute an operator now when all its inputs are constants."""
    return not domain and op in growth.RULES


class Evaluator:
    """Computes constants. The reference takes several times longer to take a node in than to compute it, and
    the shapes that exporters write out are thousands of nodes of a few forms: each form is taken in once, and
    computed once for the same few numbers."""

    def __init__(self) -> None:
        self._forms: dict[Any, Any] = {}
        self._known: dict[Any, list[NDArray[Any] | None]] = {}

    def evaluate(
        self, node: onnx.NodeProto, opsets: dict[str, int], arrays: list[NDArray[Any] | None]
    ) -> list[NDArray[Any] | None]:
        """The outputs of one node; None for those without a name. Raises Refusal when the reference cannot,
        or would make too much."""
        least = sum(a.size for a in {id(a): a for a in arrays if a is not None}.values())
        grown, most = growth.RULES[node.op_type](node, arrays), max(MAX_GROWTH, least)
        if grown > most:
            raise Refusal(f"computing a constant would make {grown} elements, more than the {most} allowed")
        if node.op_type in _OWN:
            return [_checked(_OWN[node.op_type](functions.attributes(node), *arrays))]
        if node.op_type in arithmetic.OPERATORS:
            made = _guarded(lambda: arithmetic.compute(node.op_type, functions.attributes(node), arrays))
            if made is not None:
                return [_checked(made)]
        form, numbers = _form_key(node, opsets.get("", 1), arrays), _few_numbers(arrays)
        if numbers is None:
            return self._computed(node, form, arrays)
        known = self._known.get((form, numbers))
        if known is None:
            known = self._computed(node, form, arrays)
            if _few_numbers(known) is not None:
                self._known[form, numbers] = known
        return list(known)

    def _computed(
        self, node: onnx.NodeProto, form: tuple[Any, ...], arrays: list[NDArray[Any] | None]
    ) -> list[NDArray[Any] | None]:
        feeds = {f"x{i}": a for i, a in enumerate(arrays) if a is not None}
        results = _guarded(lambda: self._taken_in(node, form).run(None, feeds))
        made = iter([_checked(r) for r in results])
        return [next(made, None) if name else None for name in node.output]

    def _taken_in(self, node: onnx.NodeProto, form: tuple[Any, ...]) -> Any:
        """A reference of this node and all that differ from it in names and values alone."""
        if form not in self._forms:
            _, version, given, *_ = form
            self._forms[form] = _reference(node, version, given)
        return self._forms[form]


def _guarded(compute: Callable[[], Any]) -> Any:
    """What it gives. Raises Refusal for whatever it runs into on a wrong node."""
    try:
        with np.errstate(all="ignore"):
            return compute()
    except (KeyboardInterrupt, Refusal):
        raise
    except MemoryError as error:
        raise Refusal("there is not enough memory for the constant that it makes") from error
    except Exception as error:
        raise Refusal(
            f"its constant inputs could not be evaluated: {type(error).__name__}: {error}"
        ) from error


def _form_key(node: onnx.NodeProto, version: int, arrays: list[NDArray[Any] | None]) -> tuple[Any, ...]:
    """The same for nodes that differ in names and values alone."""
    given = tuple(a is not None for a in arrays)
    named = tuple(map(bool, node.output))
    attributes = tuple(sorted(a.SerializeToString(deterministic=True) for a in node.attribute))
    return node.op_type, version, given, named, attributes


def _few_numbers(arrays: list[NDArray[Any] | None]) -> tuple[Any, ...] | None:
    """The same for equal arrays; None if they are not small, or have no numbers."""
    if any(a is not None and (a.size > _FEW or a.dtype.hasobject) for a in arrays):
        return None
    return tuple(None if a is None else (a.dtype, a.shape, a.tobytes()) for a in arrays)


def _reference(node: onnx.NodeProto, version: int, given: tuple[bool, ...]) -> Any:
    """The node by itself: its inputs are x0, x1 and so on, or left out."""
    from onnx.reference import ReferenceEvaluator  # takes 20 ms, and many models have nothing to compute

    form, version = _form(node, version)
    inputs = [f"x{i}" if there else "" for i, there in enumerate(given)]
    outputs = [f"y{i}" if name else "" for i, name in enumerate(form.output)]
    alone = helper.make_node(form.op_type, inputs, outputs)
    alone.attribute.extend(form.attribute)
    unknown = helper.make_tensor_value_info
    graph = helper.make_graph(
        [alone],
        "fold",
        [unknown(name, onnx.TensorProto.UNDEFINED, None) for name in inputs if name],
        [unknown(name, onnx.TensorProto.UNDEFINED, None) for name in outputs if name],
    )
    return ReferenceEvaluator(helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)]))


def _form(node: onnx.NodeProto, version: int) -> tuple[onnx.NodeProto, int]:
    """The node as the reference gets it right. It takes every BatchNormalization of opset 13 and before for
    training, which further outputs ask for (and then the statistics of a constant are those of a weight that
    is standardised)."""
    if node.op_type in ("LogSoftmax", "Softmax") and version < _SOFTMAX_OF_AN_AXIS:
        raise Refusal("it is over all dimensions from its axis on")
    if node.op_type != "BatchNormalization" or version > _LAST_BEFORE_MODES:
        return node, version
    kept = [a for a in node.attribute if a.name in ("epsilon", "momentum")]
    if any(a.name == "spatial" and not a.i for a in node.attribute):
        raise Refusal("it keeps statistics for each element")
    training = any(node.output[1:])
    form = helper.make_node("BatchNormalization", node.input, node.output[: 3 if training else 1])
    form.attribute.extend(kept)
    form.attribute.append(helper.make_attribute("training_mode", int(training)))
    return form, _WITH_MODES


def _checked(result: Any) -> NDArray[Any]:
    if not isinstance(result, (np.ndarray, np.generic)) or np.asarray(result).dtype.kind not in "fiubV":
        raise Refusal("its result is not a tensor of numbers")
    array = widened(np.asarray(result))
    if array.dtype.kind == "V":
        raise Refusal(f"elements of type {array.dtype} are not supported")
    array.flags.writeable = False
    return array
