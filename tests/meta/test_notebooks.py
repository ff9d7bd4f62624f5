"""The notebooks run from the first cell to the last, and show what they say they show."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import numpy as np
import pytest
from conftest import DEVICE, ROOT
from nbclient import NotebookClient

from tolerance import FP32

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
TIMEOUT_S = 600  # of one cell: far more than it takes, so that a cell that hangs fails by itself
CATS = ("tabby", "tiger cat", "egyptian cat")


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """Runs a notebook headless on the device under test; returns it with its outputs."""

    def execute(path: Path) -> nbformat.NotebookNode:
        monkeypatch.setenv("CLCNN_DEVICE", DEVICE)
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
        notebook = nbformat.read(path, as_version=4)
        NotebookClient(
            notebook,
            timeout=TIMEOUT_S,
            kernel_name="python3",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute(env=dict(os.environ))
        return notebook

    return execute


def printed(notebook: nbformat.NotebookNode, name: str) -> str:
    """What the cell of this id has written to stdout."""
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    text = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    return re.sub(r"[^\n]*\r", "", text)  # lines of progress, which what comes next overwrites


def shown(notebook: nbformat.NotebookNode, name: str) -> set[str]:
    """The media types that the cell of this id has displayed."""
    (cell,) = (cell for cell in notebook.cells if cell.id == name)
    return {kind for output in cell.outputs for kind in output.get("data", {})}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert not any(cell.outputs or cell.execution_count for cell in cells)


def test_quickstart(executed):
    notebook = executed(ROOT / "notebooks" / "01_quickstart.ipynb")
    assert "text/html" in shown(notebook, "imports")  # the table of devices
    assert "61,706 parameters" in printed(notebook, "lenet")  # LeCun et al. 1998, with all connections
    assert "(merged)" in printed(notebook, "plan")
    assert re.search(r"\* \w+ +chosen", printed(notebook, "explain-lenet"))
    assert "logits (1, 10)" in printed(notebook, "run-lenet")
    assert "text/html" in shown(notebook, "run-lenet")  # the profile
    top = printed(notebook, "classify").strip().splitlines()
    assert len(top) == 5
    assert any(cat in line.lower() for line in top for cat in CATS), top
    for figure in ("bars", "early", "middle", "late"):
        assert "image/png" in shown(notebook, figure), figure
    assert "(1, 32, 112, 112)" in printed(notebook, "inside")
    assert "peak_bytes" in printed(notebook, "stats")


@pytest.mark.parametrize("detector", ["ultraface_rfb320", "one_face.onnx"])
def test_onnx(executed, detector, request, monkeypatch):
    """With the detector from the test data, and with the one that is made where there is none."""
    pytest.importorskip("onnx")
    trained = detector.startswith("ultraface")
    folder = str(request.getfixturevalue("data_dir")) if trained else "/nowhere"
    monkeypatch.setenv("CLCNN_TEST_DATA", folder)
    notebook = executed(ROOT / "notebooks" / "02_onnx.ipynb")
    assert f"detector: {detector}" in printed(notebook, "find")
    assert "[1, 3, 240, 320]" in printed(notebook, "open")
    (face,) = printed(notebook, "detect").strip().splitlines()
    score, *box = map(float, face.split())
    assert score > 0.9
    # The astronaut's face, by eye, in pixels of the photo.
    assert np.abs(np.array(box) - [179, 61, 268, 176]).max() < 20
    assert "image/png" in shown(notebook, "draw")
    assert "multiply-adds" in printed(notebook, "plan") and "text/html" in shown(notebook, "plan")
    checked = printed(notebook, "verify")
    assert re.search(r"departs +0\n", checked) and "first that departs: None" in checked
    assert "['N', 3, 32, 32] -> ['N', 4]" in printed(notebook, "export")
    assert "batch 4 gives (4, 4)" in printed(notebook, "export")
    assert "expected shape (N, 3, 32, 32), got (1, 1, 32, 32)" in printed(notebook, "export")


def test_algorithms(executed):
    notebook = executed(ROOT / "notebooks" / "03_algorithms.ipynb")
    explained = printed(notebook, "explain")
    assert re.search(r"\* \w+ +chosen", explained) and "rejected: " in explained
    every = printed(notebook, "every").strip().splitlines()
    assert len(every) >= 3 and sum(line.startswith("*") for line in every) == 1
    assert all(float(line.split()[-1]) <= FP32.rms_error for line in every)
    for figure in ("bars", "plot"):
        assert "image/png" in shown(notebook, figure), figure
    assert printed(notebook, "everywhere").count("times as long") == 3
    assert re.search(r"\d us", printed(notebook, "measure"))
    taken = [float(mib) for mib in re.findall(r"([\d.]+) MiB  ", printed(notebook, "curve"))]
    assert len(taken) >= 2 and taken == sorted(taken, reverse=True)


def test_sparsity(executed):
    notebook = executed(ROOT / "notebooks" / "04_sparsity.ipynb")
    assert "_conv_head" in printed(notebook, "calibrate")
    zeros = [int(share) for share in re.findall(r": (\d+)% of", printed(notebook, "maps"))]
    assert len(zeros) == 3 and all(5 < share < 95 for share in zeros)
    formats = printed(notebook, "formats").strip().splitlines()
    assert len(formats) >= 2 and any(line.startswith("ecr") for line in formats)
    saved = printed(notebook, "saved")
    assert "classifier.4" in saved and float(re.search(r"results: (\S+) of", saved)[1]) < 1e-5
    for figure in ("maps", "formats-plot", "saved-plot"):
        assert "image/png" in shown(notebook, figure), figure


def test_training(executed):
    pytest.importorskip("sklearn")
    notebook = executed(ROOT / "notebooks" / "04_training.ipynb")
    accuracies = [float(a) for a in re.findall(r"accuracy ([\d.]+)", printed(notebook, "train"))]
    assert len(accuracies) == 8 and accuracies[-1] > 0.95
    assert re.search(r"\d+ of 359 right", printed(notebook, "confusion"))
    kept = printed(notebook, "keep")
    assert kept.count(f"{accuracies[-1]:.4f}") == 2, kept
    for figure in ("data", "loss", "confusion", "filters", "mistakes"):
        assert "image/png" in shown(notebook, figure), figure


def test_detector(executed):
    notebook = executed(ROOT / "notebooks" / "05_detector.ipynb")
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed(notebook, "train"))]
    assert len(losses) == 8 and losses[-1] < 0.05 * losses[0]
    precision, recall = map(float, re.findall(r"[\d.]+", printed(notebook, "score")))
    assert precision > 0.95 and recall > 0.9
    assert printed(notebook, "keep") == "the same boxes: True\n"
    for figure in ("data", "found"):
        assert "image/png" in shown(notebook, figure), figure


def test_every_notebook_has_a_test():
    assert [path.stem for path in NOTEBOOKS] == [
        "01_quickstart",
        "02_onnx",
        "03_algorithms",
        "04_sparsity",
        "04_training",
        "05_detector",
    ]
