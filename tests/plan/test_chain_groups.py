"""Steps inside one kernel on NVIDIA's GPUs: the same bits as launches, in every run; and what follows when
work-groups wait in vain."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clcnn
from clcnn import nn, ops, zoo

NETS = ["mobilenet_v1", "resnet18", "resnet50", "googlenet", "densenet121", "alexnet", "regnet_x_16gf"]
CHAINED = {(name, "highest") for name in NETS}


@pytest.fixture(scope="module", autouse=True)
def nvidia(device: clcnn.Device) -> None:
    if device.compute_capability < 80:
        pytest.skip("chains of groups need an NVIDIA GPU of compute capability 8.0 or later")


def noise(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(3).standard_normal(shape, np.float32)


class Fork(nn.Module):
    """Two branches, whose steps may run side by side."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.left = nn.Sequential(
            nn.Conv2d(width, width, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
        )
        self.right = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(width, width, 1), nn.Sigmoid())
        self.join = nn.Conv2d(2 * width, width, 1)

    def forward(self, x: Any) -> Any:
        return self.join(ops.concat([self.left(x), self.right(x)], dim=1))


def branches(depth: int, width: int = 64) -> nn.Module:
    return nn.Sequential(*(Fork(width) for _ in range(depth)))


def compare(device: clcnn.Device, name: str, runs: int, precision: str = "highest") -> None:
    net, shape = zoo.get(name), (1, *zoo.find(name).input_shape)
    x = noise(*shape)
    with (
        clcnn.compile(net, shape, device, chain=True, precision=precision) as chained,
        clcnn.compile(net, shape, device, chain=False, precision=precision) as single,
    ):
        if not chained.stats["chained_steps"] and (name, precision) not in CHAINED:
            pytest.skip("too few steps beside each other that a chain takes")
        assert chained.stats["chained_steps"] >= 8 and single.stats["chained_steps"] == 0
        assert chained.stats["launch_count"] < single.stats["launch_count"] == single.stats["step_count"]
        want, other = chained(x).tobytes(), single(x)
        assert all(chained(x).tobytes() == want for _ in range(runs))
        if precision == "highest":
            assert other.tobytes() == want
        else:  # some algorithms that are faster as launches would part a chain
            rms = float(np.sqrt(np.mean(np.square(other))))
            assert np.abs(chained(x) - other).max() < 0.02 * rms
        assert chained.stats["chained_steps"] > 0, "a work-group waited in vain"


@pytest.mark.parametrize("name", NETS)
def test_nets_give_the_same_bits_as_launches(device: clcnn.Device, name: str) -> None:
    compare(device, name, 30)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("name", zoo.NETS)
def test_a_thousand_runs_agree(device: clcnn.Device, name: str, precision: str) -> None:
    compare(device, name, 1000, precision)


def test_branches_beside_each_other(device: clcnn.Device) -> None:
    net, shape = branches(6), (1, 64, 28, 28)
    x = noise(*shape)
    with (
        clcnn.compile(net, shape, device, chain=True) as chained,
        clcnn.compile(net, shape, device, chain=False) as single,
    ):
        assert chained.stats["chained_steps"] >= 8
        want = single(x).tobytes()
        assert all(chained(x).tobytes() == want for _ in range(300))


def test_the_rule_chains_what_gains(device: clcnn.Device) -> None:
    """Many short steps for each kernel, or branches, at a small batch; not where steps compute much."""
    chosen = {}
    for name, batch in (("googlenet", 1), ("resnet50", 1), ("googlenet", 32)):
        shape = (batch, 3, 224, 224)
        with clcnn.compile(getattr(zoo, name)(), shape, device) as plan:
            chosen[name, batch] = plan.stats["chained_steps"] > 0
    assert chosen == {("googlenet", 1): True, ("resnet50", 1): False, ("googlenet", 32): False}


