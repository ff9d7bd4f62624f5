"""Walks a model's nodes for given shapes: folds what is constant, builds the rest by the table's rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray

from clcnn._log import logger
from clcnn.errors import Error, ModelError, UnsupportedError
from clcnn.graph import Graph, Value
from clcnn.onnx import check, counted, fold, functions, ops, quantised, tensors
from clcnn.onnx.call import (
    DEVICE_DTYPES,
    HELD_IN,
    Call,
    Constants,
    Operand,
    Refusal,
    constant_value,
    distinct,
    layer_name,
)
from clcnn.onnx.lengths import Empty, Length, Lengths
from clcnn.onnx.program import Cut, Program
from clcnn.onnx.table import host_only
from clcnn.weights.errors import shown

if TYPE_CHECKING:
    from clcnn.onnx.model import Model, ValueInfo

MAX_FOLDED = 1 << 30  # bytes of the constants that importing makes and has yet to read, besides
ROUNDS = 16  # as many bytes made and left behind
PASSES = 8  # results of the size of the model's own, as where weights are stored as halves or transposed
# What a builder meets on attributes and inputs of wrong kinds, which the schema's check does not see.
_WRONG = (
    *(TypeError, ValueError, IndexError, KeyError, AttributeError),
    *(OverflowError, ZeroDivisionError, RuntimeError),  # NumPy's, for more dimensions than it takes
)


class Scope:
    """Operands by name. A name without an operand is the result of a node that is not supported."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.names: dict[str, Operand | None] = {}
        self.outer = outer

    def get(self, name: str) -> Operand | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.outer
        raise ModelError(f"nothing produces {name!r}")


class Unknown(Exception):
    """A node reads the result of one that is not supported."""


