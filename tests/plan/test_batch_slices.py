"""Layers that compute a few items of the batch at a time: the same results in less memory; and the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import clcnn
import device_face
from clcnn import nn, ops, zoo
from clcnn.graph import Graph
from helpers import refused
from runner import has_blocks

F32 = np.float32
NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "mobilenet_v1": (zoo.mobilenet_v1, (4, 3, 64, 64)),
    "resnet18": (zoo.resnet18, (4, 3, 64, 64)),
    "googlenet": (zoo.googlenet, (4, 3, 64, 64)),
    "densenet121": (zoo.densenet121, (2, 3, 32, 32)),
}


def noise(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(5).standard_normal(shape, F32)


def spans(plan: clcnn.Plan) -> list[str]:
    return [note for note in plan.rewrites if note.endswith("items at a time")]


class Branches(nn.Module):
    """A residual, a concat of three values of which one is read again, and a layer over the whole batch."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.left = nn.Conv2d(width, width, 3, padding=1)
        self.right = nn.Conv2d(width, 2 * width, 1)
        self.join = nn.Conv2d(4 * width, width, 1)
        self.last = nn.Linear(width * 64, 10)

    def forward(self, x: Any) -> Any:
        a = ops.relu(self.first(x), name="a")
        b = ops.relu(self.left(a) + a, name="b")
        joined = ops.concat([a, b, self.right(b)], dim=1, name="joined")
        c = ops.max_pool(ops.sigmoid(self.join(joined), name="c") + b, kernel_size=2, name="d")
        return self.last(ops.flatten(c))


@pytest.fixture(scope="module")
def branches(device: clcnn.Device) -> Iterator[tuple[clcnn.Plan, clcnn.Plan]]:
    """One net, the whole batch at a time and two items at a time."""
    net, shape = Branches(), (4, 3, 16, 16)
    with (
        clcnn.compile(net, shape, device, batch_part=4) as whole,
        clcnn.compile(net, shape, device, batch_part=2) as sliced,
    ):
        yield whole, sliced


@pytest.mark.parametrize(
    ("name", "items"),
    [(name, items) for name, (_, shape) in NETS.items() for items in (1, 2) if items < shape[0]],
)
def test_nets_give_the_same(device: clcnn.Device, name: str, items: int) -> None:
    """Steps by themselves, since a chain of them is a kernel of its own for every net, slow to build."""
    make, shape = NETS[name]
    net, x = make(), noise(*shape)
    with (
        clcnn.compile(net, shape, device, batch_part=shape[0], chain=False) as whole,
        clcnn.compile(net, shape, device, batch_part=items, chain=False) as sliced,
    ):
        assert not spans(whole)
        assert spans(sliced)[0].endswith(f": {items} of {shape[0]} items at a time")
        assert sliced.stats["step_count"] > whole.stats["step_count"]
        if device.type == "cpu":  # on GPUs the scratch of sums in parts may outweigh maps as small as these
            assert sliced.stats["arena_bytes"] < whole.stats["arena_bytes"]
        want, got = whole(x), sliced(x)
        assert got.tobytes() == sliced(x).tobytes()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())


def test_the_bits_are_those_of_the_same_algorithms(device: clcnn.Device) -> None:
    """MobileNet's layers are computed alike whatever the batch is; so are launches and a chain."""
    net, shape = zoo.mobilenet_v1(), (4, 3, 64, 64)
    x = noise(*shape)
    with clcnn.compile(net, (1, *shape[1:]), device) as one:
        rows = [row for row in one.layers if not row["part"] and row["op"] != "reorder"]
        forced = {row["layer"]: row["algo"] for row in rows}
    plans = [
        clcnn.compile(net, shape, device, algorithms=forced, batch_part=items, chain=chain)
        for items, chain in ((4, None), (1, None), (2, None), (1, False))
    ]
    results = {plan(x).tobytes() for plan in plans}
    for plan in plans:
        plan.close()
    assert len(results) == 1


