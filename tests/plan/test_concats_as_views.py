"""A layer writes its result where a concat wants it, and the concat takes no step; but GPUs take the rows of
all items of a linear layer as one matrix, which gaps between the items forbid."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import device_face
from clcnn import _core
from rewritten import Both, Net
from runner import layers_of_graph


def tokens(batch: int) -> Net:
    """A class token before rows of a linear layer, as vision transformers begin."""
    net = Net()
    rows = net.layer("linear", "rows", net.input("x", batch, 5, 12), net.weight(16, 12), net.weight(16))
    token = net.layer("neg", "token", net.input("token", batch, 1, 16))
    net.output(net.layer("relu", "reader", net.layer("concat", "both", token, rows, dim=1)))
    return net


def names(device: _core.Device, batch: int) -> list[str]:
    """Layers that take steps; AssertionError where the results are wrong."""
    Both(device, tokens(batch))
    with _core.Plan(device, tokens(batch).graph) as plan:
        return [row["layer"] for row in layers_of_graph(plan.steps())]


@pytest.mark.parametrize("batch", [1, 3])
def test_rows_are_written_behind_the_token(device, batch):
    if device.type != "cpu":
        pytest.skip("for CPU devices")
    assert "both" not in names(device, batch)


GPU = """
import json
from clcnn import _core
from test_concats_as_views import names
with _core.Device("gpu") as device:
    print(json.dumps([names(device, batch) for batch in (1, 3)]))
"""


def test_gpus_keep_the_rows_of_several_items_together(tmp_path: Path) -> None:
    one, three = json.loads(device_face.run(tmp_path, GPU).splitlines()[-1])
    assert "both" not in one and "both" in three
