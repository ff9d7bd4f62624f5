"""Quantised networks as the importer writes them, and what they give on bytes and in floats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from clcnn import _core
from rewritten import Net


class Quantised(Net):
    """A network as the importer writes quantised files: whole numbers in floats, factors, steps."""

    def constant(self, array: Any) -> int:
        self._constants += 1
        return self.graph.constant(f"w{self._constants}", np.asarray(array, np.float32))

    def number(self, value: float, rank: int = 4) -> int:
        return self.constant(np.full((1,) * rank, value))

    def steps(self, name: str, x: int, zero: int, scale: float = 1.0) -> int:
        """Whole numbers from -zero to 255 - zero."""
        if scale != 1.0:
            x = self.layer("div", f"{name}.over", x, self.number(scale, len(self.graph.shape(x))))
        return self.layer("fake_quantize", name, x, scale=1.0, zero_point=float(zero))

    def whole(self, *shape: int, most: int = 127) -> np.ndarray:
        return self._rng.integers(-most, most + 1, shape).astype(np.float32)

    def sum(
        self,
        name: str,
        x: int,
        filters: int,
        size: Any = 1,
        zero: int = 0,
        most: int = 127,
        rows: bool = False,
        **attrs: Any,
    ) -> int:
        """A convolution of an input of rank 4, or a linear layer of another one, or of `rows`, rounded to
        steps."""
        size = (size, size) if isinstance(size, int) else size
        shape = self.graph.shape(x)
        conv = len(shape) == 4 and not rows
        op, window = ("conv", size) if conv else ("linear", ())
        channels = shape[1 if conv else -1] // attrs.get("groups", 1)
        weights = self.whole(filters, channels, *window, most=most)
        # steps are left over on both sides of most sums
        factor = (
            self._rng.uniform(0.5, 1.0, filters) * 200 / (most * 100 * (channels * np.prod(window)) ** 0.5)
        )
        bias = self.whole(filters, most=5000)
        aside = (1, -1, 1, 1) if conv else (*[1] * (len(shape) - 1), -1)
        y = self.layer(op, name, x, self.constant(weights), self.constant(bias), **attrs)
        y = self.layer("round", f"{name}.round", y)
        y = self.layer("mul", f"{name}.scaled", y, self.constant(factor.reshape(aside)))
        return self.steps(f"{name}.steps", y, zero)

    def scaled(self, name: str, x: int, scale: float) -> int:
        return self.layer("mul", name, x, self.number(scale, len(self.graph.shape(x))))


class Tried:
    """What a net on bytes gives, between guard bands, and what it gives in floats."""

    def __init__(
        self, device: _core.Device, net: Net, data: list[np.ndarray] | None = None, **options: Any
    ) -> None:
        with _core.Plan(device, net.graph, fuse=False) as plain:
            rng = np.random.default_rng(5)
            self.data = data or [rng.normal(0, 40, shape).astype(np.float32) for _, shape in plain.inputs]
            self.wanted = plain.run(self.data)
        with _core.Plan(device, net.graph, guard=True, **options) as plan:
            self.got = plan.run(self.data)
            plan.check_guards()
            again = plan.run(self.data)
            self.layers, self.notes, self.all_steps = plan.layers(), plan.rewrites(), plan.steps()
        for one, other in zip(self.got, again, strict=True):
            np.testing.assert_array_equal(one, other)

    @property
    def ops(self) -> list[str]:
        return [row["op"] for row in self.layers]

    @property
    def kernels(self) -> set[str]:
        return {row["kernel"] for row in self.all_steps}

    def exact(self) -> Tried:
        for one, other in zip(self.got, self.wanted, strict=True):
            assert len(np.unique(other)) > 3 or other.size < 20
            np.testing.assert_array_equal(one, other)
        return self


def device_on_bytes() -> Iterator[_core.Device]:
    """A fixture: a device that computes quantised layers on bytes."""
    with _core.Device("cpu") as device:
        net = Quantised()
        net.output(net.sum("a", net.steps("q", net.input("x", 1, 16, 2, 2), 9), 16))
        with _core.Plan(device, net.graph) as plan:
            if "byte_conv" not in {row["op"] for row in plan.layers()}:
                pytest.skip("the processor has no AVX512-VNNI, or its driver takes no assembly")
        yield device