def test_ways_to_run(branches: tuple[clcnn.Plan, clcnn.Plan]) -> None:
    whole, sliced = branches
    x = noise(4, 3, 16, 16)
    want = whole(x)
    out = np.full_like(want, np.nan)
    assert sliced(x, out=out) is out
    np.testing.assert_allclose(out, want, atol=1e-5)
    with sliced.clone() as clone:
        assert clone(x).tobytes() == out.tobytes()
    odd = np.zeros(x.size + 1, F32)[1:].reshape(x.shape)  # not aligned: it is copied
    odd[:] = x
    assert sliced(odd).tobytes() == sliced(x, timeout=60.0).tobytes() == out.tobytes()
    batches = [x, -x, 2 * x]
    for got, batch in zip(sliced.map(batches), batches, strict=True):
        assert got.tobytes() == sliced(batch).tobytes()


def test_layers_are_told_once(branches: tuple[clcnn.Plan, clcnn.Plan]) -> None:
    """What a plan tells of its layers is of the whole batch; steps and times are of each batch slice."""
    whole, sliced = branches
    keys = ("layer", "op", "input", "output", "macs", "weight_bytes")
    ours = [row for row in sliced.layers if not row["part"]]
    assert [{k: row[k] for k in keys} for row in ours] == [
        {k: row[k] for k in keys} for row in whole.layers if not row["part"]
    ]
    assert "2 of 4 items at a time" in sliced.explain()
    profile = sliced.profile(noise(4, 3, 16, 16))
    assert len(profile.rows) == len(sliced.steps) == sliced.stats["step_count"]
    for count in (profile.rows, sliced.steps):
        macs = sum(row["macs"] if isinstance(row, dict) else row.macs for row in count)
        assert macs == pytest.approx(sum(row["macs"] for row in whole.steps), rel=0.3)


def test_guard_bands(device: clcnn.Device) -> None:
    """Batch strides are larger than items here, and all memory is NaN before a run."""
    net, x = Branches(), noise(6, 3, 16, 16)
    with (
        clcnn.compile(net, x.shape, device, batch_part=6) as whole,
        clcnn.compile(net, x.shape, device, batch_part=3, guard=True) as sliced,
    ):
        assert spans(sliced)
        np.testing.assert_allclose(sliced(x), whole(x), atol=1e-5)
        sliced.check_guards()


@pytest.mark.parametrize("wanted", [["a"], ["b", "joined"], ["d", "c"]])
def test_results_of_layers_inside(device: clcnn.Device, wanted: list[str]) -> None:
    """What is asked for is kept for the whole batch."""
    net, x = Branches(), noise(4, 3, 16, 16)
    with (
        clcnn.compile(net, x.shape, device, batch_part=4, outputs=wanted) as whole,
        clcnn.compile(net, x.shape, device, batch_part=1, outputs=wanted) as sliced,
    ):
        assert spans(sliced)
        want, got = whole.run(x), sliced.run(x)
        assert want.keys() == got.keys() and len(want) == 1 + len(wanted)
        for name, array in want.items():
            np.testing.assert_allclose(got[name], array, atol=1e-5, err_msg=name)


def test_what_is_left_alone(device: clcnn.Device) -> None:
    """Batches that cannot be divided so, operators on all items at once, weights that are computed, one
    layer by itself."""
    g = Graph()
    x = g.input("x", (5, 4, 6, 6))
    w = ops.relu(g.input("w", (8, 4, 1, 1)))
    y = ops.relu(ops.conv(ops.sigmoid(x), w, name="computed"))
    g.output(ops.softmax(y, dim=0), "y")
    given = [noise(5, 4, 6, 6), noise(8, 4, 1, 1)]
    with clcnn.compile(g, device=device, batch_part=5) as whole:
        want = whole(*given)
        for items in (1, 2, 5, 7):
            with clcnn.compile(g, device=device, batch_part=items) as plan:
                assert not spans(plan)
                assert plan(*given).tobytes() == want.tobytes()


def gate(g: Graph, x: Any) -> Any:
    """One number for each channel of each item."""
    return ops.sigmoid(ops.conv(ops.adaptive_avg_pool(x, output_size=1), noise(4, 4, 1, 1)))


