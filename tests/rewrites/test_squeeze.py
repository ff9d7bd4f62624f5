"""The gates of squeeze-and-excite blocks become one layer: on NVIDIA GPUs, and where a part is forced to an
algorithm of that layer. Each against the same graph with fuse=False; the product with the map stays."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import device_face
from clcnn import _core
from rewritten import Both, Net

CHANNELS, HIDDEN = 24, 6
SPLIT = {"fc2": "split"}  # an algorithm of the merged layer: so every device makes it


def mean(net: Net, x: int, how: str) -> int:
    """Of each channel, as exporters write it: [N,C,1,1], or [N,C] for linear layers."""
    if how == "pool":
        return net.layer("adaptive_avg_pool", "mean", x, output_size=1)
    return net.layer("reduce_mean", "mean", x, axes=(2, 3), keepdims=int(how == "keepdims"))


def fc(net: Net, name: str, x: int, features: int) -> int:
    return net.layer("linear", name, x, net.weight(features, net.graph.shape(x)[1]), net.weight(features))


def convolutions(net: Net, x: int, acts: tuple[str, str] = ("relu", "sigmoid"), how: str = "pool") -> int:
    """EfficientNet, MobileNetV3, RegNetY."""
    y = net.layer(acts[0], "act1", net.conv("fc1", mean(net, x, how), HIDDEN, 1))
    return net.layer(acts[1], "act2", net.conv("fc2", y, CHANNELS, 1))


def linear_layers(net: Net, x: int, acts: tuple[str, str] = ("relu", "sigmoid"), how: str = "pool") -> int:
    """SE-ResNet."""
    flat = mean(net, x, how)
    if how != "rows":
        flat = net.layer("flatten", "flat", flat, start_dim=1)
    y = net.layer(acts[0], "act1", fc(net, "fc1", flat, HIDDEN))
    y = net.layer(acts[1], "act2", fc(net, "fc2", y, CHANNELS))
    return net.layer("reshape", "back", y, shape=(2, CHANNELS, 1, 1))


def image(net: Net) -> int:
    return net.input("x", 2, CHANNELS, 7, 9)


def gated(net: Net, x: int, gate: int) -> int:
    y = net.layer("mul", "scale", x, gate)
    net.output(y)
    return y


def rows(both: Both) -> list[dict[str, Any]]:
    return [row for row in both.layers if row["op"] == "squeeze_excite"]


def merged(both: Both) -> list[str]:
    return [row["layer"] for row in rows(both)]


def block(
    device: _core.Device, form: str, how: str = "pool", overrides: dict[str, str] | None = None
) -> Both:
    net = Net()
    x = image(net)
    gated(net, x, globals()[form](net, x, how=how))
    return Both(device, net, overrides)


# ---- found -------------------------------------------------------------------------------------------------


FORMS = [
    ("convolutions", "pool"),
    ("convolutions", "keepdims"),
    ("linear_layers", "pool"),
    ("linear_layers", "keepdims"),
    ("linear_layers", "rows"),
]


@pytest.mark.parametrize(("form", "how"), FORMS)
@pytest.mark.parametrize("algo", ["split", "fused"])
def test_a_gate_is_one_layer(device, form, how, algo):
    both = block(device, form, how, {"fc2": algo})
    assert merged(both) == ["mean+fc1+fc2"]
    assert "merge means mean and layers fc1 and fc2 into a gate" in both.notes
    assert [row["fused"] for row in rows(both)] == ["sigmoid"]
    assert [name for name in both.names if name not in ("back", "scale")] == ["mean+fc1+fc2"]


@pytest.mark.parametrize("layer", ["mean", "fc1", "fc2"])
def test_any_part_may_be_forced_to_an_algorithm_of_the_gate(device, layer):
    assert merged(block(device, "convolutions", overrides={layer: "split"})) == ["mean+fc1+fc2"]


@pytest.mark.parametrize("acts", [("silu", "sigmoid"), ("hard_swish", "hard_sigmoid"), ("gelu", "tanh")])
@pytest.mark.parametrize("algo", ["split", "fused"])
def test_activations_go_along(device, acts, algo):
    net = Net()
    x = image(net)
    gated(net, x, convolutions(net, x, acts))
    both = Both(device, net, {"fc2": algo})
    assert [row["fused"] for row in rows(both)] == [acts[1]]


def test_layers_without_activations_and_biases(device):
    net = Net()
    x = image(net)
    y = net.conv("fc1", mean(net, x, "pool"), HIDDEN, 1, bias=False)
    gated(net, x, net.conv("fc2", y, CHANNELS, 1, bias=False))
    assert len(merged(Both(device, net, SPLIT))) == 1


def test_the_gate_may_be_read_twice(device):
    net = Net()
    x = image(net)
    gate = convolutions(net, x)
    net.output(net.layer("mul", "scale", x, gate), gate)
    assert len(merged(Both(device, net, SPLIT))) == 1


def test_two_blocks_after_each_other(device):
    net = Net()
    x = net.conv("first", image(net), CHANNELS, 3)
    x = net.layer("mul", "scale", x, convolutions(net, x))
    y = net.layer("adaptive_avg_pool", "mean_b", net.conv("second", x, 8, 3), output_size=1)
    y = net.layer("silu", "act_b", net.conv("fc1_b", y, 5, 1))
    net.output(net.layer("sigmoid", "act2_b", net.conv("fc2_b", y, 8, 1)))
    both = Both(device, net, {"fc2": "fused", "fc2_b": "fused"})
    assert merged(both) == ["mean+fc1+fc2", "mean_b+fc1_b+fc2_b"]


# ---- near misses -------------------------------------------------------------------------------------------


def stays(device: _core.Device, net: Net) -> None:
    """Nothing is merged, though it is asked for; so the name of the algorithm is unknown."""
    with pytest.raises(_core.ArgumentError, match="there is no algorithm 'split'"):
        Both(device, net, SPLIT)
    assert merged(Both(device, net)) == []


def test_means_that_are_read_elsewhere(device):
    net = Net()
    x = image(net)
    squeezed = mean(net, x, "pool")
    y = net.layer("relu", "act1", net.conv("fc1", squeezed, HIDDEN, 1))
    net.output(net.layer("mul", "scale", x, net.conv("fc2", y, CHANNELS, 1)), squeezed)
    stays(device, net)


def test_a_hidden_layer_that_is_read_twice(device):
    net = Net()
    x = image(net)
    hidden = net.layer("relu", "act1", net.conv("fc1", mean(net, x, "pool"), HIDDEN, 1))
    net.output(net.layer("mul", "scale", x, net.conv("fc2", hidden, CHANNELS, 1)), hidden)
    stays(device, net)


@pytest.mark.parametrize("computed", ["fc1", "fc2"])
def test_computed_weights(device, computed):
    net = Net()
    x = image(net)
    y = mean(net, x, "pool")
    for name, filters in (("fc1", HIDDEN), ("fc2", CHANNELS)):
        shape = (filters, net.graph.shape(y)[1], 1, 1)
        weights = net.input("w", *shape) if name == computed else net.weight(*shape)
        y = net.layer("conv", name, y, weights)
    gated(net, x, y)
    stays(device, net)


def test_means_of_a_part_of_the_pixels(device):
    net = Net()
    columns = net.layer("reduce_mean", "mean", image(net), axes=(2,), keepdims=1)
    net.output(net.conv("fc2", net.conv("fc1", columns, HIDDEN, 1), CHANNELS, 1))
    stays(device, net)


def test_pools_to_more_than_a_pixel(device):
    net = Net()
    y = net.layer("adaptive_avg_pool", "mean", image(net), output_size=2)
    net.output(net.conv("fc2", net.conv("fc1", y, HIDDEN, 1), CHANNELS, 1))
    stays(device, net)


def test_maxima_are_no_means(device):
    net = Net()
    y = net.layer("adaptive_max_pool", "mean", image(net), output_size=1)
    net.output(net.conv("fc2", net.conv("fc1", y, HIDDEN, 1), CHANNELS, 1))
    stays(device, net)


def test_a_sum_at_the_end(device):
    net = Net()
    x = image(net)
    y = net.conv("fc2", net.conv("fc1", mean(net, x, "pool"), HIDDEN, 1), CHANNELS, 1)
    net.output(net.layer("relu", "act", net.layer("add", "sum", y, net.input("z", 2, CHANNELS, 1, 1))))
    stays(device, net)


def test_channels_in_groups(device):
    net = Net()
    x = image(net)
    y = net.conv("fc1", mean(net, x, "pool"), 12, 1, groups=2)
    gated(net, x, net.conv("fc2", y, CHANNELS, 1))
    stays(device, net)


def test_items_that_become_channels(device):
    """A reshape in between that mixes the items of the batch."""
    net = Net()
    flat = net.layer("reshape", "flat", mean(net, image(net), "pool"), shape=(1, 2 * CHANNELS))
    net.output(fc(net, "fc2", fc(net, "fc1", flat, HIDDEN), CHANNELS))
    stays(device, net)


@pytest.mark.parametrize("forced", ["mean", "fc1", "fc2"])
def test_a_layer_that_is_forced_stays(device, forced):
    both = block(device, "convolutions", overrides={forced: "ref"})
    assert merged(both) == []
    (row,) = (row for row in both.layers if row["layer"] == forced)
    assert row["algo"] == "ref"


# ---- by rule -----------------------------------------------------------------------------------------------


def test_the_device_decides(device):
    """CPU devices and GPUs whose groups cannot tell who is the last keep the parts."""
    both = block(device, "convolutions")
    assert bool(merged(both)) == (device.type == "gpu" and device.compute_capability >= 80)
    if merged(both):
        assert [row["algo"] for row in rows(both)] == ["fused"]
        assert len([row for row in both.all_steps if row["op"] == "squeeze_excite"]) == 1


FACE = """
import json
from clcnn import _core
from test_squeeze import block, merged
with _core.Device("gpu") as device:
    plain = merged(block(device, "convolutions"))
    forced = [merged(block(device, form, overrides={"fc2": a}))
              for form in ("convolutions", "linear_layers") for a in ("split", "fused")]
