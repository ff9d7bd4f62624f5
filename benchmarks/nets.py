"""The zoo's nets with weights under which float32 errors mean something, inputs, and float64 logits."""

from __future__ import annotations

import math
from functools import cached_property

import common
import numpy as np
import torch

import clcnn
from clcnn import zoo
from clcnn.graph import Record, trace
from torch_net import Function, TorchNet

IMAGES = 2  # different images; a larger batch repeats them, so that every row of the logits has a reference


class Net:
    """A zoo net with weights set for benchmarks.

    Weights are He-scaled (He et al. 2015), and batch-norm statistics are those of the net's own activations
    on the inputs, as training would leave them. So every layer's output is of order 1, whatever the depth.
    """

    def __init__(self, name: str, seed: int = 0) -> None:
        self.name = name
        self.module = zoo.get(name)
        self._images = np.random.default_rng(seed).standard_normal(
            (IMAGES, *zoo.find(name).input_shape), np.float32
        )
        self.module.load_state_dict(draw_weights(self.graph(1), np.random.default_rng(seed + 1)))
        self.module.load_state_dict(_statistics(self.graph(IMAGES), self._images), strict=False)

    def graph(self, batch: int) -> clcnn.Graph:
        """The net traced for a batch."""
        return trace(self.module, (batch, *zoo.find(self.name).input_shape))

    def inputs(self, batch: int) -> np.ndarray:
        """x [batch, C, H, W], normal."""
        return np.ascontiguousarray(self._images[np.arange(batch) % IMAGES])

    @cached_property
    def _logits(self) -> np.ndarray:
        return self._in_double(TorchNet(self.graph(IMAGES)))

    def _in_double(self, net: TorchNet) -> np.ndarray:
        with torch.inference_mode():
            return net.double()(torch.from_numpy(self._images).double()).numpy()

    @cached_property
    def tf32_rms(self) -> float:
        """Rms error of the logits, over their rms, when every product's operands are rounded to tf32 and
        nothing else is: what no tf32 can do without, whoever computes it."""
        net = TorchNet(self.graph(IMAGES))
        net.calls = [
            (op, _on_tf32(function) if op in ("conv", "linear") else function, ids, made)
            for op, function, ids, made in net.calls
        ]
        return common.errors(self._in_double(net), self._logits)["rms_error"]

    def reference(self, batch: int) -> np.ndarray:
        """Logits of inputs(batch) in float64."""
        return self._logits[np.arange(batch) % IMAGES]


def _on_tf32(function: Function) -> Function:
    """The function with its first two operands, input and weights, rounded to tf32."""

    def run(x: torch.Tensor, weight: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        return function(_tf32(x), _tf32(weight), *others)

    return run


def _tf32(x: torch.Tensor) -> torch.Tensor:
    """The nearest values of 10 bits after the point."""
    bits = x.float().contiguous().numpy().view(np.uint32)
    cut = (bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return torch.from_numpy(cut.view(np.float32)).to(x.dtype)


def draw_weights(graph: clcnn.Graph, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """New values for every constant, by the input of the operator that it is."""
    state: dict[str, np.ndarray] = {}
    constants = {r.values[0]: r for r in graph.records if r.kind == "constant"}
    for node in graph.records:
        for position, i in enumerate(node.inputs if node.kind == "node" else ()):
            if i in constants:
                state[constants[i].name] = _draw(node.op, position, constants[i], rng)
    return state


def _draw(op: str, position: int, constant: Record, rng: np.random.Generator) -> np.ndarray:
    shape = constant.shape
    normal = rng.standard_normal(shape, np.float32)
    if op == "batch_norm":
        return np.abs(1 + np.float32(0.1) * normal) if position in (1, 4) else np.float32(0.1) * normal
    if position == 1:
        return normal * np.float32(math.sqrt(2 / math.prod(shape[1:])))
    return normal * np.float32(0.05)


def _statistics(graph: clcnn.Graph, x: np.ndarray) -> dict[str, np.ndarray]:
    """Mean and variance of every batch norm's input over batch and space, with those before it in effect."""
    names = {r.values[0]: r.name for r in graph.records if r.kind == "constant"}
    net = TorchNet(graph)
    state: dict[str, np.ndarray] = {}

    def measuring(function: Function, ids: tuple[int | None, ...]) -> Function:
        def run(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
            variance, mean = torch.var_mean(x, [0, *range(2, x.dim())], correction=0)
            for i, value in zip(ids[3:], (mean, variance)):
                state[names[i or 0]] = value.numpy().copy()
            return function(x, weight, bias, mean, variance)

        return run

    net.calls = [
        (op, measuring(function, ids) if op == "batch_norm" else function, ids, made)
        for op, function, ids, made in net.calls
    ]
    with torch.inference_mode():
        net(torch.from_numpy(x))
    return state