OPERANDS: dict[str, tuple[Callable[[Graph, Any], Any], bool]] = {
    "a gate": (gate, True),
    "one for all items": (lambda g, x: g.constant(noise(1, 4, 1, 1)), True),
    "of the last dimensions": (lambda g, x: g.constant(noise(4, 6, 6)), True),
    "a constant of items": (lambda g, x: g.constant(noise(4, 4, 1, 1)), False),
    "a map of the last dimensions": (lambda g, x: ops.relu(g.input("z", (4, 6, 6))), False),
    "a map of one item": (lambda g, x: ops.relu(g.input("z", (1, 4, 6, 6))), False),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("form", OPERANDS)
def test_operands_that_are_broadcast(device: clcnn.Device, form: str, swapped: bool) -> None:
    """There are as many items as channels, so that a dimension could be taken for another one."""
    make, wanted = OPERANDS[form]
    g = Graph()
    x = ops.conv(g.input("x", (4, 4, 6, 6)), noise(4, 4, 1, 1), name="first")
    pair = [x, make(g, x)]
    g.output(ops.sigmoid(ops.mul(*(reversed(pair) if swapped else pair), name="product"), name="last"), "y")
    with (
        clcnn.compile(g, device=device, fuse=False, batch_part=4) as whole,
        clcnn.compile(g, device=device, fuse=False, batch_part=1) as sliced,
    ):
        given = [noise(*shape) for shape in sliced.inputs.values()]
        assert sliced(*given).tobytes() == whole(*given).tobytes()
        assert ("first to last: 1 of 4 items at a time" in spans(sliced)) == wanted


def test_bad_slice(device: clcnn.Device) -> None:
    g = Graph()
    g.output(ops.relu(g.input("x", (2, 4, 6, 6))), "y")
    refused(
        lambda: clcnn.compile(g, device=device, batch_part=-2),
        clcnn.ArgumentError,
        ValueError,
        "batch_part: must be from 0 to 2147483647, got -2",
    )


RULE = """
import sys
import numpy as np, clcnn
from clcnn import nn

def layers(depth):
    return [nn.Conv2d(3, 16, 1), *(nn.Conv2d(16, 16, 1) for _ in range(depth)), nn.MaxPool2d(4)]

def told(net, shape):
    with (
        clcnn.compile(net, shape, "cpu") as plan,
        clcnn.compile(net, shape, "cpu", batch_part=shape[0]) as whole,
    ):
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        same = plan(x).tobytes() == whole(x).tobytes()
        notes = [n.split(": ")[1] for n in plan.rewrites if n.endswith("at a time")]
        print(same, plan.stats["arena_bytes"] < whole.stats["arena_bytes"], *notes, sep=", ")

class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Sequential(*layers(1)[:2]), nn.Sequential(*layers(2)[1:])
        two = nn.Conv2d(16, 4, 1), nn.ReLU(), nn.Conv2d(4, 16, 1), nn.Sigmoid()
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), *two)

    def forward(self, x):
        y = self.before(x)
        return self.after(y * self.gate(y))

net = nn.Sequential(*layers(3), nn.Conv2d(16, 16, 1), nn.Conv2d(16, 16, 1))
for shape in ((8, 3, 128, 128), (8, 3, 32, 32), (1, 3, 128, 128)):
    told(net, shape)
told(Gated(), (8, 3, 128, 128))
"""


def test_rule(device: clcnn.Device, tmp_path: Path) -> None:
    """A CPU with 8 MiB of cache: maps of 8 MiB are computed one item at a time, and their gates with them;
    those of half a MiB are not, nor is one image."""
    if not has_blocks(device):
        pytest.skip("the rule is for CPU devices with channel blocks")
    printed = device_face.run(tmp_path, RULE, kind="CPU", FACE_CACHE=str(8 << 20), CLCNN_DEVICE="cpu")
    assert printed.splitlines()[-4:] == [
        "True, True, 1 of 8 items at a time",
        "True, False",
        "True, False",
        "True, True, 1 of 8 items at a time",
    ]
