"""Transposed convolutions: what they become before algorithms are chosen, and their phases."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from caselib import parse_case
from clcnn import _core
from runner import compile_case, layers_of_graph, run_case

ROOT = Path(__file__).resolve().parents[2]
FOLD = "fold batch_norm y1 into conv_transpose y0"
TURN = "turn conv_transpose y0 at stride 1 into a conv"
# A case, the operator that its layer is in the plan, the first of the rewriter's notes.
REWRITES = [
    ("n2 c12 h5 w4 k8 r3 s2 u2 e:bn+relu", "conv_transpose", FOLD),
    ("n2 c12 h5 w4 k8 r3 s2 u2 b0 e:bn+relu", "conv_transpose", FOLD),
    ("n2 c12 h5 w4 k6 r3 s2 u2 g3 e:bn", "conv_transpose", FOLD),
    ("n1 c12 w9 k8 s4 u2 g4 b0 e:bn", "conv_transpose", FOLD),
    ("n2 c8 h7 w6 k6 r3 s3 p1", "conv", TURN),
    ("n2 c8 h5 w4 k6 r3 s2 p0x1x2x0 g2", "conv", TURN),
    ("n1 c8 h6 w6 k6 r3 s3 l2 p3 o1", "conv", TURN),
    ("n1 c8 h6 w6 k8 r3 s3 p1 g8", "conv", TURN),
    ("n1 c8 w9 k6 s4 p1x3", "conv", TURN),
    ("n1 c8 d3 h4 w2 k6 t2 r1 s3", "conv", TURN),
    ("n2 c12 h5 w4 k6 r3 s2 g3 e:bn", "conv", FOLD),
    ("n1 c8 h7 w6 k6 r2 s2 u1x2", "conv_transpose", ""),
    ("n1 c8 h9 w9 k6 r3 s3 p2x2x3x2", "conv_transpose", ""),  # crops more than the kernel adds
    ("n1 c8 h1 w1 k6 r4 s4", "conv_transpose", ""),  # one pixel: each output meets one tap
]


@pytest.mark.parametrize(("text", "op", "note"), REWRITES, ids=[row[0] for row in REWRITES])
def test_rewrites(device, text, op, note):
    case = parse_case(f"conv_transpose {text}")
    data = case.data()
    with compile_case(device, case, data) as plan:
        (layer,) = layers_of_graph(plan.layers())
        assert layer["op"] == op
        assert (plan.rewrites() or [""])[0] == note
        case.check(run_case(plan, case, data), data, "strict")


def test_computed_weights_stay(device):
    graph = _core.Graph()
    inputs = [graph.input("x", (1, 8, 5, 5)), graph.input("w", (8, 6, 3, 3))]
    graph.output(graph.node("conv_transpose", "up", inputs, {"padding": (1,)})[0], "y")
    data = [np.ones((1, 8, 5, 5), np.float32), np.ones((8, 6, 3, 3), np.float32)]
    with _core.Plan(device, graph) as plan:
        assert plan.rewrites() == []
        (y,) = plan.run(data)
    assert (y[0, 0, 0, 0], y[0, 0, 2, 2]) == (8 * 4, 8 * 9)


# ---- phases ------------------------------------------------------------------------------------------------

# Of one dimension: input, kernel, stride, padding before and after, dilation, output padding.
PHASES = [
    (5, 3, 2, 1, 1, 1, 1),
    (4, 4, 2, 1, 1, 1, 0),
    (6, 2, 2, 0, 0, 1, 0),
    (6, 2, 3, 0, 0, 1, 0),  # phases without taps
    (5, 1, 4, 0, 0, 1, 2),
    (7, 5, 3, 2, 0, 2, 1),
    (7, 4, 4, 3, 1, 2, 0),  # stride and dilation have a divisor in common
    (6, 3, 6, 1, 2, 4, 5),
    (9, 3, 1, 2, 3, 1, 0),
    (6, 5, 1, 0, 4, 3, 2),
    (1, 4, 1, 0, 0, 1, 0),
    (1, 4, 2, 1, 1, 3, 0),
    (1, 3, 2, 3, 0, 2, 1),
    (3, 16, 8, 4, 4, 1, 0),
    (2, 2, 9, 4, 3, 1, 0),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phases") / "phases"
    sources = [ROOT / path for path in ("tests/lib/conv_phases_of.c", "csrc/algos/conv/conv_phases.c")]
    flags = ["-std=c11", f"-I{ROOT / 'csrc'}", f"-I{ROOT / 'kernels'}", "-o", str(out)]
    try:
        subprocess.run([*os.environ.get("CC", "cc").split(), *map(str, sources), *flags], check=True)
    except FileNotFoundError:
        pytest.skip("there is no C compiler")
    return out


@pytest.mark.parametrize("numbers", PHASES, ids=str)
def test_phases_meet_each_tap_once(program, numbers):
    """The outputs of all phases, with the taps and inputs that they meet, against the definition: tap t of
    input i adds to output i * stride + t * dilation - padding."""
    size, kernel, stride, before, after, dilation, extra = numbers
    out = (size - 1) * stride + dilation * (kernel - 1) + 1 + extra - before - after
    given = (size, out, kernel, stride, before, dilation)
    command = [str(program), *map(str, given)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    most, largest, *phases = printed
    met, outputs, taps_of = set(), [], []
    for q, line in enumerate(phases):
        count, taps, first, every, at, step, spread = map(int, line.split())
        outputs += [q + m * spread for m in range(count)]
        taps_of.append(taps)
        for m in range(count):
            for j in range(taps):
                if 0 <= m + at - j * step < size:
                    pair = (q + m * spread, first + j * every, m + at - j * step)
                    assert pair not in met
                    met.add(pair)
    assert sorted(outputs) == list(range(out))
    places = {(i * stride + t * dilation - before, t, i) for i in range(size) for t in range(kernel)}
    assert met == {place for place in places if 0 <= place[0] < out}
    assert int(most) >= max(taps_of)
    assert int(largest) == max(int(line.split()[0]) for line in phases)
    assert size > 1 or max(taps_of) == 1
