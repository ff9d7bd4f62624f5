"""Tokens, rows of channels, become maps on channel blocks and back in one step, where the layers between read
such maps."""

from __future__ import annotations

import numpy as np
import pytest

from rewritten import Both, Net
from runner import has_blocks


def tokens_net(channels: int = 32, pixels: tuple[int, ...] = (3, 5)) -> Net:
    """Tokens become a map, as a hybrid of attention and convolution has it, and a map tokens."""
    net = Net()
    count = int(np.prod(pixels))
    x = net.layer("neg", "rows", net.input("x", 2, count, channels))
    x = net.layer("transpose", "turn", x, perm=[0, 2, 1])
    x = net.layer("reshape", "map", x, shape=[2, channels, *pixels])
    x = net.layer("reshape", "flat", net.conv("conv", x, 48, 3), shape=[2, 48, count])
    net.output(net.layer("abs", "end", net.layer("transpose", "back", x, perm=[0, 2, 1])))
    return net


@pytest.mark.parametrize("pixels", [(3, 5), (2, 3, 5), (7, 11)])
@pytest.mark.parametrize("channels", [32, 20])
def test_tokens_go_to_channel_blocks_in_one_step(device, channels, pixels):
    both = Both(device, tokens_net(channels, pixels))
    moves = [(row["op"], row["algo"]) for row in both.all_steps if row["op"] in ("transpose", "reorder")]
    if not has_blocks(device):
        assert [op for op, _ in moves] == ["transpose", "transpose"]
    else:
        assert moves == [("transpose", "block"), ("transpose", "unblock")]


@pytest.mark.parametrize("layer", ["turn", "map"])
def test_tokens_stay_rows_where_someone_reads_them_so(device, layer):
    """The transposed value, or the map, is read by a layer without algorithms on channel blocks, too."""
    net = Net()
    x = net.layer("transpose", "turn", net.input("x", 2, 15, 32), perm=[0, 2, 1])
    y = net.layer("reshape", "map", x, shape=[2, 32, 3, 5])
    net.output(net.conv("conv", y, 48, 3), net.layer("cumsum", "sums", x if layer == "turn" else y, dim=2))
    algos = {row["algo"] for row in Both(device, net).all_steps if row["op"] == "transpose"}
    assert not algos & {"block", "unblock"}


def test_few_channels_stay_rows(device):
    steps = Both(device, tokens_net(3)).all_steps
    assert "block" not in {row["algo"] for row in steps if row["op"] == "transpose"}