class Walk:
    """The state of one import: the graph so far and what is not supported."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.graph = Graph()
        self.constants = Constants(self.graph)
        self.lengths = Lengths(self.graph)
        self.unsupported: list[Unsupported] = []
        self.count = 0
        self.folded = self.made = 0
        self.evaluator = fold.Evaluator()
        self.most = MAX_FOLDED + PASSES * sum(array.nbytes for array in model.arrays.values())

    def body(
        self,
        nodes: Sequence[onnx.NodeProto],
        order: Iterable[int],
        scope: Scope,
        opsets: dict[str, int],
        bindings: functions.Bindings,
        outputs: Iterable[str],
    ) -> None:
        """All nodes of a graph or function, results into `scope`, those that are its outputs for long."""
        order = list(order)
        last = _last_uses(nodes, order, outputs)
        # constants that were made here and their bytes, by where they are read last
        passing: dict[int, list[tuple[str, int]]] = defaultdict(list)
        for position, node in enumerate(functions.resolved(nodes[i], bindings) for i in order):
            before = self.folded
            self.count += 1
            if self.count > check.MAX_NODES:
                raise ModelError(f"the model expands to more than {check.MAX_NODES} nodes")
            results: Sequence[Operand | None] = ()
            try:
                results = self.node(node, scope, opsets)
            except Unknown:
                pass
            except (Refusal, UnsupportedError) as refusal:
                self.unsupported.append(Unsupported.of(node, opsets, refusal))
            except ModelError as error:
                raise _located(error, node) from error
            except Error:
                raise  # the core's own errors name the layer
            except MemoryError as error:
                raise ModelError(
                    f"{check.label(node)}: there is not enough memory for its constants"
                ) from error
            except _WRONG as error:
                raise ModelError(f"{check.label(node)}: {type(error).__name__}: {error}") from error
            for i, name in enumerate(node.output):
                result = results[i] if i < len(results) else None
                if name:
                    scope.names[name] = result
                if name and self.folded > before and result is not None and result.array is not None:
                    until = max(position, last.get(name, position))
                    passing[until].append((name, fold.held_bytes(result.array)))
            for name, size in passing.pop(position, ()):
                self.folded -= size
                del scope.names[name]

    def node(self, node: onnx.NodeProto, scope: Scope, opsets: dict[str, int]) -> Sequence[Operand | None]:
        """One node's results."""
        domain = check.default_domain(node.domain)
        version = opsets.get(domain, 1)
        function = self.model.functions.get(check.function_key(node))
        row = None if function is not None else ops.find(domain, node.op_type, version)
        schema = functions.schema_of(domain, node.op_type, version)
        if schema is not None and function is None:
            functions.check_form(schema, node)
        expandable = function is not None or (
            row is None and functions.has_body(domain, node.op_type, version)
        )
        if row is None and not expandable and node.op_type != "If" and schema is None:
            raise Refusal("there is no such operator" if not domain else f"domain {domain!r} is unknown")
        inputs = self._inputs(node, scope, row is not None or expandable or node.op_type == "If")
        if node.op_type == "If" and not domain:
            return self._branch(node, inputs, scope, opsets)
        if function is not None:
            return self._expand(function, node, None, inputs, opsets)
        depends = any(x is not None and x.depends for x in inputs)
        known = not depends and all(x is None or x.array is not None for x in inputs)
        if known and fold.can_fold(domain, node.op_type):
            try:
                return self._fold(node, inputs, opsets)
            except Refusal:
                if (row is None and not expandable) or (row is not None and row.build is host_only):
                    raise
        if row is not None:
            attributes = functions.attributes(node)
            call = Call(self.graph, node, version, inputs, attributes, self.constants, self.lengths)
            return counted.build(call, row) if depends else quantised.build(call, row)
        body = functions.schema_body(domain, node, version, inputs) if expandable else None
        if body is not None:
            return self._expand(body, node, schema, inputs, opsets)
        raise Refusal("the operator is not supported" + _attribute_words(node))

    def _inputs(self, node: onnx.NodeProto, scope: Scope, possible: bool) -> list[Operand | None]:
        inputs: list[Operand | None] = []
        unknown = False
        for name in node.input:
            operand = scope.get(name) if name else None
            unknown |= bool(name) and operand is None
            inputs.append(operand)
        if unknown and possible:
            raise Unknown
        if unknown:
            raise Refusal("the operator is not supported" + _attribute_words(node))
        return inputs

    def _fold(
        self, node: onnx.NodeProto, inputs: list[Operand | None], opsets: dict[str, int]
    ) -> list[Operand | None]:
        arrays = self.evaluator.evaluate(node, opsets, [x.array if x else None for x in inputs])
        size = sum(fold.held_bytes(a) for a in arrays if a is not None)
        self.folded += size
        self.made += size
        if self.folded > self.most or self.made > ROUNDS * self.most:
            most, when = (
                (ROUNDS * self.most, "in all") if self.folded <= self.most else (self.most, "at a time")
            )
            raise ModelError(f"constants made from constants take more than {most} bytes {when}")
        made = [None if a is None else Operand(a) for a in arrays]
        if node.op_type == "DequantizeLinear" and made[0] is not None:
            return [quantised.remembering(made[0], inputs, functions.attributes(node))]
        return made

    def _branch(
        self, node: onnx.NodeProto, inputs: list[Operand | None], scope: Scope, opsets: dict[str, int]
    ) -> list[Operand | None]:
        """The branch of an If that its constant condition chooses."""
        given = inputs[0] if inputs else None
        condition = None if given is None else given.array if given.sizes is None else given.sizes
        if condition is None or condition.size != 1:
            raise Refusal("its condition depends on data; only constant ones are supported")
        holds = condition.reshape(-1)[0]
        if isinstance(holds, Empty):
            others = self._inner(node, "else_branch", scope, opsets)
            return _unless_empty(holds, self._inner(node, "then_branch", scope, opsets), others)
        return self._inner(node, "then_branch" if holds else "else_branch", scope, opsets)

    def _inner(
        self, node: onnx.NodeProto, wanted: str, scope: Scope, opsets: dict[str, int]
    ) -> list[Operand | None]:
        """The results of a branch."""
        branch = next(a.g for a in node.attribute if a.name == wanted)
        if len(branch.output) != len(node.output):
            raise ModelError(
                f"it has {len(node.output)} outputs, but its {wanted} gives {len(branch.output)} results"
            )
        inner = Scope(scope)
        for tensor in branch.initializer:
            inner.names[tensor.name] = Operand(tensors.to_array(tensor, None, f"initialiser {tensor.name!r}"))
        nodes = list(branch.node)
        order = check.node_order(nodes, lambda name: _visible(name, inner))
        self.body(nodes, order, inner, opsets, {}, [o.name for o in branch.output])
        return [inner.get(o.name) for o in branch.output]

    def _expand(
        self,
        function: onnx.FunctionProto,
        node: onnx.NodeProto,
        schema: Any | None,
        inputs: list[Operand | None],
        opsets: dict[str, int],
    ) -> list[Operand | None]:
        if len(inputs) > len(function.input):
            raise ModelError(
                f"it has {len(inputs)} inputs, but function {function.name!r} takes {len(function.input)}"
            )
        inner = Scope()
        for i, name in enumerate(function.input):
            inner.names[name] = inputs[i] if i < len(inputs) else None
        absent = {name for name, x in inner.names.items() if x is None}
        own = {**opsets, **check.opsets_of(function.opset_import, f"function {function.name!r}")}
        nodes = [_without_inputs(n, absent) if absent else n for n in function.node]
        nodes = [_prefixed(n, node.name) for n in nodes]
        order = check.node_order(nodes, lambda name: name in inner.names)
        self.body(nodes, order, inner, own, functions.bindings_of(function, schema, node), function.output)
        wanted = zip(function.output, node.output)
        return [inner.get(name) if given else None for name, given in wanted]


