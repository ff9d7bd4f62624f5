"""Importing Einsum: every way in which letters may meet, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

import clcnn  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

SIZES = {"b": 2, "h": 3, "i": 4, "j": 5, "k": 6, "l": 7, "X": 8}


def proto_of(equation: str, shapes: Sequence[tuple[int, ...]]) -> onnx.ModelProto:
    names = [f"x{n}" for n in range(len(shapes))]
    node = helper.make_node("Einsum", names, ["y"], name="sum", equation=equation)
    return model([node], list(zip(names, shapes, strict=True)))


@pytest.mark.parametrize(
    "equation",
    [
        *("ij->ji", "ij->i", "ij->", "ij", "ji", "bij->jb"),  # one operand
        *("ij,jk->ik", "ij,jk", "ij,jk->ki", "ji,kj->ik", "ij,ij->", "i,j->ij", "ij,j->i", "ij,ij->ij"),
        *("bij,bjk->bik", "bhid,bhjd->bhij", "bijX,jXk->bik", "bij,bk->bkij", "bijk,bl->i", "hbi,ihj->bjh"),
        *("ij,jk,kl->il", "bi,bj,bk->ijk", "i,i,i->", "ij,k->j", "b i j , b j k -> b i k", "iX,Xj->ij"),
        *("bij,jk,bl->bikl", "ij,jk,ik->i"),
    ],
)
def test_sums_of_products(device, equation):
    """On whole numbers every result is exact."""
    sizes = {**SIZES, "d": 4}
    words = equation.replace(" ", "").partition("->")[0].split(",")
    rng = np.random.default_rng(len(equation))
    arrays = [rng.integers(-3, 4, [sizes[c] for c in word]).astype(np.float32) for word in words]
    proto = proto_of(equation, [a.shape for a in arrays])
    (y,) = run(proto, {f"x{i}": a for i, a in enumerate(arrays)}, device)
    np.testing.assert_array_equal(y, np.einsum(equation, *arrays))


def test_attention_is_matrix_products_alone():
    """Letters that stand alone in their place are no reason to move or reshape."""
    loaded = load(proto_of("bhik,bhkj->bhij", [(2, 3, 4, 5), (2, 3, 5, 4)]))
    assert [r.op for r in loaded.graph().records if r.kind == "node"] == ["matmul"]


def test_constants_are_moved_once(device):
    """As decomposed relative positions have them; nothing is moved in a run."""
    rng = np.random.default_rng(4)
    x, table = (rng.integers(-3, 4, s).astype(np.float32) for s in [(5, 3, 4), (5, 6, 4)])
    node = helper.make_node("Einsum", ["x", "table"], ["y"], name="sum", equation="hwc,hkc->hwk")
    proto = model([node], [("x", x.shape)], initial={"table": table})
    assert [r.op for r in load(proto).graph().records if r.kind == "node"] == ["matmul"]
    (y,) = run(proto, {"x": x}, device)
    np.testing.assert_array_equal(y, np.einsum("hwc,hkc->hwk", x, table))


@pytest.mark.parametrize(
    ("equation", "shapes", "parts"),
    [
        ("...ij,jk->...ik", [(2, 3, 4), (4, 5)], ("ellipsis",)),
        ("ii->i", [(3, 3)], ("repeats", "'ii'")),
        ("ij->ii", [(3, 3)], ("repeats", "'ii'")),
    ],
)
def test_what_is_not_supported(equation, shapes, parts):
    proto = proto_of(equation, shapes)
    told = ("'sum' (Einsum", equation, *parts)
    refused(lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, *told)


@pytest.mark.parametrize(
    ("equation", "shapes", "parts"),
    [
        ("ij,jk->ik", [(2, 3), (4, 5)], ("'j' is 3", "operand 1, 4")),
        ("ij,jk->ik", [(2, 3), (1, 5)], ("'j' is 3", "operand 1, 1")),
        ("ij,jk->ik", [(2, 3)], ("2 operands", "has 1")),
        ("ij->i", [(2, 3, 4)], ("operand 0 is 'ij'", "(2, 3, 4)")),
        ("ij->ik", [(2, 3)], ("the result has 'k'",)),
        ("i1->i", [(2, 3)], ("letters",)),
        ("ij->i->j", [(2, 3)], ("letters",)),
    ],
)
def test_wrong_equations(equation, shapes, parts):
    proto = proto_of(equation, shapes)
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'sum'", equation, *parts)
