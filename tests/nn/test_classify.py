"""Classifier: one image or several, a list of results, and errors for what cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import clcnn
from clcnn.classify import Classifier, Result
from helpers import refused

pytest.importorskip("PIL")

DIGITS = np.random.default_rng(5).integers(0, 256, (3, 28, 28, 3), np.uint8)


@pytest.fixture(scope="module")
def classifier(device: clcnn.Device, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classifier]:
    path = tmp_path_factory.mktemp("weights") / "lenet5.npz"
    clcnn.nn.init.manual_seed(1)
    clcnn.weights.save_npz(path, clcnn.zoo.lenet5().state_dict())
    with Classifier("lenet5", path, device, batch=2) as made:
        yield made


def test_one_image_or_several(classifier: Classifier) -> None:
    results = classifier(list(DIGITS), top=3)
    assert isinstance(results, list) and [type(r) for r in results] == [Result] * 3
    assert all(len(r.predictions) == 3 and r.error is None for r in results)
    (one,) = classifier(DIGITS[1], top=3)
    assert [p.index for p in one.predictions] == [p.index for p in results[1].predictions]
    assert [r.predictions for r in classifier(DIGITS, 3)] == [r.predictions for r in results]
    assert classifier([]) == []


def test_one_path(classifier: Classifier, tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "digit.png"
    Image.fromarray(DIGITS[0]).save(path)
    for given in (path, str(path), path.read_bytes(), Image.open(path)):
        (result,) = classifier(given)
        assert result.predictions == classifier(DIGITS[0])[0].predictions
    assert classifier(iter([path, path]))[1].source == path


def test_what_cannot_be_read_raises(classifier: Classifier, tmp_path: Path) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    with pytest.raises(clcnn.image.ImageError, match=r"bad\.png"):
        classifier([DIGITS[0], bad])
    with pytest.raises(FileNotFoundError):
        classifier(tmp_path / "none.png")
    with pytest.raises(clcnn.DtypeError, match="an image is"):
        classifier(7)
    refused(lambda: classifier(DIGITS, top=0), clcnn.ArgumentError, ValueError, "top=0")


def test_a_stream_goes_on(classifier: Classifier, tmp_path: Path) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    results = list(classifier.stream([DIGITS[0], bad, DIGITS[1]]))
    assert [r.error is None for r in results] == [True, False, True] and "bad.png" in str(results[1].error)
