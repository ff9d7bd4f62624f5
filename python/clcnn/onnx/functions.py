"""Function bodies: a model's own and those that ONNX gives for operators without a row here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, TypeProto, defs, helper

from clcnn.errors import ModelError
from clcnn.onnx import tensors
from clcnn.onnx.call import Operand

Bindings = Mapping[str, AttributeProto]


def schema_of(domain: str, op: str, version: int) -> Any | None:
    """The installed onnx's schema of an operator, None when it has none."""
    try:
        return defs.get_schema(op, version, domain)
    except defs.SchemaError:
        return None


def has_body(domain: str, op: str, version: int) -> bool:
    """Whether ONNX defines the operator by other operators."""
    schema = schema_of(domain, op, version)
    return schema is not None and (schema.has_function or schema.has_context_dependent_function)


def schema_body(
    domain: str, node: onnx.NodeProto, version: int, inputs: Iterable[Operand | None]
) -> onnx.FunctionProto | None:
    """The body that ONNX gives for this node, None when there is none."""
    schema = schema_of(domain, node.op_type, version)
    if schema is None:
        return None
    plain = [v for v in schema.function_opset_versions if v <= version]
    if plain:
        return _parsed(schema.get_function_with_opset_version(max(plain)))
    dependent = [v for v in schema.context_dependent_function_opset_versions if v <= version]
    if not dependent:
        return None
    types = [_type_of(x).SerializeToString() for x in inputs]
    body = schema.get_context_dependent_function_with_opset_version(
        max(dependent), node.SerializeToString(), types
    )
    return _parsed(body) if body else None


def _parsed(body: Any) -> onnx.FunctionProto:
    if isinstance(body, onnx.FunctionProto):
        return body
    proto = onnx.FunctionProto()
    proto.ParseFromString(body)
    return proto


def _type_of(x: Operand | None) -> TypeProto:
    if x is None:
        return TypeProto()
    return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)


def resolved(node: onnx.NodeProto, bindings: Bindings) -> onnx.NodeProto:
    """The node with references to a function's attributes replaced by what the caller gave; a reference to an
    attribute that was not given leaves the attribute out."""
    if not any(a.ref_attr_name for a in node.attribute) and not (bindings and _has_graphs(node)):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.ClearField("attribute")
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            bound = bindings.get(attribute.ref_attr_name)
            if bound is not None:
                made.attribute.add().CopyFrom(bound)
                made.attribute[-1].name = attribute.name
        else:
            made.attribute.add().CopyFrom(attribute)
            for graph in [made.attribute[-1].g, *made.attribute[-1].graphs]:
                inner = [resolved(n, bindings) for n in graph.node]
                graph.ClearField("node")
                graph.node.extend(inner)
    return made


def _has_graphs(node: onnx.NodeProto) -> bool:
    return any(a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute)


def bindings_of(
    function: onnx.FunctionProto, schema: Any | None, node: onnx.NodeProto
) -> dict[str, AttributeProto]:
    """Attributes of a call by name: the caller's, then the function's own defaults, then the schema's."""
    bound = {a.name: a for a in node.attribute}
    for attribute in function.attribute_proto:
        bound.setdefault(attribute.name, attribute)
    for name, attribute in (schema.attributes if schema is not None else {}).items():
        if attribute.default_value.type != AttributeProto.UNDEFINED:
            bound.setdefault(name, attribute.default_value)
    return bound


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes as Python values: numbers, str, lists, arrays; graphs as they are.
    Raises ModelError."""
    values: dict[str, Any] = {}
    for attribute in node.attribute:
        if attribute.name in values:
            raise ModelError(f"attribute {attribute.name!r} is given twice")
        if attribute.type == AttributeProto.TENSOR:
            values[attribute.name] = tensors.to_array(attribute.t, None, f"attribute {attribute.name!r}")
            continue
        try:
            value = helper.get_attribute_value(attribute)
        except ValueError as error:
            raise ModelError(f"attribute {attribute.name!r}: {error}") from error
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS):
            value = list(value)
        values[attribute.name] = value
    return values


def check_form(schema: Any, node: onnx.NodeProto) -> None:
    """The node's counts of inputs and outputs and its attributes against the operator's schema. Raises
    ModelError."""
    given = len(node.input)
    if given < schema.min_input or sum(map(bool, node.input[: schema.min_input])) < schema.min_input:
        raise ModelError(f"it needs at least {schema.min_input} inputs, but has {sum(map(bool, node.input))}")
    if given > schema.max_input:
        raise ModelError(f"it takes at most {schema.max_input} inputs, but has {given}")
    if not schema.min_output <= len(node.output) <= schema.max_output:
        raise ModelError(f"it has {schema.min_output} to {schema.max_output} outputs, not {len(node.output)}")
    have = {a.name: a for a in node.attribute}
    for name, rule in schema.attributes.items():
        if name not in have:
            if rule.required:
                raise ModelError(f"attribute {name!r} is required")
            continue
        if int(rule.type.value) != have[name].type and not have[name].ref_attr_name:
            kind = AttributeProto.AttributeType.Name(have[name].type)
            raise ModelError(f"attribute {name!r} must be {str(rule.type).rpartition('.')[2]}, but is {kind}")
    unknown = [name for name in have if name not in schema.attributes]
    if unknown:
        raise ModelError(f"it has no attribute {unknown[0]!r}")
