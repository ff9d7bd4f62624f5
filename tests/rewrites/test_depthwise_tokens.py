"""Depthwise convolutions between transposes of tokens and maps work on the tokens: on GPUs, and where one is
forced to an algorithm that only such layers have. Each against the same graph with fuse=False."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import device_face
from clcnn import _core
from rewritten import Both, Net
from runner import has_blocks

N, H, W, C = 2, 4, 5, 8
QUADS = {"dw": "quads"}  # so that every device does it
MOVES = ("transpose", "depthwise_nhwc", "conv")


def tokens(net: Net, name: str = "x") -> int:
    return net.layer("sin", f"{name}_rows", net.input(name, N, H * W, C))


def to_map(net: Net, x: int, form: str = "rows", tag: str = "") -> int:
    """[N, C, H, W] of tokens, as exporters write it."""
    if form == "rows":
        x = net.layer("transpose", f"{tag}turn", x, perm=(0, 2, 1))
        return net.layer("reshape", f"{tag}map", x, shape=(N, C, H, W))
    x = net.layer("reshape", f"{tag}map", x, shape=(N, H, W, C))
    return net.layer("transpose", f"{tag}turn", x, perm=(0, 3, 1, 2))


def to_tokens(net: Net, x: int, form: str = "rows", tag: str = "") -> int:
    n, c, h, w = net.graph.shape(x)
    if form == "rows":
        x = net.layer("reshape", f"{tag}flat", x, shape=(n, c, h * w))
        return net.layer("transpose", f"{tag}back", x, perm=(0, 2, 1))
    x = net.layer("transpose", f"{tag}back", x, perm=(0, 2, 3, 1))
    return net.layer("reshape", f"{tag}flat", x, shape=(n, h * w, c))


def depthwise(net: Net, x: int, name: str = "dw", size: int = 3, **attrs: int) -> int:
    channels = net.graph.shape(x)[1]
    return net.conv(name, x, channels, size, groups=channels, **attrs)


def end(net: Net, x: int) -> int:
    return net.layer("cos", "end", x)


def moves(both: Both) -> list[str]:
    return [row["op"] for row in both.steps if row["op"] in MOVES]


FORMS = ("rows", "maps")


# ---- found -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("back", FORMS)
@pytest.mark.parametrize("forth", FORMS)
def test_a_convolution_between_transposes(device, forth, back):
    net = Net()
    net.output(end(net, to_tokens(net, depthwise(net, to_map(net, tokens(net), forth)), back)))
    both = Both(device, net, QUADS)
    assert moves(both) == ["depthwise_nhwc"]
    assert "let 1 layers up to transpose back work on tokens" in both.notes


@pytest.mark.parametrize("attrs", [{"size": 5}, {"stride": 2}, {"size": 1}, {"dilation": 2, "padding": 2}])
def test_windows_of_all_kinds(device, attrs):
    net = Net()
    net.output(end(net, to_tokens(net, depthwise(net, to_map(net, tokens(net)), **attrs))))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"]


def test_an_activation_and_the_map_itself_go_along(device):
    """Conditional positions: x + conv(x); and mixed feed-forward layers: gelu(conv(x))."""
    net = Net()
    x = to_map(net, tokens(net))
    y = net.layer("relu", "act", net.layer("add", "sum", depthwise(net, x), x))
    net.output(end(net, to_tokens(net, y)))
    both = Both(device, net, QUADS)
    assert moves(both) == ["depthwise_nhwc"]
    assert both.fused("dw") == "add+relu"


def test_two_with_a_norm_between(device):
    """Local patch interaction (XCiT)."""
    net = Net()
    x = net.layer("gelu", "act", depthwise(net, to_map(net, tokens(net))))
    net.output(end(net, to_tokens(net, depthwise(net, net.batch_norm("norm", x), "dw2"))))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"] * 3


def test_windows_of_several_sizes(device):
    """Parts of the channels, each with windows of its own (CoaT)."""
    net = Net()
    x = to_map(net, tokens(net))
    a, b = net.graph.node("split", "parts", [x], {"dim": 1, "sizes": (2, C - 2)})
    y = net.layer("concat", "both", depthwise(net, a), depthwise(net, b, "dw2", 5), dim=1)
    net.output(end(net, to_tokens(net, y)))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"] * 2


def test_a_slice_and_constants_for_channels(device):
    net = Net()
    x = to_map(net, tokens(net))
    x = net.layer("slice", "part", x, starts=(1,), ends=(C - 1,), axes=(1,), steps=(2,))
    x = net.layer("pow", "square", x, net.graph.constant("two", np.full((), 2.0, np.float32)))
    y = net.layer("sub", "shift", net.weight(3, 1, 1), net.layer("sin", "sin", x))
    net.output(end(net, to_tokens(net, depthwise(net, y))))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"]


def test_two_maps_come_together(device):
    net = Net()
    a, b = (to_map(net, tokens(net, name), tag=name) for name in "ab")
    y = net.layer("mul", "gated", depthwise(net, a), net.layer("sigmoid", "gate", depthwise(net, b, "dw2")))
    net.output(end(net, to_tokens(net, y)))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"] * 2


def test_others_who_read_the_map_keep_its_transpose(device):
    net = Net()
    x = to_map(net, tokens(net))
    pooled = net.layer("max_pool", "pool", x, kernel_size=2)
    net.output(end(net, to_tokens(net, depthwise(net, x))), pooled)
    assert sorted(moves(Both(device, net, QUADS))) == ["depthwise_nhwc", "transpose"]


def test_others_who_read_the_tokens(device):
    net = Net()
    y = to_tokens(net, depthwise(net, to_map(net, tokens(net))))
    net.output(end(net, y), y)
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"]


def test_tokens_of_an_output_with_dimensions_of_a_map(device):
    net = Net()
    x = net.layer("transpose", "turn", net.input("x", N, H, W, C), perm=(0, 3, 1, 2))
    net.output(net.layer("transpose", "back", depthwise(net, x), perm=(0, 2, 3, 1)))
    assert moves(Both(device, net, QUADS)) == ["depthwise_nhwc"]


@pytest.mark.parametrize("swapped", [False, True])
def test_what_is_added_to_the_tokens(device, swapped):
    """Without a step: reshapes go behind the sum."""
    net = Net()
    x = tokens(net)
    both = (to_tokens(net, depthwise(net, to_map(net, x))), x)
    net.output(end(net, net.layer("add", "sum", *(both[::-1] if swapped else both))))
    both = Both(device, net, QUADS)
    assert both.fused("dw") == "add"
    assert both.names == ["x_rows", "dw", "end"]


def test_a_scale_of_the_tokens(device):
    """It goes into the filters, on every device, and a residual behind it into the epilogue."""
    net = Net()
    x = tokens(net)
    y = to_tokens(net, depthwise(net, to_map(net, x)))
    net.output(end(net, net.layer("add", "sum", x, net.layer("mul", "scale", net.weight(C), y))))
    assert "take mul scale into the weights of conv dw" in Both(device, net).notes
    both = Both(device, net, QUADS)
    assert moves(both) == ["depthwise_nhwc"]
    assert both.fused("dw") == "add"


def test_heads_are_items(device):
    """Pooling of queries and keys (MViTv2): each head is an image, and its channels are few."""
    net = Net()
    heads = C // 2
    x = net.layer("reshape", "apart", tokens(net), shape=(N, H * W, heads, 2))
    x = net.layer("transpose", "heads", x, perm=(0, 2, 1, 3))
    x = net.layer("transpose", "turn", net.layer("sin", "sin", x), perm=(0, 1, 3, 2))
    x = depthwise(net, net.layer("reshape", "map", x, shape=(N * heads, 2, H, W)), stride=2)
    n, c, h, w = net.graph.shape(x)
    x = net.layer("reshape", "flat", x, shape=(N, heads, 2, h * w))
    net.output(end(net, net.layer("transpose", "back", x, perm=(0, 1, 3, 2))))
    assert moves(Both(device, net, QUADS)) == ["transpose", "depthwise_nhwc"]


def test_one_after_the_other(device):
    net = Net()
    x = tokens(net)
    for tag in ("", "second_"):
        y = depthwise(net, to_map(net, x, tag=tag), f"{tag}dw")
        x = net.layer("add", f"{tag}sum", to_tokens(net, y, tag=tag), x)
    net.output(x)
    both = Both(device, net, {"dw": "quads", "second_dw": "quads"})
    assert moves(both) == ["depthwise_nhwc"] * 2


# ---- near misses -------------------------------------------------------------------------------------------


def stays(device: _core.Device, net: Net) -> None:
    """Nothing changes, though it is asked for; so the name of the algorithm is unknown."""
    with pytest.raises(_core.ArgumentError, match="'quads'"):
        Both(device, net, QUADS)
    assert "depthwise_nhwc" not in moves(Both(device, net))


def test_other_orders(device):
    net = Net()
    x = net.layer("reshape", "apart", tokens(net), shape=(N, H, W, C))
    x = net.layer("transpose", "turn", x, perm=(0, 3, 2, 1))
    net.output(end(net, net.layer("transpose", "back", depthwise(net, x), perm=(0, 2, 3, 1))))
    stays(device, net)


def test_results_in_another_order(device):
    net = Net()
    y = depthwise(net, to_map(net, tokens(net)))
    net.output(end(net, net.layer("transpose", "back", y, perm=(0, 3, 2, 1))))
    stays(device, net)


@pytest.mark.parametrize(("groups", "filters"), [(C // 2, C), (C, 2 * C), (1, C)])
def test_channels_that_meet(device, groups, filters):
    net = Net()
    y = net.conv("dw", to_map(net, tokens(net)), filters, 3, groups=groups)
    net.output(end(net, to_tokens(net, y)))
    stays(device, net)


def test_a_map_that_is_wanted(device):
    net = Net()
    y = depthwise(net, to_map(net, tokens(net)))
    net.output(end(net, to_tokens(net, y)), y)
    stays(device, net)


def test_a_map_in_between_that_is_read_elsewhere(device):
    net = Net()
    y = depthwise(net, to_map(net, tokens(net)))
    pooled = net.layer("max_pool", "pool", y, kernel_size=2)
    net.output(end(net, to_tokens(net, depthwise(net, y, "dw2"))), pooled)
    stays(device, net)


def test_a_map_that_is_flattened_elsewhere(device):
    net = Net()
    y = depthwise(net, to_map(net, tokens(net)))
    net.output(
        end(net, to_tokens(net, y)),
        net.layer("softmax", "soft", net.layer("flatten", "all", y, start_dim=2), dim=2),
    )
    stays(device, net)


def test_a_map_that_never_was_tokens(device):
    """A transpose would only go from one side to the other."""
    net = Net()
    net.output(end(net, to_tokens(net, depthwise(net, net.input("x", N, C, H, W)))))
    stays(device, net)


def test_a_residual_that_never_was_tokens(device):
    net = Net()
    y = net.layer("add", "sum", depthwise(net, to_map(net, tokens(net))), net.input("z", N, C, H, W))
    net.output(end(net, to_tokens(net, y)))
    stays(device, net)


def test_a_sum_with_numbers_of_pixels(device):
    net = Net()
    y = net.layer("add", "sum", depthwise(net, to_map(net, tokens(net))), net.weight(1, 1, H, W))
    net.output(end(net, to_tokens(net, y)))
    stays(device, net)


def test_computed_weights(device):
    net = Net()
    y = net.layer("conv", "dw", to_map(net, tokens(net)), net.input("w", C, 1, 3, 3), groups=C, padding=1)
    net.output(end(net, to_tokens(net, y)))
    stays(device, net)


@pytest.mark.parametrize("layer", ["dw", "turn", "back"])
def test_a_layer_that_is_forced_stays(device, layer):
    net = Net()
    net.output(end(net, to_tokens(net, depthwise(net, to_map(net, tokens(net))))))
    algo = {"dw": "direct"}.get(layer, "ref")
    both = Both(device, net, {layer: algo})
    assert "depthwise_nhwc" not in moves(both)


# ---- by rule -----------------------------------------------------------------------------------------------


def plain(net: Net) -> None:
    net.output(end(net, to_tokens(net, depthwise(net, to_map(net, tokens(net))))))


def test_the_device_decides(device):
    """CPU devices have vectors of 8 or 16 channels, and here are fewer, or one too few."""
    net = Net()
    plain(net)
    few = device.type == "cpu" and (not has_blocks(device) or device.float_width > C)
    assert ("depthwise_nhwc" in moves(Both(device, net))) == (not few)


@pytest.mark.parametrize(
    ("attrs", "found"),
    [
        ({}, True),
        ({"size": 7}, True),
        ({"dilation": 2, "padding": 2}, True),
        ({"size": 9}, False),
        ({"dilation": 3, "padding": 3}, False),
    ],
)
def test_cpu_devices_take_windows_of_few_columns(device, monkeypatch, attrs, found):
    if device.type != "cpu" or not has_blocks(device):
        pytest.skip("for CPU devices with vectors of 8 floats or more")
    monkeypatch.setattr(sys.modules[__name__], "C", 16)
    net = Net()
    x = to_map(net, tokens(net))
    y = net.layer("gelu", "act", net.layer("add", "sum", depthwise(net, x, **attrs), x))
    net.output(end(net, to_tokens(net, y)))
    both = Both(device, net)
    assert (moves(both) == ["depthwise_nhwc"]) == found
    if found:
        assert [r["algo"] for r in both.layers if r["op"] == "depthwise_nhwc"] == ["rows"]


def test_cpu_devices_leave_several_convolutions_to_channel_blocks(device, monkeypatch):
    if device.type != "cpu" or not has_blocks(device):
        pytest.skip("for CPU devices with vectors of 8 floats or more")
    monkeypatch.setattr(sys.modules[__name__], "C", 16)
    net = Net()
    x = net.layer("gelu", "act", depthwise(net, to_map(net, tokens(net))))
    net.output(end(net, to_tokens(net, depthwise(net, x, "dw2"))))
    assert "depthwise_nhwc" not in moves(Both(device, net))


FACE = """
import json
from clcnn import _core
from rewritten import Both, Net
from runner import has_blocks
from test_depthwise_tokens import moves, plain
net = Net()
plain(net)
with _core.Device("gpu") as device:
    both = Both(device, net)
    print(json.dumps([moves(both), [row["algo"] for row in both.layers if row["op"] == "depthwise_nhwc"]]))
"""


def test_gpus_do_it_by_rule(tmp_path: Path):
    assert json.loads(device_face.run(tmp_path, FACE).splitlines()[-1]) == [["depthwise_nhwc"], ["quads"]]