def _last_uses(nodes: Sequence[onnx.NodeProto], order: list[int], outputs: Iterable[str]) -> dict[str, int]:
    """Where in the order each name is read last, by a branch too; outputs never are."""
    last = {name: i for i, k in enumerate(order) for name in check.reads(nodes[k])}
    return last | dict.fromkeys(outputs, len(order))


def _unless_empty(
    condition: Empty, empty: list[Operand | None], others: list[Operand | None]
) -> list[Operand | None]:
    """The results of a branch for no rows and one for some, which gives nothing of none too."""
    for one, other in zip(empty, others, strict=True):
        length = None if other is None else other.length
        if one is None or other is None or one.size or length is None:
            raise Refusal("its condition depends on data, and no branch has the results of the other")
        if not condition.length.empty_with & length.empty_with or one.rank != other.rank:
            raise Refusal("its condition depends on data, and its branches may differ where there is no row")
    return others


def specialise(
    model: Model,
    shapes: Mapping[str, tuple[int, ...]],
    values: Mapping[str, NDArray[Any]],
    *,
    whole: bool = False,
) -> Program:
    """Model.specialise() after its arguments were checked. whole: outputs that are known now are outputs of
    the graph too, where it has others."""
    walk = Walk(model)
    scope = Scope()
    scope.names.update({name: Operand(array) for name, array in model.arrays.items()})
    feeds: dict[str, str] = {}
    for info in model.inputs:
        own = element_type(info)
        dtype = HELD_IN.get(own, own)
        if info.name in values:
            scope.names[info.name] = Operand(values[info.name])
        elif 0 in shapes[info.name]:
            scope.names[info.name] = Operand(tensors.widened(np.zeros(shapes[info.name], own)))
        else:
            value = walk.graph.input(info.name, shapes[info.name], dtype)
            held = own if own != dtype and own != "float16" else ""
            scope.names[info.name] = Operand(value=value, wide=held)
            feeds[info.name] = own
    walk.body(model.nodes, model.order, scope, model.opsets, {}, [o.name for o in model.graph_proto.output])
    if walk.unsupported:
        raise UnsupportedError(unsupported_text(walk.unsupported))
    check_declared(model, scope)
    program = _finish(model, walk, scope, feeds)
    if whole and program.graph is not None:
        _add_fixed(program, program.graph)
    return program


