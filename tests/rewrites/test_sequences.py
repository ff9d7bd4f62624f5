"""Steps of an LSTM or a GRU that follow each other become one layer for the whole sequence on GPUs, and near
misses do not; each against the same graph compiled with fuse=False, as a device that passes for a GPU."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import device_face
from cl_build import KERNELS
from clcnn import _core
from rewritten import Both, Net, random_inputs

STEPS, ROWS, UNITS = 4, 3, 5


class Cells:
    """Steps of one layer that are cells already, on rows of one x."""

    def __init__(self, op: str, units: int = UNITS, steps: int = STEPS) -> None:
        self.net, self.op, self.units = Net(), op, units
        self.gates = 4 if op == "lstm_cell" else 3
        self.x = self.net.input("x", steps * ROWS, self.gates * units)
        self.given = [self.net.input(name, ROWS, units) for name in "hc"[: self.gates - 2]]
        self.weights = self.more_weights()
        self.made = 0

    def more_weights(self) -> list[int]:
        weights = [self.net.weight(self.gates * self.units, self.units)]
        return weights + [self.net.weight(self.gates * self.units)] * (self.gates == 3)

    def rows(self, t: int) -> int:
        cut = {"starts": (t * ROWS,), "ends": ((t + 1) * ROWS,), "axes": (0,), "steps": (1,)}
        return self.net.layer("slice", f"x{self.made}", self.x, **cut)

    def step(self, t: int, state: Sequence[int], weights: Sequence[int] | None = None) -> tuple[int, ...]:
        self.made += 1
        inputs = [self.rows(t), *state, *(weights or self.weights)]
        return tuple(self.net.graph.node(self.op, f"step{self.made}", inputs, {}))

    def walk(self, order: Sequence[int], state: Sequence[int] | None = None) -> list[tuple[int, ...]]:
        states, state = [], state or self.given
        for t in order:
            state = self.step(t, state)
            states.append(tuple(state))
        return states

    def join(self, values: Sequence[int]) -> int:
        return self.net.layer("concat", "all", *values, dim=0)


def forward(op: str) -> Net:
    cells = Cells(op)
    states = cells.walk(range(STEPS))
    cells.net.output(cells.join([s[0] for s in states]), *states[-1][1:])
    return cells.net


def backward(op: str) -> Net:
    cells = Cells(op)
    states = cells.walk(range(STEPS)[::-1])
    cells.net.output(cells.join([s[0] for s in states[::-1]]), *states[-1][1:])
    return cells.net


def last_states_alone(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(*cells.walk(range(STEPS))[-1])
    return cells.net


def states_read_elsewhere(op: str) -> Net:
    """The first one, one in the middle and the last one, beside the concatenation."""
    cells = Cells(op)
    states = [s[0] for s in cells.walk(range(STEPS)[::-1])]
    extra = [cells.net.layer("neg", f"neg{k}", states[k]) for k in (0, 2, 3)]
    cells.net.output(cells.join(states[::-1]), states[1], *extra)
    return cells.net


def concatenated_in_another_order(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.join([s[0] for s in cells.walk(range(STEPS))[::-1]]))
    return cells.net


def concatenated_beside_each_other(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.net.layer("concat", "all", *(s[0] for s in cells.walk(range(STEPS))), dim=1))
    return cells.net


def two_layers(op: str) -> Net:
    """The second one reads all states of the first one, and begins with its last state."""
    cells = Cells(op)
    states = cells.walk(range(STEPS))
    y = cells.join([s[0] for s in states])
    cells.x = cells.net.layer("linear", "next", y, cells.net.weight(cells.gates * UNITS, UNITS))
    cells.weights = cells.more_weights()
    behind = [s[0] for s in cells.walk(range(STEPS)[::-1], states[-1])]
    cells.net.output(cells.net.layer("concat", "second", *behind[::-1], dim=0))
    return cells.net


def same_weights_again(op: str) -> Net:
    """A second sequence goes on with the last state, on the same rows and with the same weights."""
    cells = Cells(op)
    states = cells.walk(range(STEPS))
    cells.net.output(cells.join([s[0] for s in states]), cells.walk(range(STEPS), states[-1])[-1][0])
    return cells.net


FOUND = {
    forward: 1, backward: 1, last_states_alone: 1, states_read_elsewhere: 1, concatenated_in_another_order: 1,
    concatenated_beside_each_other: 1, two_layers: 2, same_weights_again: 2,
}  # fmt: skip


def one_step(op: str) -> Net:
    cells = Cells(op, steps=1)
    cells.net.output(*cells.step(0, cells.given))
    return cells.net


def other_weights_in_one_step(op: str) -> Net:
    cells = Cells(op)
    state, states = tuple(cells.given), []
    for t in range(STEPS):
        state = cells.step(t, state, cells.more_weights() if t == 2 else None)
        states.append(state[0])
    cells.net.output(cells.join(states))
    return cells.net


def a_cell_read_elsewhere(op: str) -> Net:
    """Of a GRU, which has none: a state that does not go to the next step."""
    cells = Cells(op)
    states = cells.walk(range(2))
    if op == "lstm_cell":
        cells.net.graph.output(states[1][1], "inner")
        states += cells.walk(range(2, STEPS), states[1])
    else:
        states += cells.walk(range(2, STEPS), states[0])
    cells.net.output(cells.join([s[0] for s in states]))
    return cells.net


def rows_out_of_order(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.join([s[0] for s in cells.walk((0, 2, 1, 3))]))
    return cells.net


def rows_again(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.join([s[0] for s in cells.walk((0, 1, 2, 1))]))
    return cells.net


def a_part_of_the_rows(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.join([s[0] for s in cells.walk(range(STEPS - 1))]), cells.x)
    return cells.net


def from_the_middle(op: str) -> Net:
    cells = Cells(op)
    cells.net.output(cells.join([s[0] for s in cells.walk(range(1, STEPS))]), cells.x)
    return cells.net


def too_many_units(op: str) -> Net:
    cells = Cells(op, units=113 if op == "lstm_cell" else 129)
    cells.net.output(cells.join([s[0] for s in cells.walk(range(STEPS))]))
    return cells.net


MISSES = (
    one_step, other_weights_in_one_step, a_cell_read_elsewhere, rows_out_of_order, rows_again,
    a_part_of_the_rows, from_the_middle, too_many_units,
)  # fmt: skip


def tell(device: _core.Device, net: Net, overrides: dict[str, str] | None = None) -> dict[str, Any]:
    """How many layers there are of each kind, in the end."""
    ops = [row["op"] for row in Both(device, net, overrides).layers]
    return {"whole": sum(op in ("lstm", "gru") for op in ops), "cells": sum("_cell" in op for op in ops)}


GPU = """
import json
import test_sequences as t
from clcnn import _core
with _core.Device("gpu") as device:
    told = {}
    for op in ("lstm_cell", "gru_cell"):
        for build in (*t.FOUND, *t.MISSES):
            told[f"{op} {build.__name__}"] = t.tell(device, build(op))
        forced = {"step2": "ref"}
        told[f"{op} forced inside"] = t.tell(device, t.forward(op), forced)
        told[f"{op} forced at the end"] = t.tell(device, t.forward(op), {"step4": "ref"})
        told[f"{op} tiles forced at the end"] = t.tell(device, t.forward(op), {"step4": "tiled"})
        told[f"{op} a slice is forced"] = t.tell(device, t.forward(op), {"x2": "ref"})
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    printed = device_face.run(tmp_path_factory.mktemp("face"), GPU)
    return dict(json.loads(printed.splitlines()[-1]))