print(json.dumps([plain, forced]))
"""

NVIDIA = """
import json
from clcnn import _core
from test_squeeze import block, rows
with _core.Device("gpu") as device:
    (row,) = rows(block(device, "linear_layers", overrides={"*": "split"}))
    print(json.dumps([row["layer"], row["algo"], [c["verdict"] for c in row["candidates"]]]))
"""


def test_gpus_without_arrivals_keep_the_parts(tmp_path: Path, device) -> None:
    if device.compute_capability:
        pytest.skip("the device behind the simulated one has them")
    plain, forced = json.loads(device_face.run(tmp_path, FACE).splitlines()[-1])
    assert plain == []
    assert forced == [["mean+fc1+fc2"]] * 4


def test_nvidia_gpus_merge_by_rule(tmp_path: Path, device) -> None:
    """On a device that only passes for one, which takes the parts: it cannot build PTX."""
    if device.compute_capability:
        pytest.skip("the device behind the simulated one has them")
    printed = device_face.run(tmp_path, NVIDIA, FACE_CAPABILITY="90")
    assert json.loads(printed.splitlines()[-1]) == [
        "mean+fc1+fc2",
        "split",
        ["not needed", "chosen by override"],
    ]


HALVES = """
import json
import numpy as np
from clcnn import _core
from rewritten import Net, random_inputs
from test_squeeze import CHANNELS, convolutions, image
from tolerance import errors
net, found, forced = Net(), [], {"first": "implicit", "last": "implicit"}
x = net.conv("first", image(net), CHANNELS, 3)
net.output(net.conv("last", convolutions(net, x), CHANNELS, 1))
with _core.Device("gpu") as device, _core.Plan(device, net.graph, fuse=False) as plain:
    data = random_inputs(plain)
    for algo in ("fused", "split"):
        options = {"precision": "medium", "guard": True, "overrides": {"fc2": algo, **forced}}
        with _core.Plan(device, net.graph, **options) as plan:
            (got,), (want,) = plan.run(data), plain.run(data)
            plan.check_guards()
            halves = {s["op"]: s["defines"].split() for s in plan.steps() if "_HALF=1" in s["defines"]}
            found.append([max(errors(got, want)), halves])
