"""Plans of other sizes that are like a first one: its kernels serve them, and their results are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import nn, ops
from clcnn.device import get
from runner import has_blocks

SIZES = [(1, 3, 24, 40), (1, 3, 64, 48), (2, 3, 33, 47), (3, 3, 32, 32), (1, 3, 91, 65)]


class Net(nn.Module):
    """Every kind of convolution that has register tiles, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 7, stride=2, padding=3)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(nn.Conv2d(32, 32, 3, padding=1) for _ in range(4)))
        self.down = nn.Conv2d(32, 64, 3, stride=2, padding=1)
        self.points = nn.Sequential(*(nn.Conv2d(64, 64, 1) for _ in range(3)))
        self.last, self.flatten, self.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)

    def forward(self, x: Any) -> Any:
        x = self.blocks(self.pool(ops.relu(self.stem(x))))
        return self.fc(self.flatten(self.last(self.points(self.down(x)))))


@pytest.fixture(scope="module")
def net() -> Net:
    nn.init.manual_seed(1)
    return Net().eval()


def data(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", SIZES, ids=str)
def test_results_are_right(net: Net, shape: tuple[int, ...]) -> None:
    device = get()
    with clcnn.compile(net, (1, 3, 64, 64), device=device) as first:
        plan = clcnn.compile(net, shape, device=device, like=first)
    with plan, clcnn.compile(net, shape, device=device) as own:
        x = data(shape)
        want = own(x)
        np.testing.assert_allclose(plan(x), want, rtol=0, atol=2e-5 * np.abs(want).max())


def test_a_new_size_builds_no_kernel(net: Net) -> None:
    device = clcnn.Device(DEVICE)
    if not has_blocks(device):
        pytest.skip("the device has no channel blocks")
    plan = clcnn.compile(net, (1, 3, 224, 224), device=device)
    kernels = {(step["kernel"], step["defines"]) for step in plan.steps}
    for shape in [(1, 3, 256, 256), (1, 3, 300, 452), (1, 3, 240, 320)]:
        before = device.stats()["programs_built"]
        plan = clcnn.compile(net, shape, device=device, like=plan)
        assert device.stats()["programs_built"] == before, shape
        assert {(step["kernel"], step["defines"]) for step in plan.steps} <= kernels
    verdicts = {row["verdict"] for layer in plan.layers for row in layer["candidates"]}
    assert "chosen as in the plan that this one is like" in verdicts


def test_a_new_batch_builds_one_kernel_at_most(net: Net) -> None:
    """That of the linear layer, whose weights are then read once for several rows."""
    device = clcnn.Device(DEVICE)
    if not has_blocks(device):
        pytest.skip("the device has no channel blocks")
    first = clcnn.compile(net, (1, 3, 224, 224), device=device)
    before = device.stats()["programs_built"]
    for batch in (2, 5, 9):
        clcnn.compile(net, (batch, 3, 224, 224), device=device, like=first)
    assert device.stats()["programs_built"] <= before + 1


def test_a_plan_that_is_like_one_outlives_it(net: Net) -> None:
    device = get()
    first = clcnn.compile(net, (1, 3, 64, 64), device=device)
    plan = clcnn.compile(net, (1, 3, 96, 64), device=device, like=first)
    x = data((1, 3, 96, 64))
    want = plan(x)
    first.close()
    del first
    next_one = clcnn.compile(net, (1, 3, 64, 96), device=device, like=plan)
    assert plan(x).tobytes() == want.tobytes()
    assert plan.clone()(x).tobytes() == want.tobytes()
    assert next_one(data((1, 3, 64, 96))).shape == (1, 10)


def test_another_net_may_be_given(net: Net) -> None:
    """Its kernels serve by chance, and results do not depend on that."""
    device = get()
    other = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 4, 3, padding=2, dilation=2))
    x = data((2, 3, 20, 30))
    with clcnn.compile(net, (1, 3, 64, 64), device=device) as first:
        got = clcnn.compile(other, x.shape, device=device, like=first)(x)
    want = clcnn.compile(other, x.shape, device=device)(x)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max())


def test_what_is_no_plan_is_refused(net: Net) -> None:
    with pytest.raises(clcnn.DtypeError, match="like: expected a plan or None"):
        clcnn.compile(net, (1, 3, 32, 32), like="first")
