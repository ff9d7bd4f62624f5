"""Rules of the format that a model must keep before anything is made of it, each checked in linear time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import onnx
from onnx import AttributeProto, defs

from clcnn.errors import ModelError, UnsupportedError
from clcnn.weights.errors import shown

# Nodes of a model, functions expanded. Each takes about 0.1 ms and 10 KB to read and compile: 10 s and 1 GB.
MAX_NODES = 100_000
MAX_DEPTH = 32  # of functions in functions, and of graphs in graphs
DEFAULT_DOMAINS = ("", "ai.onnx")


def default_domain(name: str) -> str:
    """ONNX's own domain has two spellings; "" is the one used here."""
    return "" if name in DEFAULT_DOMAINS else name


def check_model(proto: onnx.ModelProto) -> dict[str, int]:
    """Checks a parsed model and returns its opsets by domain. Raises ModelError that names the place."""
    if not proto.HasField("graph") or proto.ir_version < 1:
        raise ModelError("this is not an ONNX model: it has no graph or no IR version")
    opsets = opsets_of(proto.opset_import, "the model")
    if proto.ir_version < 3 and not opsets:
        opsets[""] = 1  # there were no opsets then
    newest = defs.onnx_opset_version()
    if "" in opsets and not 1 <= opsets[""] <= newest:
        raise ModelError(
            f"opset {opsets['']} is unknown: the installed onnx {onnx.__version__} knows 1 to {newest}"
        )
    functions = {function_key(f) for f in proto.functions}
    if len(functions) != len(proto.functions):
        raise ModelError("two functions of the model have the same domain, name and overload")
    total = len(proto.graph.node) + sum(len(f.node) for f in proto.functions)
    if total > MAX_NODES:
        raise ModelError(f"the model has {total} nodes, more than the {MAX_NODES} that are allowed")
    Scopes(opsets, functions).graph(proto.graph, (), 0)
    for function in proto.functions:
        own = opsets_of(function.opset_import, f"function {shown(function.name)}")
        Scopes({**opsets, **own}, functions).function(function)
    check_recursion(proto)
    return opsets


def opsets_of(imports: Iterable[Any], what: str) -> dict[str, int]:
    """Versions by domain. Raises ModelError when a domain is imported twice."""
    opsets: dict[str, int] = {}
    for entry in imports:
        must_be_text(entry.domain)
        domain = default_domain(entry.domain)
        if not 0 <= entry.version < 1 << 31:
            raise ModelError(f"{what} imports version {entry.version} of the domain {shown(domain)}")
        if opsets.setdefault(domain, entry.version) != entry.version:
            raise ModelError(f"{what} imports the domain {shown(domain)} twice, in different versions")
    return opsets


def function_key(proto: Any) -> tuple[str, str, str]:
    """What a node calls a function by: domain, name, overload. `proto` is a FunctionProto or a NodeProto."""
    name = proto.op_type if isinstance(proto, onnx.NodeProto) else proto.name
    return default_domain(proto.domain), name, getattr(proto, "overload", "")


def label(node: onnx.NodeProto) -> str:
    """How messages call a node."""
    return f"node {shown(node.name or (node.output[0] if node.output else ''))} ({shown(node.op_type)[1:-1]})"


def must_be_text(*values: str | bytes) -> None:
    """Raises ModelError for names that are not UTF-8, which protobuf gives as bytes, or hold a zero byte."""
    for value in values:
        if isinstance(value, bytes) or "\0" in value:
            raise ModelError(f"the name {shown(value)} is no text")


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


