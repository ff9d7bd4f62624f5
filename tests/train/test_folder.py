"""Images in a folder for each class: what is found, read, split and refused; and the command that
trains on it."""

from __future__ import annotations

import re

import numpy as np
import pytest

from clcnn import train
from clcnn.cli import main
from clcnn.errors import ArgumentError
from clcnn.image import IMAGENET_MEAN, IMAGENET_STD, ImageError

Image = pytest.importorskip("PIL.Image")


def write(path, value, size=(8, 6)):
    """An image of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), value, np.uint8)).save(path)


@pytest.fixture
def root(tmp_path):
    for i in range(5):
        write(tmp_path / "pets" / "dark" / f"{i}.png", 20 + i)
        write(tmp_path / "pets" / "bright" / "more" / f"{i}.bmp", 200 + i)
    (tmp_path / "pets" / "bright" / "notes.txt").write_text("no image")
    (tmp_path / "pets" / ".hidden").mkdir()
    return tmp_path / "pets"


def test_classes_files_and_values(root):
    data = train.ImageFolder(root, (4, 3))
    assert data.classes == ["bright", "dark"] and len(data) == 10 and "10 images of 2 classes" in repr(data)
    assert data.y.tolist() == [0] * 5 + [1] * 5 and data.files[0].name == "0.bmp"
    x = data[np.array([1, 7])]
    assert x.shape == (2, 3, 4, 3) and x.dtype == np.float32
    for image, value in zip(x, (201, 22)):
        wanted = (value / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
        np.testing.assert_allclose(image[:, 2, 1], wanted, rtol=1e-5)
    grey = train.ImageFolder(root, 4, grey=True)
    np.testing.assert_allclose(grey[np.array([0])], np.full((1, 1, 4, 4), 200 / 255), rtol=1e-6)
    scaled = train.ImageFolder(root, 4, mean=0.5, std=0.25)
    np.testing.assert_allclose(scaled[np.array([0])][0, 0, 0, 0], (200 / 255 - 0.5) / 0.25, rtol=1e-6)


def test_images_that_are_not_kept_are_read_for_each_batch(root, monkeypatch):
    kept = train.ImageFolder(root, 4)
    monkeypatch.setattr("clcnn.train.folder.MOST_KEPT", 0)
    read = train.ImageFolder(root, 4)
    for one, other in zip(kept.batches(4), read.batches(4), strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
    (root / "dark" / "0.png").unlink()
    with pytest.raises(OSError, match=r"0\.png"):
        list(read.batches(4))


def test_a_split_has_some_of_each_class(root):
    data = train.ImageFolder(root, 4).split(0.4)
    assert sorted(data.train.y) == [0] * 3 + [1] * 3 and sorted(data.test.y) == [0] * 2 + [1] * 2
    assert not {*data.train.files} & {*data.test.files}
    assert np.array_equal(data.test[np.array([0])][0, 0, 0], data.test[np.array([0])][0, 0, 1])
    with pytest.raises(ArgumentError, match="between 0 and 1, got 1"):
        train.ImageFolder(root, 4).split(1)
    write(root / "single" / "0.png", 3)
    with pytest.raises(ArgumentError, match="class 'single' has one image"):
        train.ImageFolder(root, 4).split()


def test_unreadable_images_are_named_or_skipped_and_counted(root):
    broken = root / "dark" / "broken.jpg"
    broken.write_bytes(b"no image at all")
    with pytest.raises(ImageError, match=r"broken\.jpg"):
        train.ImageFolder(root, 4)
    data = train.ImageFolder(root, 4, skip_unreadable=True)
    assert len(data) == 10 and data.skipped == [broken]
    for file in (root / "dark").glob("*.png"):
        file.write_bytes(b"neither")
    with pytest.raises(ArgumentError, match=r"class 'dark' .* no image that can be read \(6 cannot\)"):
        train.ImageFolder(root, 4, skip_unreadable=True)


def test_folders_that_are_no_data_set_are_refused(root, tmp_path):
    with pytest.raises(ArgumentError, match="there is no folder"):
        train.ImageFolder(tmp_path / "nowhere")
    with pytest.raises(ArgumentError, match="two classes or more, it has 1: 'pets'"):
        train.ImageFolder(tmp_path)
    with pytest.raises(ArgumentError, match="two classes or more, it has 0"):
        train.ImageFolder(root / "dark")
    (root / "empty").mkdir()
    with pytest.raises(ArgumentError, match="class 'empty' .* has no image"):
        train.ImageFolder(root)
    (root / "empty").rmdir()
    with pytest.raises(ArgumentError, match="size"):
        train.ImageFolder(root, (1, 2, 3))


# ---- the command ----


def last_accuracy(text):
    return float(re.fullmatch(r"accuracy ([\d.]+)", text.strip().splitlines()[-1])[1])


def test_the_command_trains_on_a_folder(root, tmp_path, capsys):
    options = ["--size", "8", "--batch", "4", "--device", "cpu", "--checkpoint", str(tmp_path / "out")]
    assert main(["train", str(root), "--epochs", "8", *options]) == 0
    printed = capsys.readouterr().out
    assert "classes bright, dark" in printed and "val_accuracy" in printed
    assert last_accuracy(printed) == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["best.ckpt", "last.ckpt"]


def test_the_command_takes_parts_and_skips(root, tmp_path, capsys):
    both = tmp_path / "both"
    both.mkdir()
    root.rename(both / "train")
    for i, name in enumerate(("bright", "dark")):
        write(both / "val" / name / "a.png", 200 - 180 * i)
    (both / "val" / "dark" / "b.png").write_bytes(b"broken")
    options = ["--size", "8", "--epochs", "1", "--device", "cpu"]
    assert main(["train", str(both), *options]) == 2
    assert "b.png" in capsys.readouterr().err
    assert main(["train", str(both), *options, "--skip-unreadable"]) == 0
    printed = capsys.readouterr()
    assert "10 samples, 2 for testing" in printed.out and "skipped 1 of 3 images" in printed.err
    write(both / "val" / "third" / "a.png", 3)
    assert main(["train", str(both), *options, "--skip-unreadable"]) == 2
    assert "other classes" in capsys.readouterr().err


@pytest.mark.parametrize("net", ["lenet5", "resnet"])
def test_the_command_trains_on_digits(net, tmp_path, capsys):
    pytest.importorskip("sklearn")
    options = ["train", "digits", "--net", net, "--epochs", "4", "--device", "cpu"]
    assert main([*options, "--save", str(tmp_path / "a.ckpt")]) == 0
    accuracy = last_accuracy(capsys.readouterr().out)
    assert accuracy > 0.7
    assert main([*options, "--resume", str(tmp_path / "a.ckpt")]) == 0  # nothing is left to do
    assert last_accuracy(capsys.readouterr().out) == accuracy
