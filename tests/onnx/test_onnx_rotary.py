"""Importing rotary embeddings: one layer where the tables are constants; the backend suite has all forms."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

from onnx_models import load, model, run  # noqa: E402

HEADS, LENGTH, COLUMNS = 3, 5, 8
RNG = np.random.default_rng(0)
ANGLES = RNG.uniform(0, 6, (9, COLUMNS // 2)).astype(np.float32)
TABLES = {"cos": np.cos(ANGLES), "sin": np.sin(ANGLES)}


def rotary(items: int, tables: dict[str, np.ndarray] = TABLES, **attrs: int) -> onnx.ModelProto:
    node = helper.make_node("RotaryEmbedding", ["x", "cos", "sin", "where"], ["y"], **attrs)
    where = np.tile(np.arange(LENGTH, dtype=np.int64) + 2, (items, 1))
    return model(
        [node], [("x", (items, HEADS, LENGTH, COLUMNS))], initial=tables | {"where": where}, opset=23
    )


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("items", [1, 2])
def test_constant_tables_are_made_while_importing(device, items, interleaved):
    x = RNG.standard_normal((items, HEADS, LENGTH, COLUMNS)).astype(np.float32)
    proto = rotary(items, interleaved=interleaved)
    assert [r.op for r in load(proto).graph({"x": x.shape}).records if r.kind == "node"] == [
        "rotary_embedding"
    ]
    at = np.exp(1j * ANGLES[2 : 2 + LENGTH])
    pairs = (x[..., ::2], x[..., 1::2]) if interleaved else np.split(x, 2, -1)
    turned = (pairs[0] + 1j * pairs[1]) * at
    parts = [turned.real, turned.imag]
    want = np.stack(parts, -1).reshape(x.shape) if interleaved else np.concatenate(parts, -1)
    np.testing.assert_allclose(run(proto, {"x": x}, device)[0], want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("tables", "attrs", "words"),
    [
        ({"cos": TABLES["cos"][:, :3], "sin": TABLES["sin"]}, {}, "cos_cache"),
        ({"cos": TABLES["cos"], "sin": TABLES["sin"][:, :2]}, {}, "sin_cache"),
        (TABLES, {"rotary_embedding_dim": 16}, "rotary_embedding_dim"),
        (TABLES, {"rotary_embedding_dim": 3}, "rotary_embedding_dim"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(tables, attrs, words):
    with pytest.raises(clcnn.UnsupportedError, match=words):
        load(rotary(1, tables, **attrs)).graph({"x": (1, HEADS, LENGTH, COLUMNS)})


def test_positions_that_the_tables_lack():
    """LENGTH + 2 of them are asked for."""
    with pytest.raises(clcnn.ModelError, match="indices are outside of axis 0, which has 4 elements"):
        load(rotary(1, {name: table[:4] for name, table in TABLES.items()})).graph(
            {"x": (1, HEADS, LENGTH, COLUMNS)}
        )
