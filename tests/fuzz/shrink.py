"""Makes a finding small: fewer options, outputs and nodes, fewer attributes, smaller sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fuzz.oracle import Oracle
from fuzz.runner import Case, Options

Fails = Callable[[Case], bool]


def shrink(case: Case, fails: Fails, seconds: float = 90.0) -> Case:
    """The smallest case found in this time that still fails."""
    end = time.monotonic() + seconds
    steps = (simpler_options, fewer_runs, fewer_outputs, cuts, bypasses, fewer_attributes, smaller_sizes)
    changed = True
    while changed and time.monotonic() < end:
        changed = False
        for step in steps:
            better = _first(step, case, fails, end)
            while better is not None:
                case, changed = better, True
                better = _first(step, case, fails, end)
    return case


def _first(step: Callable[[Case], Iterator[Case]], case: Case, fails: Fails, end: float) -> Case | None:
    for candidate in step(case):
        if time.monotonic() > end:
            return None
        if fails(candidate):
            return candidate
    return None


def simpler_options(case: Case) -> Iterator[Case]:
    """One option as it is by default."""
    for field in fields(Options):
        if getattr(case.options, field.name) != field.default:
            yield replace(case, options=replace(case.options, **{field.name: field.default}))


def fewer_runs(case: Case) -> Iterator[Case]:
    for i in range(len(case.feeds) if len(case.feeds) > 1 else 0):
        yield replace(case, feeds=[*case.feeds[:i], *case.feeds[i + 1 :]])


def fewer_outputs(case: Case) -> Iterator[Case]:
    """One output alone, then all but one."""
    names = [o.name for o in case.model.graph.output]
    if len(names) < 2:
        return
    for name in names:
        yield pruned(case, [name])
    for name in names:
        yield pruned(case, [n for n in names if n != name])


def pruned(case: Case, outputs: list[str]) -> Case:
    """The case with these outputs, and only what they need."""
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    graph = made.graph
    needed = set(outputs)
    nodes = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            nodes.append(node)
            needed.update(node.input)
            needed.update(n for a in node.attribute for m in [*a.g.node] for n in m.input)
    infos = [o for o in graph.output if o.name in outputs]
    known = {o.name for o in infos}
    infos += [onnx.ValueInfoProto(name=name) for name in outputs if name not in known]
    inputs = [i for i in graph.input if i.name in needed]
    initial = [t for t in graph.initializer if t.name in needed]
    for field, rows in (
        ("node", nodes[::-1]),
        ("output", infos),
        ("input", inputs),
        ("initializer", initial),
        ("value_info", []),
    ):
        kept = [type(row).FromString(row.SerializeToString()) for row in rows]
        graph.ClearField(field)
        getattr(graph, field).extend(kept)
    names = {i.name for i in graph.input}
    return replace(case, model=made, feeds=[{n: a for n, a in f.items() if n in names} for f in case.feeds])


def cuts(case: Case) -> Iterator[Case]:
    """A node's results as inputs, the last nodes first; or as outputs, nothing coming after."""
    outputs = [o.name for o in case.model.graph.output]
    try:
        oracles = [Oracle(case.model, feed) for feed in case.feeds]
    except Exception:
        return
    for node in reversed(case.model.graph.node):
        results = [n for n in node.output if n]
        if any(n in outputs for n in results) or node.op_type == "Constant":
            continue
        made = onnx.ModelProto()
        made.CopyFrom(case.model)
        kept = [n for n in made.graph.node if n.output[0] != node.output[0]]
        made.graph.ClearField("node")
        made.graph.node.extend(kept)
        for name in results:
            array = oracles[0].values[name]
            shape = ["n", *array.shape[1:]] if len(case.feeds) > 1 and array.ndim else array.shape
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            made.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        feeds = [{**f, **{n: o.values[n] for n in results}} for f, o in zip(case.feeds, oracles)]
        yield pruned(replace(case, model=made, feeds=feeds), outputs)
    for node in case.model.graph.node:
        results = [n for n in node.output if n]
        if not set(results) & set(outputs) and node.op_type != "Constant":
            yield pruned(case, results)


def bypasses(case: Case) -> Iterator[Case]:
    """A node left out, its first input in place of its result."""
    for i, node in enumerate(case.model.graph.node):
        if not node.input or not node.input[0]:
            continue
        made = onnx.ModelProto()
        made.CopyFrom(case.model)
        made.graph.node[i].CopyFrom(helper.make_node("Identity", [node.input[0]], [node.output[0]]))
        if node.op_type != "Identity":
            yield pruned(replace(case, model=made), [o.name for o in made.graph.output])


def fewer_attributes(case: Case) -> Iterator[Case]:
    """A node without one of its attributes, or without its last input."""
    for i, node in enumerate(case.model.graph.node):
        for k in range(len(node.attribute)):
            made = onnx.ModelProto()
            made.CopyFrom(case.model)
            del made.graph.node[i].attribute[k]
            yield replace(case, model=made)
        if len(node.input) > 1:
            made = onnx.ModelProto()
            made.CopyFrom(case.model)
            del made.graph.node[i].input[-1]
            yield pruned(replace(case, model=made), [o.name for o in made.graph.output])


def smaller_sizes(case: Case) -> Iterator[Case]:
    """One size made smaller wherever it occurs: in inputs, constants, and constants that hold sizes. Most of
    what this gives is no valid model, which onnxruntime says."""
    sizes = {n for a in case.feeds[0].values() for n in a.shape}
    sizes |= {d for t in case.model.graph.initializer for d in t.dims}
    for old in sorted((n for n in sizes if n > 1), reverse=True):
        for new in sorted({1, 2, 3, old // 2, old - 1} - {0}):
            if new < old:
                yield _resized(case, old, new)


def _resized(case: Case, old: int, new: int) -> Case:
    made = onnx.ModelProto()
    made.CopyFrom(case.model)
    for tensor in made.graph.initializer:
        array = _cut(numpy_helper.to_array(tensor), old, new)
        if array.dtype.kind == "i" and array.ndim == 1 and array.size < 7:
            array = np.where(array == old, new, array).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    for node in made.graph.node:
        for attribute in node.attribute:
            if attribute.name in ("group", "num_groups") and attribute.i == old:
                attribute.i = new
    for info in made.graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if dim.dim_value == old:
                dim.dim_value = new
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    made.graph.ClearField("value_info")
    feeds = [{name: _cut(a, old, new) for name, a in feed.items()} for feed in case.feeds]
    return replace(case, model=made, feeds=feeds)


def _cut(array: np.ndarray, old: int, new: int) -> np.ndarray:
    return np.ascontiguousarray(array[tuple(slice(new if n == old else n) for n in array.shape)])