MOST_KINDS = 30  # of nodes that a message lists


class Unsupported(NamedTuple):
    """A node that cannot be computed: its type and version, why, and what messages call it."""

    kind: str
    version: str
    reason: str
    label: str

    @classmethod
    def of(cls, node: onnx.NodeProto, opsets: Mapping[str, int], reason: object) -> Unsupported:
        domain = check.default_domain(node.domain)
        version = f"{domain or 'opset'} {opsets.get(domain, 1)}"
        return cls(shown(node.op_type)[1:-1], version, str(reason), check.label(node)[:-1])


def unsupported_text(rows: list[Unsupported]) -> str:
    """All nodes that are not supported, in one message that counts those of one type and reason."""
    nodes = "a node that is" if len(rows) == 1 else f"{len(rows)} nodes that are"
    kinds: dict[tuple[str, ...], list[Unsupported]] = {}
    for row in rows:
        kinds.setdefault(row[:3], []).append(row)
    lines = [
        f"{found[0].label}, {version}): {reason}"
        if len(found) == 1
        else f"{kind} x{len(found)} ({version}), the first is {found[0].label}): {reason}"
        for (kind, version, reason), found in kinds.items()
    ]
    if len(lines) > MOST_KINDS:
        lines[MOST_KINDS:] = [f"and {len(lines) - MOST_KINDS} more kinds"]
    return f"the model has {nodes} not supported:\n  " + "\n  ".join(lines)


def check_declared(model: Model, scope: Scope) -> None:
    """What the model declares of its values against what they are.

    Raises ModelError for an element type, and, where no input has an unknown dimension, for a shape. A wrong
    shape of an output is only logged: many files have one, and other runtimes take them.
    """
    fixed = all(i.shape is not None and all(isinstance(n, int) for n in i.shape) for i in model.inputs)
    outputs = {o.name for o in model.graph_proto.output}
    for row in [*model.graph_proto.output, *model.graph_proto.value_info]:
        operand = scope.names.get(row.name)
        tensor = row.type.tensor_type
        if operand is None or operand.depends or row.type.WhichOneof("value") != "tensor_type":
            continue
        declared = _declared_dtype(tensor.elem_type)
        if declared not in ("", operand.logical):
            raise ModelError(f"{row.name!r} is declared as {declared}, but is {operand.logical}")
        if not tensor.HasField("shape"):
            continue
        dims = tensors.declared_shape(tensor.shape)
        if len(dims) != operand.rank or any(d not in (None, n) for d, n in zip(dims, operand.shape)):
            words = ", ".join("?" if d is None else str(d) for d in dims)
            text = f"{row.name!r} is declared with shape ({words}), but its shape is {operand.shape}"
            if row.name in outputs:
                logger.warning("%s", text)
            elif fixed:
                raise ModelError(text)


def _declared_dtype(code: int) -> str:
    """NumPy's name of a declared element type, half being computed in float32; "" when undeclared."""
    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    if code not in tensors.NUMBERS:
        return ""
    return "float32" if code in half else np.dtype(onnx.helper.tensor_dtype_to_np_dtype(code)).name


