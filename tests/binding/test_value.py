"""Values as torch's tensors: `[]`, operators from both sides, methods, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import Graph, Value
from helpers import refused

F32 = np.float32
X = (2, 3, 4, 5)
VALUES = (np.arange(120, dtype=F32).reshape(X) - 47.5) / 8
MATRIX = np.arange(15, dtype=F32).reshape(5, 3) / 4 - 1
NUMBERS = np.arange(-12, 12).reshape(4, 6)

Call = Callable[[Any], Any]
# What NumPy computes in the same words.
SAME: dict[str, Call] = {
    "an int": lambda x: x[1],
    "from the end": lambda x: x[-1, :, -2],
    "slices": lambda x: x[:, 1:, 1:3, ::2],
    "a slice that goes on": lambda x: x[:, :99],
    "backwards": lambda x: x[:, ::-1, 3:0:-2],
    "backwards from a place": lambda x: x[..., 3::-1],
    "dots": lambda x: x[..., 0],
    "dots in the middle": lambda x: x[1, ..., 2:],
    "dots for nothing": lambda x: x[0, ..., 1, 2, 3:],
    "a new dimension": lambda x: x[:, None, 0],
    "new dimensions around": lambda x: x[None, ..., None],
    "one element": lambda x: x[1, 2, 3, 4],
    "everything": lambda x: x[:],
    "a list": lambda x: x[:, [2, 0, -1]],
    "an array": lambda x: x[:, ..., np.array([[0, 4], [1, 1]])],
    "a NumPy int": lambda x: x[np.int64(1)],
    "1 -": lambda x: 1 - x,
    "2 /": lambda x: 2 / x,
    "2 **": lambda x: F32(2) ** x,
    "+ on both sides": lambda x: 1 + x + 2,
    "* on both sides": lambda x: 2 * x * 3,
    "an array first": lambda x: VALUES - x * 2,
    "** 2": lambda x: x**2,
    "-": lambda x: -x,
    "+": lambda x: +x,
    "abs": abs,
    "//": lambda x: x // 1.5,
    "%": lambda x: x % 1.5,
    "% from the right": lambda x: 7 % (x * x + 1),
    "@": lambda x: x @ MATRIX,
    "@ from the right": lambda x: MATRIX @ x[..., :3, :2],
    ">": lambda x: x > 0,
    ">=": lambda x: x >= VALUES[0],
    "<": lambda x: x < 1,
    "<=": lambda x: x <= 1,
    "0 <": lambda x: 0 < x,  # noqa: SIM300
    "==": lambda x: x == 0.0625,
    "!=": lambda x: x != 0.0625,
    "&": lambda x: (x > 0) & (x < 3),
    "|": lambda x: (x < -1) | (x > 3),
    "^": lambda x: (x < 1) ^ (x > 0),
    "~": lambda x: ~(x > 0),
    "T": lambda x: x.T,
    "reshape": lambda x: x.reshape(6, -1),
    "reshape, a tuple": lambda x: x.reshape((2, 60)),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "argmax": lambda x: x.argmax(),
    "argmin": lambda x: x.argmin(),
    "len": lambda x: x * len(x),
}  # fmt: skip
# A call, and the same for NumPy.
OTHER: dict[str, tuple[Call, Call]] = {
    "mean": (lambda x: x.mean(), lambda x: x.mean()),
    "mean of a dimension": (lambda x: x.mean(1), lambda x: x.mean(1)),
    "mean of several": (lambda x: x.mean((2, -1), keepdim=True), lambda x: x.mean((2, 3), keepdims=True)),
    "sum": (lambda x: x.sum(dim=-1), lambda x: x.sum(-1)),
    "prod": (lambda x: x[..., :2].prod(-1), lambda x: x[..., :2].prod(-1)),
    "amax": (lambda x: x.amax((0, 2)), lambda x: x.max((0, 2))),
    "amin": (lambda x: x.amin(1, True), lambda x: x.min(1, keepdims=True)),
    "max of a dimension": (lambda x: x.max(2)[0], lambda x: x.max(2)),
    "where the largest are": (lambda x: x.max(2, True)[1], lambda x: x.argmax(2, keepdims=True)),
    "where the least are": (lambda x: x.min(1)[1], lambda x: x.argmin(1)),
    "var": (lambda x: x.var(1), lambda x: x.var(1, ddof=1)),
    "std": (lambda x: x.std((2, 3), correction=0), lambda x: x.std((2, 3))),
    "view": (lambda x: x.view(x.size(0), -1), lambda x: x.reshape(2, -1)),
    "flatten": (lambda x: x.flatten(1), lambda x: x.reshape(2, -1)),
    "flatten all": (lambda x: x.flatten(), lambda x: x.ravel()),
    "permute": (lambda x: x.permute(0, 2, 3, -3), lambda x: x.transpose(0, 2, 3, 1)),
    "permute, a tuple": (lambda x: x.permute((1, 0, 2, 3)), lambda x: x.transpose(1, 0, 2, 3)),
    "transpose": (lambda x: x.transpose(1, -1), lambda x: x.swapaxes(1, 3)),
    "mT": (lambda x: x.mT, lambda x: x.swapaxes(2, 3)),
    "squeeze": (lambda x: x[:1, :1].squeeze(), lambda x: x[0, 0]),
    "squeeze one": (lambda x: x[:1, :1].squeeze(1), lambda x: x[:1, 0]),
    "squeeze none": (lambda x: x.squeeze(1), lambda x: x),
    "unsqueeze": (lambda x: x.unsqueeze(-1), lambda x: x[..., None]),
    "expand": (lambda x: x[:, :1].expand(-1, 4, -1, -1), lambda x: x[:, :1].repeat(4, 1)),
    "expand, more dimensions": (lambda x: x[0, 0, 0].expand(3, -1), lambda x: np.tile(x[0, 0, 0], (3, 1))),
    "split": (lambda x: x.split(2, 2)[1], lambda x: x[:, :, 2:]),
    "split with a rest": (lambda x: x.split(2, dim=3)[-1], lambda x: x[..., 4:]),
    "split in sizes": (lambda x: x.split([1, 4], -1)[1], lambda x: x[..., 1:]),
    "chunk": (lambda x: x.chunk(2, 1)[0], lambda x: x[:, :2]),
    "unbind": (lambda x: x.unbind(1)[2], lambda x: x[:, 2]),
    "exp": (lambda x: x.exp(), np.exp),
    "log": (lambda x: x.abs().log(), lambda x: np.log(np.abs(x))),
    "sqrt": (lambda x: x.square().sqrt(), np.abs),
    "rsqrt": (lambda x: (x.pow(2) + 1).rsqrt(), lambda x: 1 / np.sqrt(x * x + 1)),
    "clamp": (lambda x: x.clamp(-1, 2), lambda x: x.clip(-1, 2)),
    "clamp from below": (lambda x: x.clamp(min=0.5), lambda x: x.clip(0.5, None)),
    "clip": (lambda x: x.clip(max=0.5), lambda x: x.clip(None, 0.5)),
    "relu": (lambda x: x.relu(), lambda x: x.clip(0, None)),
    "sigmoid": (lambda x: x.sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (lambda x: x.tanh(), np.tanh),
    "softmax": (lambda x: x.softmax(1), lambda x: np.exp(x) / np.exp(x).sum(1, keepdims=True)),
    "log_softmax": (lambda x: x.log_softmax(-1), lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True))),
    "matmul": (lambda x: x.matmul(MATRIX), lambda x: x @ MATRIX),
    "masked_fill": (lambda x: x.masked_fill(x < 0, 9), lambda x: np.where(x < 0, 9, x)),
    "long": (lambda x: x.long(), np.trunc),
    "bool to float": (lambda x: (x > 0).float(), lambda x: x > 0),
    "to": (lambda x: x.to("int32"), np.trunc),
    "contiguous": (lambda x: x.contiguous().view(-1), np.ravel),
}


def computed(device: clcnn.Device, call: Call, array: np.ndarray) -> np.ndarray:
    graph = Graph()
    result = call(graph.input("x", array.shape, array.dtype.name))
    assert isinstance(result, Value)
    graph.output(clcnn.ops.identity(result), "y")
    with clcnn.compile(graph, device=device) as plan:
        y: np.ndarray = plan(array)
    assert y.shape == result.shape and y.dtype.name == result.dtype
    return y


@pytest.mark.parametrize("case", SAME)
def test_as_numpy(device: clcnn.Device, case: str) -> None:
    wanted = np.asarray(SAME[case](VALUES.astype(F32 if "==" in case or "!=" in case else np.float64)))
    np.testing.assert_allclose(computed(device, SAME[case], VALUES), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", OTHER)
def test_methods_of_torch(device: clcnn.Device, case: str) -> None:
    call, wanted = OTHER[case]
    given = wanted(VALUES.astype(np.float64))
    np.testing.assert_allclose(computed(device, call, VALUES), given, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", [lambda x: x // 4, lambda x: x % 4, lambda x: 3 - x, lambda x: x[::-1, 2:]])
def test_whole_numbers_stay_whole(device: clcnn.Device, call: Call) -> None:
    for dtype in (np.int64, np.int32):
        y = computed(device, call, NUMBERS.astype(dtype))
        assert y.dtype == dtype and (y == call(NUMBERS)).all()


def test_numbers_have_no_dimensions() -> None:
    """As PyTorch's: what is computed from all elements and a number has none either."""
    x = Graph().input("x", X)
    for made in (x.sum() / 4, 1 - x.mean(), x.var(), x.std(), x.amax() > 0):
        assert made.shape == (), made
    assert x.std(dim=1, keepdim=True).shape == (2, 1, 4, 5)


