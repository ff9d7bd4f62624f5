"""Models and packs of small models from outside of the project, with outputs that others computed."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn

clcnn_onnx = pytest.importorskip("onnx") and clcnn.onnx

MODELS = 10
PACKS = {"glow_onnx": 88, "onnx2c_onnx": 79}


def outputs_of(model: Any, inputs: dict[str, Any], device: clcnn.Device) -> list[Any]:
    """All outputs of the model in order."""
    values = {name: inputs[name] for name in model.value_inputs}
    program = model.specialise({name: a.shape for name, a in inputs.items()}, values)
    results: dict[str, Any] = {}
    if program.graph is not None:
        with clcnn.compile(program.graph, device=device) as plan:
            results = plan.run(program.feed(inputs))
    return list(program.collect(results).values())


def compare(found: list[Any], expected: dict[str, Any], tolerance: dict[str, float]) -> None:
    """max|y - ref| <= max(abs, rel_to_max * max|ref|), as the manifest says."""
    assert len(found) == len(expected)
    for i, y in enumerate(found):
        reference = expected[f"o{i}"]
        assert y.shape == reference.shape and y.dtype == reference.dtype
        limit = max(tolerance["abs"], tolerance["rel_to_max"] * np.abs(reference).max(initial=0))
        assert np.abs(y.astype(np.float64) - reference).max(initial=0) <= limit


def arrays(file: Any) -> dict[str, Any]:
    with np.load(file) as archive:
        return dict(archive)


def manifest(data_dir: Path) -> list[dict[str, Any]]:
    return json.loads((data_dir / "manifest.json").read_text())["models"]


@pytest.mark.parametrize("number", range(MODELS))
def test_models_from_outside(data_dir: Path, device: clcnn.Device, number: int) -> None:
    entries = manifest(data_dir)
    assert len(entries) == MODELS and sum(len(e["cases"]) for e in entries) == 20
    entry = entries[number]
    model = clcnn_onnx.load(data_dir / entry["model"])
    for case in entry["cases"]:
        folder = data_dir / entry["dir"]
        inputs, expected = arrays(folder / case["inputs"]), arrays(folder / case["outputs"])
        compare(outputs_of(model, inputs, device), expected, entry["tol"])


@pytest.mark.parametrize(("pack", "number"), [(p, i) for p, count in PACKS.items() for i in range(count)])
def test_packs_of_single_operators(data_dir: Path, device: clcnn.Device, pack: str, number: int) -> None:
    index = json.loads((data_dir / "packs" / f"{pack}.json").read_text())
    assert len(index["cases"]) == PACKS[pack]
    case = index["cases"][number]
    with zipfile.ZipFile(data_dir / "packs" / f"{pack}.zip") as archive:
        data, given, expected = (
            archive.read(f"{case['name']}/{name}") for name in ("model.onnx", "in0.npz", "out0.npz")
        )
    found = outputs_of(clcnn_onnx.load(data), arrays(io.BytesIO(given)), device)
    compare(found, arrays(io.BytesIO(expected)), index["tol"])


def test_a_dynamic_batch(data_dir: Path, device: clcnn.Device) -> None:
    """One model, several batch sizes, the same rows."""
    model = clcnn_onnx.load(data_dir / "models" / "cifar_classifier" / "model.onnx")
    assert model.inputs[0].shape == ("batch_size", 3, 32, 32)
    x = np.random.default_rng(0).normal(size=(5, 3, 32, 32)).astype(np.float32)
    (whole,) = outputs_of(model, {"modelInput": x}, device)
    (part,) = outputs_of(model, {"modelInput": x[2:4]}, device)
    np.testing.assert_allclose(part, whole[2:4], rtol=1e-5, atol=1e-5)
