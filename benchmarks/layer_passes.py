"""Gradients of single convolutions for `layers.py --pass`: in the map (data) and in the weights (filter).

Weights are inputs here, as in training, where they change from step to step. Ratios are those of the layer's
own forward pass without bias and epilogue, and of PyTorch where it is installed, the faster of its two
layouts.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import common
import numpy as np

import clcnn
from clcnn import ops
from clcnn.graph import Graph

LIMIT = 2e-4  # rms error over the rms of PyTorch's result: both add up in an order of their own
NAMES = ("stride", "padding", "dilation", "groups")


class Layer:
    """The convolution of a case: random arrays for its map x, weights w, and the gradient dy."""

    def __init__(self, case: Any, batch: int | None) -> None:
        self.attrs = {name: case.attrs[name] for name in NAMES if name in case.attrs}
        x, w = case.shapes[:2]
        rng = np.random.default_rng(0)
        self.x = rng.standard_normal((batch or x[0], *x[1:]), np.float32)
        self.w = rng.standard_normal(w, np.float32) / np.float32(np.sqrt(np.prod(w[1:])))
        y = Graph()
        shape = ops.conv(y.input("x", self.x.shape), self.w, **self.attrs).shape
        self.dy = rng.standard_normal(shape, np.float32)

    def graph(self, which: str) -> tuple[Graph, list[np.ndarray]]:
        """Of the pass, and what it is fed with."""
        graph, n = Graph(), self.w.ndim - 2
        if which == "filter":
            x, dy = graph.input("x", self.x.shape), graph.input("dy", self.dy.shape)
            given = {"kernel_size": self.w.shape[2:], **self.attrs}
            graph.output(ops.conv_filter_grad(x, dy, **given, name="layer"))
            return graph, [self.x, self.dy]
        w = graph.input("w", self.w.shape)
        if which == "forward":
            graph.output(ops.conv(graph.input("x", self.x.shape), w, **self.attrs, name="layer"))
            return graph, [self.w, self.x]
        dy = graph.input("dy", self.dy.shape)
        short = ops.conv_transpose(dy, w, **self.attrs).shape
        more = [self.x.shape[2 + i] - short[2 + i] for i in range(n)]
        graph = Graph()
        w, dy = graph.input("w", self.w.shape), graph.input("dy", self.dy.shape)
        graph.output(ops.conv_transpose(dy, w, **self.attrs, output_padding=more, name="layer"))
        return graph, [self.w, self.dy]

    def torch(self, which: str) -> list[Callable[[], Any]]:
        """PyTorch's pass in rows and with channels last."""
        import torch

        n = self.w.ndim - 2
        numbers = {}
        for name, usual in zip(NAMES[:3], (1, 0, 1)):
            value = self.attrs.get(name, (usual,))
            numbers[name] = list(value) * n if len(value) == 1 else list(value)
        if len(numbers["padding"]) > n:
            raise common.Wrong("PyTorch has the same padding at both ends")
        runs = []
        for layout in (torch.contiguous_format, torch.channels_last):
            dy, x, w = (torch.from_numpy(a).to(memory_format=layout) for a in (self.dy, self.x, self.w))

            def run(dy: Any = dy, x: Any = x, w: Any = w) -> Any:
                return torch.ops.aten.convolution_backward(
                    dy, x, w, None, *numbers.values(), False, [0] * n, self.attrs.get("groups", 1),
                    [which == "data", which == "filter", False],
                )[0 if which == "data" else 1]  # fmt: skip

            runs.append(run)
        return runs


def results(
    args: argparse.Namespace,
    device: clcnn.Device,
    figure: Callable[[clcnn.Plan, list[np.ndarray], int], dict[str, Any]],
    show: Callable[..., None],
) -> Iterator[dict[str, Any]]:
    """For each convolution of the cases, beside its forward pass and PyTorch. `figure` times a plan."""
    from caselib import cases_named

    seen = set()
    for case in cases_named(args.cases):
        name = case.label or case.text
        if case.op != "conv" or args.match not in name:
            continue
        for batch in args.batch or [None]:
            layer = Layer(case, batch)
            key = (layer.x.shape, layer.w.shape, str(layer.attrs))
            if key in seen:
                continue
            seen.add(key)
            yield from _of_layer(layer, name, args, device, figure, show)


def _of_layer(
    layer: Layer,
    name: str,
    args: argparse.Namespace,
    device: clcnn.Device,
    figure: Callable[[clcnn.Plan, list[np.ndarray], int], dict[str, Any]],
    show: Callable[..., None],
) -> Iterator[dict[str, Any]]:
    base = {"case": name, "batch": len(layer.x), "precision": args.precision}
    graph, given = layer.graph("forward")
    with clcnn.compile(graph, device=device, precision=args.precision) as plan:
        forward = figure(plan, given, args.rounds)["clcnn_ms"]
    graph, given = layer.graph(args.which)
    with clcnn.compile(graph, device=device, precision=args.precision) as plan:
        mine, got = figure(plan, given, args.rounds), plan(*given)
        candidates = next(row for row in plan.layers if row["layer"] == "layer")["candidates"]
    against = {"peer": "own:forward", "peer_ms": forward, "ratio": forward / mine["clcnn_ms"]}
    yield show(base | mine | against, mine["clcnn_ms"])
    others = [c["algo"] for c in candidates if c["verdict"] in ("not needed", "passed over")]
    for algorithm in others if args.algorithms else []:
        forced = {"layer": algorithm}
        with clcnn.compile(graph, device=device, precision=args.precision, algorithms=forced) as plan:
            other = figure(plan, given, max(1, args.rounds // 4))["clcnn_ms"]
        against = {"peer": f"own:{algorithm}", "peer_ms": other, "ratio": other / mine["clcnn_ms"]}
        yield show(base | mine | against, mine["clcnn_ms"])
    if importlib.util.find_spec("torch"):
        runs = layer.torch(args.which)
        errors = common.checked(got, runs[0]().numpy(), LIMIT)
        times = common.interleave(dict(zip(("rows", "channels last"), runs)), args.rounds, args.seconds)
        least = min(times.values(), key=lambda t: t["min"])["min"]
        against = {"peer": "torch", "peer_ms": least, "ratio": least / mine["clcnn_ms"], **errors}
        yield show(base | mine | against, mine["clcnn_ms"])