OPS = ("lstm_cell", "gru_cell")


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("build", FOUND, ids=lambda build: build.__name__)
def test_steps_are_one_layer(told, op, build):
    assert told[f"{op} {build.__name__}"] == {"whole": FOUND[build], "cells": 0}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("build", MISSES, ids=lambda build: build.__name__)
def test_near_misses(told, op, build):
    row = told[f"{op} {build.__name__}"]
    assert row["whole"] == 0 and row["cells"] > 0


@pytest.mark.parametrize("op", OPS)
def test_layers_whose_algorithm_is_forced(told, op):
    """A step keeps its own node, unless the layer it would be the last one of has that algorithm, too."""
    cells = {"whole": 0, "cells": STEPS}
    assert told[f"{op} forced inside"] == told[f"{op} tiles forced at the end"] == cells
    assert told[f"{op} forced at the end"] == {"whole": 1, "cells": 0}
    assert told[f"{op} a slice is forced"] == cells


SMALL_GROUPS = """
import json
import test_sequences as t
from clcnn import _core
with _core.Device("gpu") as device:
    print(json.dumps([t.tell(device, t.of_units(units)) for units in (32, 33)]))
"""


def of_units(units: int) -> Net:
    cells = Cells("lstm_cell", units)
    cells.net.output(cells.walk(range(STEPS))[-1][0])
    return cells.net


def test_groups_must_have_all_units(tmp_path):
    """Each unit takes four work-items, and units come by sixteen."""
    fits, does_not = json.loads(device_face.run(tmp_path, SMALL_GROUPS, FACE_GROUP="128").splitlines()[-1])
    assert fits == {"whole": 1, "cells": 0}
    assert does_not == {"whole": 0, "cells": STEPS}


SHARED = """
import json
import test_sequences as t
from clcnn import _core
with _core.Device("gpu") as device:
    print(json.dumps([t.tell(device, t.of_units(units), {"step4": "ref"}) for units in (113, 120, 128)]))
"""


def test_groups_that_may_wait_share_many_units(tmp_path, device):
    """Each takes eight units: 15 groups have room for 120."""
    if device.compute_capability:
        pytest.skip("the device behind the simulated one has more compute units")
    printed = device_face.run(tmp_path, SHARED, FACE_CAPABILITY="90", FACE_UNITS="15")
    *fit, does_not = json.loads(printed.splitlines()[-1])
    assert fit == [{"whole": 1, "cells": 0}] * 2
    assert does_not == {"whole": 0, "cells": STEPS}


