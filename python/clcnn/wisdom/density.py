"""Data of a given density for measuring: where a net's own maps would have other zeros than those that the
user's data leave, their zeros are set on the way. That takes as much memory as these maps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn.graph import Graph, Record, Value
from clcnn.zeros import LayerZeros, layers_of

LEAST = 0.05  # of elements: fewer are as none, and keys do not tell of them


def mask(
    rng: np.random.Generator, shape: tuple[int, ...], zeros: LayerZeros, *, is_map: bool
) -> NDArray[Any]:
    """Ones and zeros in about these shares: whole channels, then bands of rows of the others, of which a
    register tile meets nothing, and what is missing of elements anywhere."""
    covered = np.zeros((), bool)
    if is_map:
        pair = shape[:2] + (1,) * (len(shape) - 2)
        rows = shape[2]
        row = np.arange(rows).reshape((1, 1, -1) + (1,) * (len(shape) - 3))
        band = max(0.0, zeros.tile - zeros.channel) / max(1.0 - zeros.channel, 1e-6) * rows
        covered = (rng.random(pair) < zeros.channel) | ((row - rng.integers(0, rows, pair)) % rows < band)
    share = float(covered.mean())
    single = max(0.0, zeros.element - share) / max(1.0 - share, 1e-6)
    return (~covered & (rng.random(shape) >= single)).astype(np.float32)


def inputs_of(rng: np.random.Generator, graph: Graph, zeros: Mapping[str, LayerZeros]) -> list[NDArray[Any]]:
    """Normal numbers for the inputs of a graph, with the zeros that layers which read them are to find."""
    layers = layers_of(graph)
    readers = {layers[name].inputs[0]: name for name in zeros if name in layers}
    arrays = []
    for value in graph.inputs.values():
        x = rng.standard_normal(value.shape, np.float32)
        name = readers.get(value.id)
        if name is not None:
            x *= mask(rng, value.shape, zeros[name], is_map=layers[name].op == "conv")
        arrays.append(x.astype(value.dtype))
    return arrays


def masked(rng: np.random.Generator, graph: Graph, zeros: Mapping[str, LayerZeros]) -> Graph:
    """The graph, in which the inputs of these layers are x + 1, cut to sizes that are 0 where the mask is:
    one step, which is no part of them (a layer of one row would take a factor into its weights). Layers that
    read the inputs of the graph have theirs from inputs_of()."""
    made = Graph()
    values: dict[int, Value] = {}
    masks: dict[int, Value] = {}

    def input_of(layer: Record) -> Value:
        id = layer.inputs[0] or 0
        x, of = values[id], zeros[layer.name]
        if id not in masks:
            is_map = layer.op == "conv"
            there = mask(rng, x.shape, of, is_map=is_map)
            # one for each channel: a single number would go into the layer before, behind its relu
            channels = (x.shape[1], *[1] * (len(x.shape) - 2)) if is_map else x.shape[-1:]
            more = made.apply("add", x, np.ones(channels, np.float32), name=f"zeros:{id} add")
            most = there * np.finfo(np.float32).max
            above = made.apply("maximum", more, -most, name=f"zeros:{id} maximum")
            masks[id] = made.apply("minimum", above, most, name=f"zeros:{id} minimum")
        return masks[id]

    given = {value.id for value in graph.inputs.values()}
    for r in graph.records:
        if r.kind == "input":
            values[r.values[0]] = made.input(r.name, r.shape, r.dtype)
        elif r.kind == "constant" and r.array is not None:
            values[r.values[0]] = made.constant(r.array, r.name)
        elif r.kind == "node":
            inputs = [None if i is None else values[i] for i in r.inputs]
            if r.name in zeros and zeros[r.name].element >= LEAST and r.inputs[0] not in given:
                inputs[0] = input_of(r)
            values.update(zip(r.values, made.node(r.op, inputs, r.attrs, r.name)))
        elif r.kind == "state":
            values[r.values[0]] = made.state(r.name, r.shape, r.dtype)
        elif r.kind == "assign":
            made.assign(*(values[i] for i in r.inputs if i is not None))
        elif r.kind == "commit_when":
            made.commit_when(values[r.inputs[0] or 0])
        elif r.kind == "output":
            made.output(values[r.inputs[0] or 0], r.name)
    return made


def known_layers(rows: Iterable[Mapping[str, Any]], zeros: Mapping[str, LayerZeros]) -> dict[str, LayerZeros]:
    """Those of `zeros` that a plan with these `layers` still knows: of a layer that was merged with the one
    before, the input is no map any more."""
    names = (row["layer"].partition("+")[0] for row in rows if row["zeros"])
    return {name: zeros[name] for name in names if name in zeros}
