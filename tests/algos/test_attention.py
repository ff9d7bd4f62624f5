"""Attention: what is no number, scores of any size, and vectors of other widths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import device_face
from clcnn import _core
from clcnn._reference import REFERENCE
from tolerance import compare

Array = np.ndarray
OP = "scaled_dot_product_attention"
ALGOS = ("flash", "mma", "tiled", "ref")
SHAPE = (2, 3, 70, 20)  # rows of more than one block, of more than one work-item


@pytest.fixture(params=ALGOS)
def attend(request: pytest.FixtureRequest, device: _core.Device) -> Callable[..., Array]:
    """Attention of arrays by one algorithm."""
    if request.param == "mma" and device.compute_capability < 80:
        pytest.skip("tensor cores are needed")

    def run(*arrays: Array, **attrs: float) -> Array:
        graph = _core.Graph()
        values = [graph.input(f"x{i}", a.shape) for i, a in enumerate(arrays)]
        graph.output(graph.node(OP, "y", values, attrs)[0], "out")
        with _core.Plan(device, graph, overrides={"y": request.param}) as plan:
            return plan.run([np.ascontiguousarray(a, np.float32) for a in arrays])[0]

    run.__name__ = request.param
    return run


@pytest.fixture
def arrays() -> list[Array]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]


def _check(got: Array, *arrays: Array, **attrs: float) -> None:
    """As the definition says, NaN and infinities in the same places."""
    want = REFERENCE[OP](*arrays, **attrs)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite].astype(np.float32))
    compare(got[finite], want[finite], OP)


def test_rows_without_any_score_are_nan(attend, arrays):
    mask = np.zeros((70, 70), np.float32)
    mask[3] = -np.inf
    mask[5, :64] = -np.inf  # a whole block, and then some
    mask[7, 1:] = -np.inf
    got = attend(*arrays, mask)
    assert np.isnan(got[:, :, 3]).all()
    assert np.isnan(got).sum() == got.size // 70
    # exactly, but for "mma", whose two tf32 values hold 22 bits of an element
    rtol = 2**-19 if attend.__name__ == "mma" else 0.0
    np.testing.assert_allclose(got[:, :, 7], arrays[2][:, :, 0], rtol=rtol, atol=0.0)
    _check(got, *arrays, mask)


@pytest.mark.parametrize("where", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_goes_through(attend, arrays, where, value):
    arrays[where][1, 2, 66, 4] = value
    _check(attend(*arrays), *arrays)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_stay_in_their_column(attend, arrays, value):
    arrays[2][1, 2, 3, 4] = value
    got = attend(*arrays)
    assert not np.isfinite(got[1, 2, :, 4]).any()
    got[1, 2, :, 4] = 0.0
    assert np.isfinite(got).all()


def test_an_infinite_score_is_nan(attend, arrays):
    mask = np.zeros((70, 70), np.float32)
    mask[3, 69] = np.inf
    _check(attend(*arrays, mask), *arrays, mask)


@pytest.mark.parametrize("scale", [1e-20, 100.0, -3.0])
def test_scores_of_any_size(attend, arrays, scale):
    """Errors of scores in the hundreds become errors of their exponentials: one score stands out."""
    if scale > 1:
        arrays[0] = np.round(arrays[0])
        arrays[1] = np.round(arrays[1])
    got = attend(*arrays, scale=scale)
    want = REFERENCE[OP](*arrays, scale=scale)
    compare(got, want, OP)


def test_later_blocks_raise_the_maximum(attend):
    """Each row of k outdoes those before it by far, so that every block scales away what came before."""
    rng = np.random.default_rng(6)
    k = np.repeat(np.arange(200.0, dtype=np.float32)[:, None], 4, axis=1)
    q, v = np.ones((20, 4), np.float32), rng.standard_normal((200, 5)).astype(np.float32)
    for mask in (np.zeros((1, 200)), -4.0 * np.arange(200.0)[None], -1000.0 * np.eye(1, 200, 199)):
        _check(attend(q, k, v, mask.astype(np.float32), scale=1.0), q, k, v, mask, scale=1.0)


def test_hidden_rows_do_not_count(attend, arrays):
    """With is_causal what comes later changes no bit of a row."""
    first = attend(*arrays, is_causal=1)
    arrays[1][:, :, 50:] = 7.0
    arrays[2][:, :, 50:] = np.random.default_rng(1).standard_normal((2, 3, 20, 20))
    np.testing.assert_array_equal(attend(*arrays, is_causal=1)[:, :, :50], first[:, :, :50])


WIDTHS = """
import sys
from clcnn import _core
from caselib import load_cases
from runner import compile_case, run_case
with _core.Device("cpu") as device:
    for case in load_cases("attention"):
        data = case.data()
        with compile_case(device, case, data) as plan:
            case.check(run_case(plan, case, data), data)
print("right")
"""


@pytest.mark.parametrize("width", [4, 8])
def test_vectors_of_other_widths(device, tmp_path, width):
    if device.type != "cpu":
        pytest.skip("a CPU device is needed")
    assert "right" in device_face.run(tmp_path, WIDTHS, kind="CPU", width=width)


BAD = [
    (((4, 5), (6, 5), (7, 5)), "as many rows"),
    (((4, 5), (6, 4), (6, 5)), "last dimensions"),
    (((2, 4, 5), (3, 6, 5), (3, 6, 5)), "last two dimensions only"),
    (((2, 4, 5), (2, 6, 5), (6, 5)), "last two dimensions only"),
    (((5,), (5,), (5,)), "two to four"),
    (((4, 5), (6, 5), (6, 5), (5, 6)), r"attn_mask of shape \[5, 6\] does not broadcast to \[4, 6\]"),
]


@pytest.mark.parametrize(("shapes", "text"), BAD)
def test_shapes_that_do_not_fit(shapes, text):
    graph = _core.Graph()
    values = [graph.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    with pytest.raises(_core.ShapeError, match=text):
        graph.node(OP, "heads", values, {})


def test_an_infinite_scale_is_refused():
    graph = _core.Graph()
    x = graph.input("x", (4, 5))
    with pytest.raises(_core.Error, match="scale=inf must be finite"):
        graph.node(OP, "heads", [x, x, x], {"scale": float("inf")})
