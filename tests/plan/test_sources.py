"""compile() of files, bytes and modules of PyTorch.

The tests run without torch: a stand-in has what compile() asks of it, test_torch() asks torch itself.
"""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn
from helpers import refused

pytest.importorskip("onnx")

X = (2, 3, 5, 5)


def net() -> nn.Module:
    nn.init.manual_seed(3)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal(X).astype(np.float32)


@pytest.fixture(scope="module")
def wanted(device: clcnn.Device, x: np.ndarray) -> np.ndarray:
    with clcnn.compile(net(), X, device) as plan:
        y: np.ndarray = plan(x)
        return y


def test_files_and_bytes(device: clcnn.Device, tmp_path: Path, x: np.ndarray, wanted: np.ndarray) -> None:
    file, own = tmp_path / "net.onnx", tmp_path / "net.clcnn"
    clcnn.onnx.save(net(), file, X)
    clcnn.save(net(), own, X)
    for source in (file, str(file), file.read_bytes(), own, str(own)):
        with clcnn.compile(source, device=device) as plan:
            np.testing.assert_array_equal(plan(x), wanted)
    with clcnn.compile(own, (1, *X[1:]), device) as plan:
        np.testing.assert_array_equal(plan(x[:1]), wanted[:1])


def test_files_that_are_none(device: clcnn.Device, tmp_path: Path) -> None:
    refused(
        lambda: clcnn.compile("resnet50", X, device), clcnn.ArgumentError, ValueError, "is no file",
        "clcnn.zoo.get(name)",
    )  # fmt: skip
    with pytest.raises(OSError, match="no.onnx"):
        clcnn.compile(tmp_path / "no.onnx", device=device)
    refused(lambda: clcnn.compile(b"no model", device=device), clcnn.ModelError, ValueError, "ONNX")
    (tmp_path / "net.pth").write_bytes(b"PK")
    refused(lambda: clcnn.compile(tmp_path / "net.pth", device=device), clcnn.Error, ValueError, "net.pth")


def test_examples_are_for_modules_of_pytorch(device: clcnn.Device, x: np.ndarray) -> None:
    for given in (x, [x]):
        refused(
            lambda given=given: clcnn.compile(net(), given, device),
            clcnn.ArgumentError, ValueError, "pass x.shape",
        )  # fmt: skip


# ---- PyTorch ----


class Module:
    """The stand-in of torch.nn.Module."""

    def __init__(self) -> None:
        self.training = True
        self.part = SimpleNamespace(training=False)

    def modules(self) -> list[Any]:
        return [self, self.part]

    def eval(self) -> None:
        self.training = self.part.training = False


class Exporter:
    """The stand-in of torch's exporter: writes net() for examples of the right shape."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def export(self, module: Module, examples: tuple[Any, ...], file: Any = None, **options: Any) -> Any:
        assert not module.training
        self.seen.append(tuple(tuple(example.shape) for example in examples))
        if self.seen[-1] != (X,):
            raise RuntimeError("step 1 of 3 failed") from KeyError("no such shape")
        data = clcnn.onnx.to_model(net(), X).SerializeToString()
        if not options["dynamo"]:
            file.write(data)
        return SimpleNamespace(save=lambda file: file.write(data))


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = SimpleNamespace(
        nn=SimpleNamespace(Module=Module),
        Tensor=type("Tensor", (), {}),
        onnx=Exporter(),
        zeros=np.zeros,
        as_tensor=np.asarray,
        no_grad=contextlib.nullcontext,
    )
    monkeypatch.setitem(sys.modules, "torch", made)
    return made


@pytest.mark.parametrize("newer", [True, False])
def test_modules_go_through_the_exporter(
    device: clcnn.Device, torch: Any, x: np.ndarray, wanted: np.ndarray, newer: bool, monkeypatch: Any
) -> None:
    found = io if newer else None
    monkeypatch.setattr(clcnn.sources.importlib.util, "find_spec", lambda name: found)
    module = Module()
    for example in (x, [x], (x,), X, list(X), [X]):
        with clcnn.compile(module, example, device) as plan:
            np.testing.assert_array_equal(plan(x), wanted)
    assert torch.onnx.seen == [(X,)] * 6
    assert module.training and not module.part.training


def test_modules_that_cannot_be_exported(device: clcnn.Device, torch: Any, x: np.ndarray) -> None:
    refused(lambda: clcnn.compile(Module(), None, device), clcnn.ArgumentError, ValueError, "needs example")
    module = Module()
    refused(
        lambda: clcnn.compile(module, x[:1], device), clcnn.UnsupportedError, NotImplementedError,
        "Module: torch's exporter to ONNX could not", "KeyError: ", "no such shape",
    )  # fmt: skip
    assert module.training


def test_torch(device: clcnn.Device, x: np.ndarray) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxscript")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    with clcnn.compile(module, torch.from_numpy(x), device) as plan:
        assert module.training
        with torch.no_grad():
            np.testing.assert_allclose(plan(x), module.eval()(torch.from_numpy(x)).numpy(), atol=1e-5)
