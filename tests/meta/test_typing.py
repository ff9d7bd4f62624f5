"""A user's script is clean under `mypy --strict`: everything public has types that type checkers find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import clcnn

SCRIPT = '''
import numpy as np
from numpy.typing import NDArray

import clcnn
import clcnn.nn.functional as F
from clcnn import nn, ops, optim, train, zoo


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.GroupNorm(1, channels)
        self.scale = nn.Parameter(np.ones((channels, 1, 1), np.float32))

    def forward(self, x: clcnn.Value) -> clcnn.Value:
        y = F.relu(self.norm(self.conv(x)))
        return x + self.scale * y


class Net(nn.Module):
    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.ModuleList([Block(8), Block(8)])
        self.heads = nn.ModuleDict({"main": nn.Linear(8, classes)})

    def forward(self, x: clcnn.Value) -> clcnn.Value:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        mask = x[:, :1] > 0
        x = ops.where(mask, 1 - x, 2 / (x * x + 1))
        features = x.mean((2, 3)).view(x.size(0), -1).softmax(dim=-1)
        result: clcnn.Value = self.heads["main"](features)
        return result


def main(path: str, image: NDArray[np.uint8]) -> list[float]:
    net = Net().load(path)
    precision: clcnn.Precision = "high"
    plan = clcnn.compile(net, (1, 3, 32, 32), device="cpu", precision=precision, tune="off", chain=None)
    x = np.zeros((1, 3, 32, 32), np.float32)
    y: NDArray[np.float32] = plan(x, timeout=1.0)
    plan([[1.0]])
    print(plan.explain(verbose=True), plan.summary(), plan.profile(x).total_ms, plan.stats["peak_bytes"])
    for result in plan.map([x, x]):
        print(result.shape)
    with clcnn.Tensor.from_numpy(x, plan.device) as tensor:
        plan.run({"input": tensor}, {"output": y})
    resnet = zoo.resnet50(num_classes=5)
    clcnn.save(zoo.get("resnet18"), "net.clcnn", (1, 3, 224, 224))
    loaded = clcnn.compile("net.clcnn", device=0)
    found = clcnn.classify.Classifier(batch=2)(image, top=3)
    session = clcnn.InferenceSession("net.onnx", providers=["CPUExecutionProvider"], precision="medium")
    feed = {info.name: x for info in session.get_inputs()}
    outputs = session.run(None, feed)
    binding = session.io_binding()
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    graph = clcnn.Graph()
    value = graph.input("x", (2, 3))
    graph.output(ops.relu(value @ np.ones((3, 4), np.float32)), "y")
    adam = optim.AdamW(resnet.parameters(), lr=1e-3)
    with train.Trainer(net, nn.CrossEntropyLoss(), adam, precision="strict") as trainer:
        losses = [trainer.step(x, np.zeros(1, np.int64))]
    try:
        clcnn.devices()
    except (clcnn.NoDeviceError, clcnn.CheckpointError) as error:
        print(error)
    return [*losses, found[0].predictions[0].probability, float(outputs[0].sum()), *loaded.inputs["x"]]
'''
WRONG = '''
import clcnn

clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28), precision="hihg")
clcnn.compile(clcnn.zoo.lenet5(), (1, 1, 28, 28), tune="fast")
clcnn.zoo.resnet51()
'''


def checked(text: str, folder: Path) -> list[str]:
    """What `mypy --strict` says of a script."""
    mypy = shutil.which("mypy")
    if mypy is None:
        pytest.skip("mypy is not installed")
    script = folder / "script.py"
    script.write_text(text, "utf-8")
    source = str(Path(clcnn.__file__).parents[1])
    done = subprocess.run(
        [mypy, "--strict", "--no-error-summary", "--python-executable", sys.executable,
         "--cache-dir", str(folder / "cache"), str(script)],
        capture_output=True, text=True, timeout=600, env={**os.environ, "MYPYPATH": source}, cwd=folder,
    )  # fmt: skip
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line.startswith("script.py")]


def test_a_users_script_is_clean(tmp_path: Path) -> None:
    assert checked(SCRIPT, tmp_path) == []


def test_what_is_wrong_is_found(tmp_path: Path) -> None:
    lines = checked(WRONG, tmp_path)
    assert len(lines) == 3
    assert all(part in line for part, line in zip(("precision", "tune", "resnet51"), lines, strict=True))
