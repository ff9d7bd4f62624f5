"""Networks written layer by layer, as exporters do it, each layer computed in float64 beside it; and what a
device makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from clcnn import _core
from clcnn._reference import REFERENCE
from runner import functions_of_graph
from tolerance import errors


class Written:
    """A graph under construction, its inputs' data and every value in float64."""

    def __init__(self) -> None:
        self.graph = _core.Graph()
        self.data: list[np.ndarray] = []
        self.exact: dict[int, np.ndarray] = {}
        self._rng = np.random.default_rng(5)
        self._count = 0

    def input(self, name: str, *shape: int, spread: float = 1.0) -> int:
        value = self.graph.input(name, shape)
        self.data.append((self._rng.standard_normal(shape) * spread).astype(np.float32))
        self.exact[value] = self.data[-1].astype(np.float64)
        return value

    def array(self, numbers: np.ndarray | float) -> int:
        """A constant of float32."""
        self._count += 1
        held = np.asarray(numbers, np.float32)
        value = self.graph.constant(f"w{self._count}", held)
        self.exact[value] = held.astype(np.float64)
        return value

    def weight(self, *shape: int, low: float = -1.0) -> int:
        fan_in = max(1, int(np.prod(shape[1:])))
        return self.array(self._rng.uniform(low, 1.0, shape) * (3.0 / fan_in) ** 0.5)

    def layer(self, op: str, name: str, *inputs: int | None, **attrs: Any) -> int:
        value = self.graph.node(op, name, inputs, attrs)[0]
        self.exact[value] = REFERENCE[op](*(None if i is None else self.exact[i] for i in inputs), **attrs)
        return value

    def do(self, op: str, *operands: int | float | None, **attrs: Any) -> int:
        """One layer; floats among its operands become constants."""
        self._count += 1
        values = [self.array(x) if isinstance(x, float) else x for x in operands]
        return self.layer(op, f"{op}{self._count}", *values, **attrs)

    def conv(self, x: int, filters: int, size: int, **attrs: Any) -> int:
        channels = self.graph.shape(x)[1] // attrs.get("groups", 1)
        rank = len(self.graph.shape(x)) - 2
        weights = [self.weight(filters, channels, *[size] * rank), self.weight(filters)]
        return self.do("conv", x, *weights, padding=(size // 2,), **attrs)


Build = Callable[[Written, int], int]


def run(
    device: _core.Device,
    build: Build,
    shape: tuple[int, ...] = (2, 6, 4, 5),
    limit: float = 2e-6,
    spread: float = 1.0,
) -> tuple[list[str], list[str]]:
    """Operators that run for what `build` writes of an input, and the notes of the rewrites. Raises
    AssertionError when the result is not that of the definitions."""
    net = Written()
    result = build(net, net.input("x", *shape, spread=spread))
    net.graph.output(result, "y")
    with _core.Plan(device, net.graph, guard=True) as plan:
        (got,) = plan.run(net.data)
        plan.check_guards()
        assert got.shape == net.exact[result].shape
        assert max(errors(got, net.exact[result])) < limit
        return [row["op"] for row in functions_of_graph(plan.steps())], plan.rewrites()


def found(device: _core.Device, build: Build, **options: Any) -> list[str]:
    """The operators alone."""
    return run(device, build, **options)[0]
