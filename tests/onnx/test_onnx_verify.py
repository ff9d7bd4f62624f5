"""verify(): which node departs, and who is asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from conftest import DEVICE

import clcnn

pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from clcnn.onnx import verify  # noqa: E402
from session_models import model_bytes, photo, weights  # noqa: E402


def test_verify_asks_another_before_it_blames(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference may be wrong, or have no answer."""
    answers: dict[str, Any] = {}
    for name in ("reference", "onnxruntime"):
        monkeypatch.setitem(verify.ORACLES, name, lambda model, node, known, name=name: answers.get(name))
    monkeypatch.setattr(verify, "_has_onnxruntime", lambda: True)
    rows = [(name, TensorProto.FLOAT, [2]) for name in "xy"]
    model = clcnn.onnx.load(model_bytes([helper.make_node("Relu", ["x"], ["y"], "r")], rows[:1], rows[1:]))
    x = np.array([-1, 2], np.float32)
    right, wrong = [np.array([0.0, 2.0])], [np.array([-1.0, 2.0])]
    for reference, other, verdict, by in (
        (wrong, right, "agrees", "onnxruntime"),
        (None, right, "agrees", "onnxruntime"),
        (wrong, None, "departs", "reference"),
        (wrong, wrong, "departs", "reference"),
        (None, None, "agrees", "definitions"),
    ):
        answers.update(reference=reference, onnxruntime=other)
        first = verify.verify(model, {"x": x}, DEVICE)[0]
        assert (first.node, first.verdict, first.by) == ("r", verdict, by)


@pytest.mark.parametrize(
    ("ours", "want", "note"),
    [
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-5]), ""),
        (np.array([1.0, 2.0]), np.array([1.0, 2.1]), "2 instead of 2.1 at [1]"),
        (np.array([np.nan, np.inf]), np.array([np.nan, 1e300]), ""),
        (np.array([0.0, 1.0]), np.array([np.nan, 1.0]), "0.0 instead of nan at [0]"),
        (np.array([np.nan, 1.0]), np.array([0.0, 1.0]), "nan instead of 0.0 at [0]"),
        (np.array([[1.0]]), np.array([1.0]), "shape (1, 1) instead of (1,)"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 values differ"),
        (np.array([True]), np.array([True]), ""),
        (np.zeros(2), np.zeros(2), ""),
    ],
)
def test_differences(ours: np.ndarray, want: np.ndarray, note: str) -> None:
    assert verify.difference(ours, want).note == note