print(json.dumps(found))
"""


def test_maps_may_be_halves(tmp_path: Path) -> None:
    fused, split = json.loads(device_face.run(tmp_path, HALVES).splitlines()[-1])
    assert "Y_HALF=1" in fused[1]["squeeze_excite"] and "X_HALF=1" in split[1]["adaptive_avg_pool"]
    assert max(fused[0], split[0]) < 5e-3


# Kernels whose counters are plain atomics, which will do where groups share caches: so what the last group
# does is tried without an NVIDIA GPU.
JOINED = """
import json, sys
from caselib import load_cases
from clcnn import _core
from runner import checked_class, compile_case, run_case
done = 0
with _core.Device("gpu", kernel_dir=sys.argv[1]) as device:
    for case in load_cases("squeeze_excite"):
        if len(case.inputs[1].shape) > 2:  # convolutions have PTX of their own
            continue
        data = case.data()
        with compile_case(device, case, data, "fused", guard=True) as plan:
            (step,) = (step for step in plan.steps() if step["op"] == "squeeze_excite")
            assert "JOIN=1" in step["defines"]
            first, *others = [run_case(plan, case, data) for _ in range(3)]
            case.check(first, data, checked_class(case, plan))
            assert all(other.tobytes() == first.tobytes() for other in others)
            plan.check_guards()
        done += 1
print(done)
"""
ATOMICS = r"""#define ARRIVE(before, counter, last)                           \
    do {                                                         \
        before = atomic_inc((volatile global uint *)(counter));  \
        if (before == (last))                                    \
            atomic_xchg((volatile global uint *)(counter), 0u);  \
    } while (0)
"""


def test_the_last_group_computes_the_gate(tmp_path: Path, device) -> None:
    if device.type != "cpu":
        pytest.skip("atomics order no other memory on GPUs")
    folder = tmp_path / "kernels"
    shutil.copytree(Path(__file__).resolve().parents[2] / "kernels", folder)
    path = folder / "conv_nvidia" / "mma.clh"
    text, found = re.subn(r"#define ARRIVE\((?:.*\\\n)+.*\n", lambda _: ATOMICS, path.read_text())
    assert found == 1
    path.write_text(text)
    printed = device_face.run(tmp_path, JOINED, str(folder), FACE_CAPABILITY="90")
    assert int(printed.splitlines()[-1]) >= 5
