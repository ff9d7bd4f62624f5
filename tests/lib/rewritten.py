"""A network under construction, with random constants, and what it computes with rewrites and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from clcnn import _core
from runner import functions_of_graph, layers_of_graph
from tolerance import errors


class Net:
    """A graph under construction, with its own random constants. Layers are named as they are called."""

    def __init__(self, seed: int = 3) -> None:
        self.graph = _core.Graph()
        self._rng = np.random.default_rng(seed)
        self._constants = 0

    def input(self, name: str, *shape: int) -> int:
        return self.graph.input(name, shape)

    def weight(self, *shape: int, low: float = -1.0) -> int:
        self._constants += 1
        fan_in = max(1, int(np.prod(shape[1:])))
        array = self._rng.uniform(low, 1.0, shape) * (3.0 / fan_in) ** 0.5
        return self.graph.constant(f"w{self._constants}", np.asarray(array, np.float32))

    def layer(self, op: str, name: str, *inputs: int | None, **attrs: Any) -> int:
        return self.graph.node(op, name, inputs, attrs)[0]

    def conv(self, name: str, x: int, filters: int, size: int, bias: bool = True, **attrs: Any) -> int:
        channels = self.graph.shape(x)[1] // attrs.get("groups", 1)
        rank = len(self.graph.shape(x)) - 2
        weights = [self.weight(filters, channels, *[size] * rank)]
        if bias:
            weights.append(self.weight(filters))
        return self.layer("conv", name, x, *weights, **({"padding": (size // 2,)} | attrs))

    def batch_norm(self, name: str, x: int) -> int:
        c = self.graph.shape(x)[1]
        parameters = [self.weight(c), self.weight(c), self.weight(c), self.weight(c, low=0.5)]
        return self.layer("batch_norm", name, x, *parameters)

    def output(self, *values: int) -> None:
        for i, value in enumerate(values):
            self.graph.output(value, f"out{i}")


def random_inputs(plan: _core.Plan) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape).astype(np.float32) for _, shape in plan.inputs]


class Both:
    """The graph compiled with rewrites and without; raises AssertionError when their outputs differ, or when
    the fused one, between guard bands, touches what it must not."""

    def __init__(self, device: _core.Device, net: Net, overrides: dict[str, str] | None = None) -> None:
        options = {"overrides": overrides or {}}
        with _core.Plan(device, net.graph, fuse=False) as plain:
            data = random_inputs(plain)
            wanted, self.plain_steps = plain.run(data), len(layers_of_graph(plain.steps()))
            assert plain.rewrites() == []
        for guard in (True, False):
            with _core.Plan(device, net.graph, guard=guard, **options) as plan:
                got = plan.run(data)
                if guard:
                    plan.check_guards()
                self.all_steps, self.notes = plan.steps(), plan.rewrites()
                self.layers = layers_of_graph(plan.layers())
            for one, other in zip(got, wanted, strict=True):
                assert np.any(other)
                assert max(errors(one, other)) < 1e-5

    @property
    def steps(self) -> list[dict[str, Any]]:
        """Without those that only change the layout."""
        return layers_of_graph(self.all_steps)

    @property
    def names(self) -> list[str]:
        """Layers in the order of their steps, each once, element-wise functions apart."""
        return list(dict.fromkeys(row["layer"] for row in functions_of_graph(self.all_steps)))

    def fused(self, layer: str) -> str:
        (row,) = (row for row in self.layers if row["layer"] == layer)
        return row["fused"]