def _finish(model: Model, walk: Walk, scope: Scope, feeds: dict[str, str]) -> Program:
    fixed: dict[str, NDArray[Any]] = {}
    cuts: dict[str, Cut] = {}
    casts: dict[str, str] = {}
    graph, used = walk.graph, {v.id for v in walk.graph.inputs.values()}
    for info in model.outputs:
        operand = scope.get(info.name)
        if operand is None:
            raise ModelError(f"output {info.name!r} depends on a result that its node does not give")
        wanted = element_type(info)
        if operand.wide or wanted == "float16":
            casts[info.name] = operand.wide or wanted
        if operand.steps is not None:
            made = quantised.as_numbers(graph, operand, layer_name(info.name))
            operand = replace(made, length=operand.length, axis=operand.axis)
        if operand.array is not None and operand.length is None:
            fixed[info.name] = operand.array
            continue
        value = operand.value
        if value is None and operand.sizes is not None:
            value = walk.lengths.vector(operand.sizes)
        elif value is None:
            assert operand.array is not None
            value = constant_value(graph, operand.array, layer_name(info.name))
        if value.id in used or operand.value is None:  # an input, or a second name of one output
            value = graph.apply("identity", value, name=layer_name(info.name))
        used.add(value.id)
        graph.output(value, info.name)
        if operand.length is not None:
            cuts[info.name] = Cut(operand.axis, _count(walk, operand.length, info.name, used))
    values: dict[str, Value | NDArray[Any]] = {}
    lengths: dict[str, tuple[int, Value]] = {}
    for name, x in scope.names.items():
        known = None if x is None or x.steps is not None else x.value if x.value is not None else x.array
        if x is not None and known is not None:
            values[name] = known
            if x.length is not None:
                lengths[name] = x.axis, walk.lengths.value(x.length)
    names = tuple(o.name for o in model.outputs)
    if len(fixed) == len(names):
        return Program(None, {}, names, fixed, cuts, casts, {})
    return Program(graph, feeds, names, fixed, cuts, casts, values, lengths)


def _count(walk: Walk, length: Length, name: str, used: set[int]) -> str:
    """The graph's output that says how long an output of the model is, one for all of the same length."""

    def made() -> str:
        value = walk.lengths.value(length)
        if value.id in used:
            value = walk.graph.apply("identity", value, name=layer_name(name))
        used.add(value.id)
        count = distinct(f"{name}.count", {o.name for o in walk.model.outputs})
        walk.graph.output(value, count)
        return count

    return str(walk.lengths.once(("output", length.key), made))


def _add_fixed(program: Program, graph: Graph) -> None:
    """Constant outputs as copies of constants of the graph."""
    for name, array in program.fixed.items():
        value = constant_value(graph, array, layer_name(name))
        graph.output(graph.apply("identity", value, name=layer_name(name)), name)


def element_type(info: ValueInfo) -> str:
    """NumPy's name of an input's or output's element type. Raises UnsupportedError."""
    word = info.type[len("tensor(") : -1]
    dtype = {"float": "float32", "double": "float64"}.get(word, word)
    if dtype not in DEVICE_DTYPES and (dtype not in HELD_IN or dtype == "bfloat16"):
        raise UnsupportedError(f"{info.name!r} is a {info.type}, which NumPy has no type for")
    return dtype


def _located(error: ModelError, node: onnx.NodeProto) -> ModelError:
    """The error with the node's name in front, once."""
    return error if str(error).startswith("node ") else ModelError(f"{check.label(node)}: {error}")


def _attribute_words(node: onnx.NodeProto) -> str:
    names = ", ".join(a.name for a in node.attribute)
    return f" (attributes {names})" if names else ""


def _visible(name: str, scope: Scope) -> bool:
    at: Scope | None = scope
    while at is not None:
        if name in at.names:
            return True
        at = at.outer
    return False


def _without_inputs(node: onnx.NodeProto, absent: set[str]) -> onnx.NodeProto:
    """A node of a function without the inputs that the caller left out."""
    if not absent.intersection(node.input):
        return node
    made = onnx.NodeProto()
    made.CopyFrom(node)
    names = ["" if name in absent else name for name in node.input]
    while names and not names[-1]:
        names.pop()
    made.ClearField("input")
    made.input.extend(names)
    return made


def _prefixed(node: onnx.NodeProto, outer: str) -> onnx.NodeProto:
    """A node of a function under a name that tells which call it belongs to."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = f"{outer}/{node.name or node.output[0]}" if outer else node.name
    return made