class Scopes:
    """Names and their order, in a graph and in the graphs inside it, which see the names around them."""

    def __init__(self, opsets: dict[str, int], functions: set[tuple[str, str, str]]) -> None:
        self.opsets = opsets
        self.functions = functions
        self.nodes = 0

    def graph(self, graph: onnx.GraphProto, outer: tuple[set[str], ...], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ModelError(f"graphs are nested more than {MAX_DEPTH} deep")
        if graph.sparse_initializer:
            raise UnsupportedError("sparse initialisers are not supported")
        known: set[str] = set()
        for kind, names in (
            ("input", [i.name for i in graph.input]),
            ("initialiser", [t.name for t in graph.initializer]),
        ):
            seen: set[str] = set()
            must_be_text(*names, *(o.name for o in graph.output))
            for name in names:
                if name in seen or not name:
                    raise ModelError(f"{kind} {shown(name)}: names of {kind}s must be unique and not empty")
                seen.add(name)
            known |= seen
        self.body(graph.node, known, outer, depth)
        if depth == 0 and not graph.output:
            raise ModelError("the graph has no output")
        names = [o.name for o in graph.output]
        for name in names:
            if not _in(name, (*outer, known)):
                raise ModelError(f"output {shown(name)}: nothing in the graph produces it")
        if len(set(names)) != len(names):
            raise ModelError(f"two outputs of the graph have the same name, among {shown(names)}")

    def function(self, function: onnx.FunctionProto) -> None:
        what = f"function {shown(function.name)}"
        must_be_text(function.name, function.domain, function.overload, *function.input, *function.output)
        must_be_text(*(a.name for a in function.attribute_proto))
        if len(set(function.input)) != len(function.input):
            raise ModelError(f"{what}: names of its inputs must be unique")
        known = set(function.input)
        self.body(function.node, known, (), 1)
        for name in function.output:
            if name not in known:
                raise ModelError(f"{what}: nothing in it produces its output {shown(name)}")

    def body(self, nodes: Any, known: set[str], outer: tuple[set[str], ...], depth: int) -> None:
        """Adds the nodes' outputs to `known`; every name is made once, before it is used."""
        self.nodes += len(nodes)
        if self.nodes > MAX_NODES:
            raise ModelError(f"the model has more than the {MAX_NODES} nodes that are allowed")
        for node in nodes:
            attributes = (text for a in node.attribute for text in (a.name, a.ref_attr_name))
            must_be_text(node.op_type, node.domain, node.name, *node.input, *node.output, *attributes)
        scopes = (*outer, known)
        order = node_order(nodes, lambda name: _in(name, scopes))
        for node in (nodes[i] for i in order):
            self.domain(node)
            for inner in subgraphs(node):
                self.graph(inner, scopes, depth + 1)
            for name in node.output:
                if name and _in(name, scopes):
                    raise ModelError(
                        f"{label(node)}: its output {shown(name)} has a name that is already taken"
                    )
                if name:
                    known.add(name)

    def domain(self, node: onnx.NodeProto) -> None:
        domain = default_domain(node.domain)
        if domain not in self.opsets and function_key(node) not in self.functions:
            raise ModelError(
                f"{label(node)}: domain {shown(domain or 'ai.onnx')} is not among the imported opsets"
            )


def _in(name: str, scopes: tuple[set[str], ...]) -> bool:
    return any(name in scope for scope in scopes)


def node_order(nodes: Any, known: Callable[[str], bool]) -> list[int]:
    """Indices of the nodes so that each comes after what it reads; those already in order stay. Raises
    ModelError for a name that nothing produces and for a cycle.

    Names that graphs inside a node read from outside count too.
    """
    if _in_order(nodes, known):
        return list(range(len(nodes)))
    read = [[n for n in reads(node) if n and not known(n)] for node in nodes]
    made = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    users: list[list[int]] = [[] for _ in nodes]
    missing = [0] * len(nodes)
    for i, names in enumerate(read):
        for name in names:
            if name not in made:
                raise ModelError(f"{label(nodes[i])}: its input {shown(name)} is produced by nothing")
            users[made[name]].append(i)
            missing[i] += 1
    ready = [i for i, count in enumerate(missing) if count == 0]
    order = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for user in users[i]:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        stuck = next(i for i, count in enumerate(missing) if count > 0)
        raise ModelError(f"{label(nodes[stuck])}: it is part of a cycle, or reads what a cycle makes")
    return order


def _in_order(nodes: Any, known: Callable[[str], bool]) -> bool:
    """Whether each node comes after what it reads, as in the files that exporters write."""
    made = {""}
    for node in nodes:
        if not all(name in made or known(name) for name in reads(node)):
            return False
        made.update(node.output)
    return True


def reads(node: onnx.NodeProto) -> list[str]:
    """Names that a node reads, its inner graphs' free names included."""
    names = list(node.input)
    for inner in subgraphs(node):
        own = {i.name for i in inner.input} | {t.name for t in inner.initializer}
        own |= {name for n in inner.node for name in n.output}
        names += [name for n in inner.node for name in reads(n) if name not in own]
        names += [o.name for o in inner.output if o.name not in own]
    return names


def check_recursion(proto: onnx.ModelProto) -> None:
    """Functions must not call themselves, nor expand to more than MAX_NODES nodes or MAX_DEPTH levels."""
    bodies = {function_key(f): f for f in proto.functions}
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}

    def measure(nodes: Any, path: tuple[tuple[str, str, str], ...]) -> tuple[int, int]:
        if len(path) > MAX_DEPTH:
            raise ModelError(f"functions call functions more than {MAX_DEPTH} deep")
        count, depth = 0, 0
        for node in nodes:
            key = function_key(node)
            if key in path:
                raise ModelError(f"function {shown(key[1])} is recursive: it calls itself")
            if key in bodies and key not in sizes:
                sizes[key] = measure(bodies[key].node, (*path, key))
            inner, below = sizes.get(key, (1, 0))
            count, depth = count + inner, max(depth, below + (key in bodies))
            for graph in subgraphs(node):
                inner, below = measure(graph.node, path)
                count, depth = count + inner, max(depth, below)
        if count > MAX_NODES:
            raise ModelError(f"functions expand to more than the {MAX_NODES} nodes that are allowed")
        return count, depth

    for key, function in bodies.items():
        if key not in sizes:
            sizes[key] = measure(function.node, (key,))
    _, depth = measure(proto.graph.node, ())
    if depth > MAX_DEPTH:
        raise ModelError(f"functions call functions more than {MAX_DEPTH} deep")