def test_looking() -> None:
    x = Graph().input("x", X)
    assert x.size() == X and x.size(-1) == 5 and x.dim() == x.ndim == 4 and x.numel() == 120 and len(x) == 2
    assert x.to("float32") is x and x.contiguous() is x
    assert (x != None) and (x != "x") and x in [x] and len({x, x}) == 1  # noqa: E711


@pytest.mark.parametrize(
    ("call", "kind", "parts"),
    [
        (lambda x: x[2], clcnn.ShapeError, ("2 is outside of dimension 0 of size 2",)),
        (lambda x: x[0, 0, 0, 0, 0], clcnn.ShapeError, ("more dimensions than (2, 3, 4, 5)",)),
        (lambda x: x[..., ...], clcnn.ShapeError, ("more dimensions",)),
        (lambda x: x[:, 3:], clcnn.ShapeError, ("leaves nothing of dimension 1, which has 3",)),
        (lambda x: x[::0], clcnn.ArgumentError, ("dimension 0", "zero")),
        (lambda x: x[0.5], clcnn.ArgumentError, ("got 0.5",)),
        (lambda x: x["a"], clcnn.ArgumentError, ("got 'a'",)),
        (lambda x: x[True], clcnn.ShapeError, ("True",)),
        (lambda x: x[x > 0], clcnn.ArgumentError, ("ops.where()",)),
        (lambda x: x[[0, 9]], clcnn.ShapeError, ("outside of dimension 0 of size 2",)),
        (lambda x: x[[0.5]], clcnn.ArgumentError, ("[0.5]",)),
        (lambda x: x[0, :, [1]], clcnn.ArgumentError, ("ints beside",)),
        (lambda x: x[[0], [1]], clcnn.ArgumentError, ("one list or array",)),
        (lambda x: x.mean(4), clcnn.ShapeError, ("dim 4",)),
        (lambda x: x.sum((1, -3)), clcnn.ArgumentError, ("twice",)),
        (lambda x: x.permute(0, 1), clcnn.Error, ("transpose",)),
        (lambda x: x.view(7, -1), clcnn.ShapeError, ("reshape",)),
        (lambda x: x.view("a"), clcnn.DtypeError, ("'a'",)),
        (lambda x: x.size(4), clcnn.ShapeError, ("dim 4",)),
        (lambda x: x.split(0), clcnn.ArgumentError, ("split: size",)),
        (lambda x: x[0, 0, 0, :1].var(), clcnn.ShapeError, ("too few",)),
        (lambda x: bool(x > 0), clcnn.DtypeError, ("neither true nor false", "ops.where()")),
        (lambda x: 1 if x else 2, clcnn.DtypeError, ("neither true nor false",)),
        (lambda x: len(x.sum()), clcnn.DtypeError, ("no dimension",)),
        (lambda x: x + "a", clcnn.ArgumentError, ("got str",)),
        (lambda x: x + object(), clcnn.ArgumentError, ("got object",)),
    ],
)
def test_what_is_refused(call: Call, kind: type[clcnn.Error], parts: tuple[str, ...]) -> None:
    x = Graph().input("x", X)
    refused(lambda: call(x), kind, TypeError if kind is clcnn.DtypeError else ValueError, *parts)


def test_values_are_not_walked_over() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(Graph().input("x", X))
