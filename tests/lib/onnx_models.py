"""Small ONNX models that tests build, and running them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

import clcnn

FLOAT = TensorProto.FLOAT
Info = tuple[str, Sequence[int | str | None] | None] | tuple[str, Sequence[int | str | None] | None, int]


def info(row: Info) -> Any:
    """A ValueInfoProto from (name, shape) or (name, shape, element type)."""
    name, shape, kind = (*row, FLOAT)[:3]
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Info] = (("x", (2, 3)),),
    outputs: Sequence[Info] = (("y", None),),
    initial: Mapping[str, Any] | Sequence[TensorProto] = (),
) -> GraphProto:
    """A graph; initialisers as arrays by name, or as they are."""
    if isinstance(initial, Mapping):
        initial = [numpy_helper.from_array(np.asarray(array), name) for name, array in initial.items()]
    return helper.make_graph(
        list(nodes), "test", list(map(info, inputs)), list(map(info, outputs)), list(initial)
    )


def model(
    nodes: Sequence[NodeProto] | GraphProto,
    *args: Any,
    opset: int = 17,
    functions: Sequence[FunctionProto] = (),
    domains: Mapping[str, int] | None = None,
    **kwargs: Any,
) -> ModelProto:
    """A model of such a graph."""
    whole = nodes if isinstance(nodes, GraphProto) else graph(nodes, *args, **kwargs)
    imports = [helper.make_opsetid(domain, n) for domain, n in {"": opset, **(domains or {})}.items()]
    return helper.make_model(whole, opset_imports=imports, functions=list(functions), ir_version=9)


def load(proto: ModelProto) -> Any:
    return clcnn.onnx.load(proto.SerializeToString())


def run(proto: ModelProto, inputs: Mapping[str, Any], device: Any) -> list[Any]:
    """All outputs in order."""
    loaded = load(proto)
    given = {name: np.asarray(array) for name, array in inputs.items()}
    values = {name: given[name] for name in loaded.value_inputs}
    program = loaded.specialise({name: array.shape for name, array in given.items()}, values)
    results: dict[str, Any] = {}
    if program.graph is not None:
        with clcnn.compile(program.graph, device=device) as plan:
            results = plan.run(program.feed(given))
    return list(program.collect(results).values())


def relu(x: str = "x", y: str = "y", name: str = "") -> NodeProto:
    return helper.make_node("Relu", [x], [y], name=name)


def with_function() -> ModelProto:
    """A model that calls a function of its own, which passes an attribute on."""
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.add(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
    body = [leaky, helper.make_node("Add", ["b", "b"], ["c"])]
    leak = helper.make_function("f", "Leak", ["a"], ["c"], body, [helper.make_opsetid("", 17)], ["slope"])
    call = helper.make_node("Leak", ["x"], ["y"], domain="f", slope=0.5)
    return model([call], functions=[leak], domains={"f": 1})


def with_branches() -> ModelProto:
    """A model that chooses by the size of its input."""
    branches = {
        f"{name}_branch": graph([helper.make_node(op, ["x"], [op])], [], [(op, None)])
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Equal", ["s", "one"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches),
    ]
    return model(nodes, [("x", ("n", 3))], initial={"one": np.array([1])})
