"""nn.Embedding, nn.MultiheadAttention and max pools that tell where: against NumPy, and PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn
from clcnn.graph import Graph, trace

E, HEADS, L, S, N = 8, 2, 5, 7, 3


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


class Called(nn.Module):
    """A module called on all of its inputs with given keywords, the inputs beyond three by name."""

    def __init__(self, module: nn.Module, *names: str, **keywords: Any) -> None:
        super().__init__()
        self.module, self.names, self.keywords = module, names, keywords

    def forward(self, q: Any, k: Any, v: Any, *others: Any) -> Any:
        y, weights = self.module(q, k, v, **dict(zip(self.names, others)), **self.keywords)
        return y if weights is None else (y, weights)


def attended(
    state: dict[str, np.ndarray], q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The definition in float64, of inputs [N, length, E]; the mask is added."""
    parts = np.split(state["in_proj_weight"].astype(np.float64), 3)
    biases = np.split(state["in_proj_bias"].astype(np.float64), 3)
    heads = [
        (x @ w.T + b).reshape(len(x), -1, HEADS, E // HEADS).transpose(0, 2, 1, 3)
        for x, w, b in zip((q, k, v), parts, biases)
    ]
    scores = heads[0] @ heads[1].transpose(0, 1, 3, 2) / np.sqrt(E / HEADS) + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = (weights @ heads[2]).transpose(0, 2, 1, 3).reshape(len(q), -1, E)
    return y @ state["out_proj.weight"].T + state["out_proj.bias"], weights


@pytest.fixture(scope="module")
def module() -> nn.Module:
    nn.init.manual_seed(2)
    made = nn.MultiheadAttention(E, HEADS, batch_first=True)
    made.load_state_dict({name: draw(*a.shape) / 3 for name, a in made.state_dict().items()})
    return made


INPUTS = draw(N, L, E), draw(N, S, E), draw(N, S, E) / 2
SHAPES = [x.shape for x in INPUTS]


@pytest.mark.parametrize("need", [False, True])
@pytest.mark.parametrize("average", [False, True])
def test_attention_and_its_weights(
    device: clcnn.Device, module: nn.Module, need: bool, average: bool
) -> None:
    want, weights = attended(module.state_dict(), *INPUTS)
    net = Called(module, need_weights=need, average_attn_weights=average)
    with clcnn.compile(net, SHAPES, device) as plan:
        got = plan(*INPUTS)
    y, *rest = got if need else (got,)
    np.testing.assert_allclose(y, want, rtol=0, atol=2e-5)
    for found in rest:
        np.testing.assert_allclose(found, weights.mean(1) if average else weights, rtol=0, atol=2e-5)
    assert len(rest) == need


@pytest.mark.parametrize("need", [False, True])
def test_masks_of_truths_and_of_numbers(device: clcnn.Device, module: nn.Module, need: bool) -> None:
    padding = np.zeros((N, S), np.bool_)
    padding[1, 4:] = True
    added = draw(N * HEADS, L, S)
    mask = added.reshape(N, HEADS, L, S) + np.where(padding, -np.inf, 0.0)[:, None, None]
    want, _ = attended(module.state_dict(), *INPUTS, mask)
    graph = Graph()
    values = [graph.input(f"x{i}", x.shape) for i, x in enumerate(INPUTS)]
    masks = {
        "key_padding_mask": graph.input("padding", padding.shape, "bool"),
        "attn_mask": graph.input("mask", added.shape),
    }
    graph.output(module(*values, **masks, need_weights=need)[0])
    with clcnn.compile(graph, device=device) as plan:
        np.testing.assert_allclose(plan(*INPUTS, padding, added), want, rtol=0, atol=2e-5)


def test_a_causal_mask(device: clcnn.Device, module: nn.Module) -> None:
    x = INPUTS[1]
    want, _ = attended(module.state_dict(), x, x, x, np.where(np.triu(np.ones((S, S)), 1) > 0, -np.inf, 0.0))
    with clcnn.compile(Called(module, is_causal=True, need_weights=False), [x.shape] * 3, device) as plan:
        np.testing.assert_allclose(plan(x, x, x), want, rtol=0, atol=2e-5)


def test_lengths_first_and_no_batch(device: clcnn.Device, module: nn.Module) -> None:
    first = nn.MultiheadAttention(E, HEADS)
    first.load_state_dict(module.state_dict())
    want, _ = attended(module.state_dict(), *INPUTS)
    turned = [np.ascontiguousarray(x.transpose(1, 0, 2)) for x in INPUTS]
    with clcnn.compile(Called(first), [x.shape for x in turned], device) as plan:
        np.testing.assert_allclose(plan(*turned)[0].transpose(1, 0, 2), want, rtol=0, atol=2e-5)
    alone = [x[1] for x in INPUTS]
    with clcnn.compile(Called(first), [x.shape for x in alone], device) as plan:
        y, weights = plan(*alone)
    np.testing.assert_allclose(y, want[1], rtol=0, atol=2e-5)
    assert weights.shape == (L, S)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(N, L, E), (N, S, E + 1), (N, S, E)], "MultiheadAttention module: input .* end in 8"),
        ([(N, L, E), (N, S, E), (N, S + 1, E)], "must have the same length"),
        ([(N, L, E), (S, E), (S, E)], "must have the rank of query"),
    ],
)
def test_shapes_that_do_not_fit(module: nn.Module, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(clcnn.ShapeError, match=message):
        trace(Called(module), shapes)


def test_a_mask_that_does_not_fit(module: nn.Module) -> None:
    with pytest.raises(clcnn.ShapeError, match=r"as a mask must have the shape \[5, 7\]"):
        trace(Called(module, "attn_mask"), [*SHAPES, (L, S + 1)])


def test_attention_agrees_with_torch(device: clcnn.Device) -> None:
    torch = pytest.importorskip("torch")
    for options in ({}, {"bias": False}, {"kdim": 6, "vdim": 4, "batch_first": True}):
        theirs = torch.nn.MultiheadAttention(E, HEADS, **options).eval()
        ours = nn.MultiheadAttention(E, HEADS, **options)
        ours.load_state_dict({key: value.detach().numpy() for key, value in theirs.state_dict().items()})
        k, v = options.get("kdim", E), options.get("vdim", E)
        q, k, v = draw(N, L, E), draw(N, L, k), draw(N, L, v)
        with clcnn.compile(Called(ours), [q.shape, k.shape, v.shape], device) as plan, torch.no_grad():
            for got, want in zip(plan(q, k, v), theirs(*map(torch.from_numpy, (q, k, v)))):
                np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)