def test_functions_that_no_epilogue_applies(device: clcnn.Device) -> None:
    """Their macros are there though another kernel of the chain had them before."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 1, 1), nn.Softplus(), nn.Mish()]
    x = noise(1, 64, 14, 14)
    with (
        clcnn.compile(nn.Sequential(*layers), x.shape, device, chain=True) as chained,
        clcnn.compile(nn.Sequential(*layers), x.shape, device, chain=False) as single,
    ):
        assert chained.stats["chained_steps"] >= 8
        assert chained(x).tobytes() == single(x).tobytes()


class Candidates(nn.Module):
    """What detectors end with: convolutions, the best places of a row, and boxes that suppress each other."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = branches(2)
        self.scores = nn.Conv2d(64, 4, 1)
        self.boxes = nn.Conv2d(64, 16, 1)

    def forward(self, x: Any) -> Any:
        x = self.trunk(x)
        scores, places = ops.topk(ops.reshape(ops.sigmoid(self.scores(x)), shape=(1, 1, -1)), k=200)
        boxes = ops.abs(ops.reshape(self.boxes(x), shape=(1, -1, 4)))
        boxes = ops.gather(boxes, ops.reshape(places, shape=(-1,)), dim=1)
        chosen = ops.nms(boxes, scores, max_output=50, iou_threshold=0.5)
        return scores, boxes, chosen[0]


def test_kernels_with_local_memory(device: clcnn.Device) -> None:
    """Places of the largest values and masks of boxes that overlap, between convolutions."""
    net, x = Candidates(), noise(1, 64, 14, 14)
    with (
        clcnn.compile(net, x.shape, device, chain=True) as chained,
        clcnn.compile(net, x.shape, device, chain=False) as single,
    ):
        assert chained.stats["chained_steps"] >= 8
        for _ in range(30):
            for mine, want in zip(chained(x), single(x), strict=True):
                assert mine.tobytes() == want.tobytes()


def test_profile_and_runs_may_alternate(device: clcnn.Device) -> None:
    net, shape = branches(4), (1, 64, 14, 14)
    with clcnn.compile(net, shape, device, chain=True) as plan:
        x = noise(*shape)
        want = plan(x).tobytes()
        for _ in range(3):
            assert len(plan.profile(x).rows) == plan.stats["step_count"]
            assert plan(x).tobytes() == want


def test_clones_and_threads(device: clcnn.Device) -> None:
    """Chains of several plans on the device at once, beside launches of others. Should their work-groups
    hinder each other, the bits are the same still."""
    net, shape = branches(4), (1, 64, 28, 28)
    x = noise(*shape)
    with (
        clcnn.compile(net, shape, device, chain=True) as plan,
        clcnn.compile(net, shape, device, chain=False) as single,
    ):
        want = plan(x).tobytes()

        def work(i: int) -> bool:
            with (plan if i % 4 else single).clone() as mine:
                return all(mine(x).tobytes() == want for _ in range(50))

        with ThreadPoolExecutor(4) as pool, warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            assert all(pool.map(work, range(8)))


def test_work_groups_that_wait_in_vain(monkeypatch: pytest.MonkeyPatch, device: clcnn.Device) -> None:
    """Of the first chain no wait may look even once: the plan launches every step then, and says so."""
    net, shape = branches(4), (1, 64, 28, 28)
    x = noise(*shape)
    with clcnn.compile(net, shape, device, chain=False) as single:
        want = single(x).tobytes()
    monkeypatch.setenv("CLCNN_FAULT", "chain_bound:1:-1")
    with clcnn.Device("nvidia") as other, clcnn.compile(net, shape, other, chain=True) as plan:
        monkeypatch.delenv("CLCNN_FAULT")
        assert plan.stats["chained_steps"] == 0
        assert plan.stats["launch_count"] == plan.stats["step_count"]
        with pytest.warns(RuntimeWarning, match="waited for each other in vain"):
            assert plan(x).tobytes() == want
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert plan(x).tobytes() == want
