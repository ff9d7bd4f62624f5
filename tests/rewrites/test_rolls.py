"""What goes round (torch.roll), written as two slices and a concatenation, become one padding on GPUs."""

from __future__ import annotations

import json

import device_face

ROLLS = """
import json
from clcnn import _core
from rewritten import Both, Net


def rolled(net, x, dim, first, second=None):
    part = {"axes": (dim,), "steps": (1,)}
    a = net.layer("slice", f"a{dim}{first}", x, starts=(first,), ends=(2**31 - 1,), **part)
    end = first if second is None else second
    b = net.layer("slice", f"b{dim}{first}", x, starts=(0,), ends=(end,), **part)
    net.part = b
    return net.layer("concat", f"c{dim}{first}", a, b, dim=dim)


def once(net, x):
    return rolled(net, x, 1, 3)


def both_sides(net, x):
    return rolled(net, rolled(net, x, 1, 3), 2, -2, -2)


def the_same_twice(net, x):
    return rolled(net, rolled(net, x, 2, 3), 2, 1)


def another_length(net, x):
    return rolled(net, x, 1, 3, second=4)


def a_part_used_elsewhere(net, x):
    y = rolled(net, x, 1, 3)
    return y, net.layer("relu", "other", net.part)


found = {}
with _core.Device("gpu") as device:
    for build in (once, both_sides, the_same_twice, another_length, a_part_used_elsewhere):
        net = Net()
        built = build(net, net.input("x", 2, 7, 8, 5))
        net.output(*(built if isinstance(built, tuple) else (built,)))
        layers = [row["op"] for row in Both(device, net, {}).layers]
        found[build.__name__] = layers
print(json.dumps(found))
"""


def test_rolls_are_found(tmp_path):
    """And keep every number; what is nearly one stays as it was written."""
    found = json.loads(device_face.run(tmp_path, ROLLS).splitlines()[-1])
    assert found["once"] == found["both_sides"] == ["pad"]
    assert found["the_same_twice"] == ["pad", "pad"]
    assert "pad" not in found["another_length"] + found["a_part_used_elsewhere"]
