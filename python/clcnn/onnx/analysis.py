"""What can be said of a model before its shapes are known: inputs that decide shapes, unsupported nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from onnx import AttributeProto, TensorProto, numpy_helper

from clcnn.errors import UnsupportedError
from clcnn.onnx import check, functions, importer, ops, tensors

if TYPE_CHECKING:
    from clcnn.onnx.model import Model, ValueInfo

_SHAPES = ("Shape", "Size")  # what they give depends on the shape of their input alone


def embed_tensors(proto: onnx.ModelProto, folder: Path | None) -> bool:
    """Reads the external data of tensors in attributes and inner graphs into them: they are small, and the
    folder is not kept. Says whether there were any."""
    any_external = False
    stack = [*proto.graph.node, *(n for f in proto.functions for n in f.node)]
    while stack:
        node = stack.pop()
        held = [t for a in node.attribute for t in (a.t, *a.tensors) if a.type in _TENSORS]
        for graph in check.subgraphs(node):
            held += graph.initializer
            stack += graph.node
        for tensor in held:
            if tensor.data_location == TensorProto.EXTERNAL:
                array = tensors.to_array(tensor, folder, check.label(node))
                tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
                any_external = True
    return any_external


_TENSORS = (AttributeProto.TENSOR, AttributeProto.TENSORS)


def value_inputs(model: Model) -> tuple[str, ...]:
    """Inputs whose values must be known to build the graph: those that reach an operand of that kind, and are
    integers, booleans, or floats of rank 0 or 1. (Larger floats are data, and a shape that depends on data is
    not supported.)"""
    needed = _needed(model, model.nodes, model.order, {o.name: False for o in model.outputs}, model.opsets, 0)
    return tuple(i.name for i in model.inputs if i.name in needed and _may_decide(i))


def _may_decide(info: ValueInfo) -> bool:
    floats = info.type in ("tensor(float)", "tensor(float16)", "tensor(double)")
    return not floats or (info.shape is not None and len(info.shape) <= 1)


def _needed(
    model: Model, nodes: Any, order: list[int], outputs: dict[str, bool], opsets: dict[str, int], depth: int
) -> set[str]:
    """Names whose values are needed, where `outputs` tells it for those at the end."""
    needed = {name for name, wanted in outputs.items() if wanted}
    if depth > check.MAX_DEPTH:
        return needed
    for node in (nodes[i] for i in reversed(order)):
        domain = check.default_domain(node.domain)
        version = opsets.get(domain, 1)
        if node.op_type in _SHAPES and not domain:
            continue
        if any(name in needed for name in node.output):
            needed.update(name for name in node.input if name)
            continue
        function = model.functions.get(check.function_key(node))
        row = ops.find(domain, node.op_type, version)
        if function is not None:
            inner = _needed(model, function.node, list(range(len(function.node))), {}, opsets, depth + 1)
            needed.update(n for n, formal in zip(node.input, function.input) if formal in inner)
        elif row is not None:
            needed.update(node.input[i] for i in row.values if i < len(node.input) and node.input[i])
        if node.op_type == "If" and not domain:
            needed.update(node.input)
            for graph in check.subgraphs(node):
                needed |= _needed(model, graph.node, list(range(len(graph.node))), {}, opsets, depth + 1)
    return needed


def refuse_unsupported(model: Model) -> None:
    """Raises UnsupportedError for nodes that cannot be computed whatever the shapes: without a row or a body,
    and reading what no constant decides."""
    constant = {*model.arrays, *model.value_inputs}
    rows = []
    for node in (model.nodes[i] for i in model.order):
        domain = check.default_domain(node.domain)
        version = model.opsets.get(domain, 1)
        if node.op_type in _SHAPES or all(name in constant for name in node.input if name):
            constant.update(node.output)
            continue
        possible = (
            check.function_key(node) in model.functions
            or ops.find(domain, node.op_type, version) is not None
            or functions.has_body(domain, node.op_type, version)
            or (node.op_type == "If" and not domain)
        )
        if not possible:
            words = ", ".join(a.name for a in node.attribute)
            reason = "the operator is not supported" + (f" (attributes {words})" if words else "")
            rows.append(importer.Unsupported.of(node, model.opsets, reason))
    if rows:
        raise UnsupportedError(importer.unsupported_text(rows))