@pytest.mark.parametrize("op", OPS)
def test_the_device_agrees(device, op):
    """CPU devices keep their cells: a launch costs them little, and a chain nothing."""
    for build in FOUND:
        row = tell(device, build(op))
        assert row["whole"] == (0 if device.type == "cpu" else FOUND[build])


# ---- groups that share a layer, on NVIDIA's GPUs -----------------------------------------------------------


def whole(op: str, rows: int, steps: int, units: int) -> Net:
    gates = {"lstm": 4, "gru": 3}[op]
    net = Net()
    operands = [net.input("x", steps * rows, gates * units), net.input("h", rows, units)]
    operands += [net.input("c", rows, units)] if op == "lstm" else []
    operands += [net.weight(gates * units, units)] + ([net.weight(gates * units)] if op == "gru" else [])
    net.output(*net.graph.node(op, "all", operands, {}))
    return net


@pytest.fixture
def waiting(device: _core.Device) -> _core.Device:
    if device.compute_capability < 80:
        pytest.skip("groups may wait for each other on NVIDIA GPUs of compute capability 8.0 or later")
    return device


SHARED_LAYERS = [("gru", 1, 50, 128), ("lstm", 9, 20, 256), ("gru", 2, 9, 800), ("gru", 5, 6, 800)]
SHARED_LAYERS += [("lstm", 33, 5, 512)]  # three parts of rows, and the last one is short


@pytest.mark.parametrize("op, rows, steps, units", SHARED_LAYERS)
def test_shared_layers_give_the_same_bits_in_every_run(waiting, op, rows, steps, units):
    graph = whole(op, rows, steps, units).graph
    with (
        _core.Plan(waiting, graph, overrides={"all": "shared"}) as plan,
        _core.Plan(waiting, graph, overrides={"all": "ref"}) as definition,
    ):
        inputs = random_inputs(plan)
        first = plan.run(inputs)
        for got, want in zip(first, definition.run(inputs), strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)
        for _ in range(200):
            assert [y.tobytes() for y in plan.run(inputs)] == [y.tobytes() for y in first]


def test_a_layer_whose_groups_wait_in_vain_is_computed_again(waiting, tmp_path):
    """With kernels whose waits end before they look."""
    shutil.copytree(KERNELS, tmp_path / "kernels")
    path = tmp_path / "kernels" / "matmul" / "sequence_shared.cl"
    impatient = path.read_text().replace("looks < BOUND", "looks < 0")
    assert impatient != path.read_text()
    path.write_text(impatient)
    graph = whole("lstm", 3, 7, 200).graph
    with (
        _core.Device("nvidia", kernel_dir=str(tmp_path / "kernels")) as other,
        _core.Plan(other, graph, overrides={"all": "shared"}) as plan,
        _core.Plan(waiting, graph, overrides={"all": "ref"}) as definition,
    ):
        inputs = random_inputs(plan)
        for _ in range(3):
            for got, want in zip(plan.run(inputs), definition.run(inputs), strict=True):
                np.testing.assert_array_equal(got, want)


# ---- through ONNX ------------------------------------------------------------------------------------------

IMPORTED = """
import json, sys
import test_sequences as t
import clcnn
with clcnn.Device("gpu") as device:
    print(json.dumps(t.imported(device, sys.argv[1])))
"""


def imported(device: Any, direction: str) -> dict[str, Any]:
    """Layers of an LSTM and a GRU as ONNX has them; their results as the definition in float64 gives them."""
    import test_onnx_recurrent as there

    import clcnn
    from onnx_models import load

    backwards, told = there.WORDS[direction], {}
    for op in ("LSTM", "GRU"):
        k = there.constants(op, len(backwards))
        k.pop("p", None)
        more = {} if op == "LSTM" else {"linear_before_reset": 1}
        proto = there.proto_of(op, dict(k), direction=direction, **more)
        if op == "LSTM":
            k["p"] = np.zeros((len(backwards), 3 * there.H), np.float32)
        wanted = there.expected(op, k, backwards, [there.T] * there.N, True)
        with clcnn.compile(load(proto).graph(), device=device) as plan:
            for ours, want in zip(plan.run({"x": there.X}).values(), wanted, strict=True):
                np.testing.assert_allclose(ours, want, rtol=1e-5, atol=1e-5)
            told[op] = [row["op"] for row in plan.layers]
    return told


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_sequences_of_onnx_files(tmp_path: Path, direction: str) -> None:
    pytest.importorskip("onnx")
    layers = json.loads(device_face.run(tmp_path, IMPORTED, direction).splitlines()[-1])
    count = 2 if direction == "bidirectional" else 1
    for op, found in layers.items():
        assert found.count(op.lower()) == count
        assert not any("cell" in name for name in found)
