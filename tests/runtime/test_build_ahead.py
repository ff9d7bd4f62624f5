"""Programs of the last process's first compile are there before a compile asks for them."""

from __future__ import annotations

from pathlib import Path

from helpers import python

# argv: a network of the zoo, or "" to compile nothing
PROGRAM = """
import numpy as np
import clcnn
from clcnn import device as devices
net = {net!r}
with devices.get() as device:
    device._build_ahead()
    ahead = made(device)
    if net:
        x = np.ones((1, *clcnn.zoo.find(net).input_shape), np.float32)
        with clcnn.compile(clcnn.zoo.get(net), x.shape) as plan:
            assert np.isfinite(plan(x)).all()
    print(ahead, made(device) - ahead)
    {after}
"""


def begun(folder: Path, net: str, after: str = "") -> list[int]:
    """Programs that a fresh process makes ahead, and those that its compile adds."""
    count = "def made(device): return sum(device.stats()[f'programs_{how}'] for how in ('built', 'loaded'))\n"
    code = count + PROGRAM.format(net=net, after=after)
    return [int(n) for n in python(code, CLCNN_CACHE_DIR=str(folder)).split()]


def test_what_the_last_process_began_with(tmp_path: Path) -> None:
    ahead, added = begun(tmp_path, "lenet5")
    assert ahead == 0 and added > 0
    assert begun(tmp_path, "lenet5") == [added, 0]
    ahead, others = begun(tmp_path, "mobilenet_v1")
    assert ahead == added and others > 0
    ahead, missing = begun(tmp_path, "mobilenet_v1")
    assert ahead >= others and missing == 0
    assert begun(tmp_path, "") == [ahead, 0]
    assert begun(tmp_path, "") == [ahead, 0], "a process that compiles nothing leaves the list"


def test_without_a_folder_and_with_a_damaged_one(tmp_path: Path) -> None:
    assert begun(Path("0"), "lenet5")[0] == begun(Path("0"), "lenet5")[0] == 0
    begun(tmp_path, "lenet5")
    for file in tmp_path.rglob("*.bin"):
        file.write_bytes(file.read_bytes()[:-1])
    assert begun(tmp_path, "lenet5")[0] == 0


def test_later_calls_do_nothing(tmp_path: Path) -> None:
    begun(tmp_path, "lenet5")
    again = "before = made(device); device._build_ahead(); print(made(device) - before)"
    assert begun(tmp_path, "mobilenet_v1", again)[2:] == [0]
    assert begun(tmp_path, "", "device.close(); device._build_ahead(); print(7)")[2:] == [7]