def test_verify_passes_over_what_it_cannot_judge(device: clcnn.Device) -> None:
    """Shapes and constants are known before anything runs."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], "shape"),
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("Reshape", ["r", "s"], ["y"], "reshape"),
    ]
    rows = [("x", TensorProto.FLOAT, [2, 3]), ("y", TensorProto.FLOAT, [2, 3])]
    model = clcnn.onnx.load(model_bytes(nodes, rows[:1], rows[1:]))
    checks = verify.verify(model, {"x": photo(2, 3)}, device)
    assert [(c.node, c.verdict) for c in checks[:3]] == [
        ("shape", "not checked"),
        ("relu", "agrees"),
        ("reshape", "agrees"),
    ]
    assert verify.first_departure(checks) is None and "constant" in checks[0].note


def one_node(op: str, shape: tuple[int, ...], constants: dict[str, np.ndarray], **attrs: Any) -> Any:
    """A model of one operator on x of this shape and the constants, in their order."""
    nodes = [helper.make_node(op, ["x", *constants], ["y"], "tested", **attrs)]
    rows = [
        ("x", TensorProto.FLOAT, list(shape)),
        ("y", TensorProto.FLOAT, [f"d{i}" for i in range(len(shape))]),
    ]
    return clcnn.onnx.load(model_bytes(nodes, rows[:1], rows[1:], constants))


@pytest.mark.parametrize(
    ("op", "constants", "attrs"),
    [
        ("LRN", {}, {"size": 3}),
        ("ConvTranspose", {"w": weights(4, 1, 3, 3)}, {"group": 2}),
        ("Pad", {"p": np.array([0, 0, -1, 0, 0, 0, 0, 1])}, {}),
    ],
)
def test_the_reference_is_not_asked_where_it_is_wrong(
    op: str, constants: dict[str, np.ndarray], attrs: dict[str, Any], device: clcnn.Device
) -> None:
    model = one_node(op, (1, 4, 6, 6), constants, **attrs)
    x = {"x": photo(1, 4, 6, 6)}
    alone = verify.verify(model, x, device, against=["reference"])[0]
    assert (alone.verdict, alone.note) == ("not checked", "no reference computes it")
    known = {"x": x["x"], **constants}
    with pytest.MonkeyPatch.context() as patch:  # it is as wrong as FAULTS says
        patch.setattr(verify, "FAULTS", {})
        wrong = verify.verify(model, x, device, against=["reference"])[0]
        assert wrong.verdict == "departs" or verify._reference(model, model.nodes[0], known) is None
    pytest.importorskip("onnxruntime")
    assert verify.verify(model, x, device)[0].by == "onnxruntime"


@pytest.mark.parametrize(
    ("op", "constants", "attrs"),
    [
        ("LRN", {}, {"size": 3}),
        ("ConvTranspose", {"w": weights(4, 1, 3, 3)}, {"group": 2}),
        ("Pad", {"p": np.array([0, 0, -1, 0, 0, 0, 0, 1])}, {}),
    ],
)
def test_definitions_are_asked_last(
    op: str, constants: dict[str, np.ndarray], attrs: dict[str, Any], device: clcnn.Device
) -> None:
    """They judge where the others cannot, and say so when a result is wrong."""
    model = one_node(op, (1, 4, 6, 6), constants, **attrs)
    x = {"x": photo(1, 4, 6, 6)}
    check = verify.verify(model, x, device, against=["reference", "definitions"])[0]
    assert (check.verdict, check.by) == ("agrees", "definitions")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "_evaluated", lambda graph, feed: {"y": np.full((1, 4, 6, 6), 9.0)})
        check = verify.verify(model, x, device, against=["reference", "definitions"])[0]
    assert (check.verdict, check.by) == ("departs", "definitions")


def test_long_sums_may_lose_more(device: clcnn.Device) -> None:
    """Ten thousand positive products one after the other, which float32 cannot do any better."""
    model = one_node("Conv", (1, 3, 64, 64), {"w": np.ones((1, 3, 56, 56), np.float32)})
    x = np.random.default_rng(0).random((1, 3, 64, 64), np.float32)
    checks = verify.verify(model, {"x": x}, device, against=["reference"])
    assert {check.verdict for check in checks} == {"agrees"}
    known = {"x": x, "w": np.ones((1, 3, 56, 56), np.float32)}
    assert verify._terms(model.nodes[0], known) == 3 * 56 * 56


def test_rows_that_are_counted(device: clcnn.Device) -> None:
    """Non-max suppression finds fewer boxes than there is room for."""
    pytest.importorskip("onnxruntime")
    nodes = [helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "iou"], ["found"], "nms")]
    inputs = [("boxes", TensorProto.FLOAT, [1, 4, 4]), ("scores", TensorProto.FLOAT, [1, 1, 4])]
    limits = {"most": np.array([4]), "iou": np.array([0.5], np.float32)}
    model = clcnn.onnx.load(model_bytes(nodes, inputs, [("found", TensorProto.INT64, ["n", 3])], limits))
    corners = np.array([[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [2, 2, 3, 3.1]], np.float32)
    scores = np.array([0.9, 0.8, 0.7, 0.95], np.float32)
    checks = verify.verify(model, {"boxes": corners[None], "scores": scores[None, None]}, device)
    assert [check.verdict for check in checks] == ["agrees", "agrees"]