# ---- Embedding ----


def test_embedding_takes_rows(device: clcnn.Device) -> None:
    table = nn.Embedding(6, 4, padding_idx=-1)
    rows = table.state_dict()["weight"]
    assert rows.shape == (6, 4) and not rows[5].any() and rows[:5].all()
    words = np.array([[0, 5, 2], [3, 3, 1]])
    graph = Graph()
    graph.output(table(graph.input("words", words.shape, "int64")))
    with clcnn.compile(graph, device=device) as plan:
        assert np.array_equal(plan(words), rows[words])
    with pytest.raises(clcnn.DtypeError, match="Embedding : indices are int64 or int32, got float32"):
        trace(table, (2, 3))


# ---- max pools that tell where ----


@pytest.mark.parametrize(("rank", "shape"), [(1, (2, 3, 9)), (2, (2, 3, 7, 6)), (3, (1, 2, 4, 5, 6))])
def test_max_pools_tell_where(device: clcnn.Device, rank: int, shape: tuple[int, ...]) -> None:
    pool = getattr(nn, f"MaxPool{rank}d")(2, return_indices=True)
    x = draw(*shape)
    with clcnn.compile(pool, shape, device) as plan:
        y, places = plan(x)
    assert places.dtype == np.int64
    flat = x.reshape(*shape[:2], -1)
    assert np.array_equal(np.take_along_axis(flat, places.reshape(*shape[:2], -1), 2).reshape(y.shape), y)
