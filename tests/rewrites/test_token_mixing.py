"""Layers that mix tokens, between two transposes (MLP-Mixer, ResMLP, gMLP): on GPUs they become convolutions
whose channels are the tokens, and the transposes are gone."""

from __future__ import annotations

import json
from pathlib import Path

import device_face
from rewritten import Both, Net

SHAPE = (2, 9, 12)  # items, tokens, features


def turned(net: Net, name: str, x: int) -> int:
    return net.layer("transpose", name, x, perm=(0, 2, 1))


def mixed(net: Net, bias: bool = True) -> int:
    """A block of a mixer up to its first addition."""
    x = net.input("x", *SHAPE)
    y = turned(net, "there", x)
    y = net.layer("linear", "fc1", y, net.weight(16, 9), *([net.weight(16)] if bias else []))
    y = net.layer("linear", "fc2", net.layer("gelu", "gelu", y), net.weight(9, 16), net.weight(9))
    return net.layer("add", "add", x, turned(net, "back", y))


def both(device: object, bias: bool = True) -> Both:
    net = Net()
    net.output(mixed(net, bias))
    return Both(device, net)


def kinds(done: Both) -> list[str]:
    return [row["op"] for row in done.layers if row["op"] in ("transpose", "linear", "conv")]


GPU = """
import json
from clcnn import _core
from test_token_mixing import both, gated, kinds
with _core.Device("gpu") as device:
    print(json.dumps([kinds(both(device, bias)) for bias in (True, False)] + [kinds(gated(device))]))
"""


def gated(device: object) -> Both:
    """gMLP: one half of the features, mixed along the tokens, times the other half."""
    net = Net()
    x = net.input("x", *SHAPE)
    half, other = net.graph.node("split", "split", [x], {"sizes": (6, 6), "dim": -1})
    gate = net.layer("linear", "fc", turned(net, "there", half), net.weight(9, 9), net.weight(9))
    net.output(net.layer("mul", "mul", turned(net, "back", gate), other))
    return Both(device, net)


def test_gpus_mix_tokens_by_convolutions(tmp_path: Path) -> None:
    last = device_face.run(tmp_path, GPU).splitlines()[-1]
    assert json.loads(last) == [["conv"] * 2, ["conv"] * 2, ["conv"]]


def test_the_device_agrees(device):
    """With the same graph written out; CPU devices keep products of rows."""
    for done in (both(device), both(device, bias=False), gated(device)):
        found = kinds(done)
        assert ("linear" in found) == (device.type == "cpu") and ("conv" in found) == (device.type != "cpu")
