"""Launches that are handed addresses in place of memory objects, as NVIDIA's driver likes them (D-117)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import clcnn
from clcnn import nn, optim, train


def net() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, groups=16, padding=1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 36, 5),
    )


def noise(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape, np.float32)


@pytest.fixture
def turn(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Call it, and from then on plans find addresses where they did not before, or the other way."""

    def turn() -> None:
        monkeypatch.setenv("CLCNN_FAULT", "fixed_addresses:-1:-1")
        clcnn.devices()  # the variable is read here

    yield turn
    monkeypatch.undo()
    clcnn.devices()


@pytest.mark.parametrize(
    "options",
    [{}, {"guard": True}, {"batch_part": 1}],
    ids=["plain", "guard", "parts"],
)
def test_the_same_bits(device, turn, options) -> None:
    model, x = net().eval(), noise(4, 3, 12, 12)
    with clcnn.compile(model, x.shape, device, chain=False, **options) as plan:
        want = plan(x)
    turn()
    with clcnn.compile(model, x.shape, device, chain=False, **options) as plan, plan.clone() as clone:
        for run in (plan, clone, plan):
            np.testing.assert_array_equal(run(x), want)
        a, b = clcnn.Tensor.from_numpy(x, device), clcnn.Tensor(device, *plan.outputs.values())
        plan(a, out=b)  # memory of the caller's, which moves
        np.testing.assert_array_equal(b.numpy(), want)


def test_values_of_other_types(device, turn) -> None:
    """An address counts elements, whose size the type tells."""
    graph = clcnn.graph.Graph()
    x = graph.input("x", (3, 40))
    values, indices = clcnn.ops.topk(x * 2.0, k=5)
    graph.output(
        clcnn.ops.gather(values, graph.constant(np.array([2, 0, 1], np.int64), "picked"), dim=1), "values"
    )
    graph.output(indices, "indices")
    graph.output(values > 1.0, "above")
    data = noise(3, 40)
    with clcnn.compile(graph, device=device, chain=False) as plan:
        want = plan(data)
    turn()
    with clcnn.compile(graph, device=device, chain=False) as plan:
        found = plan(data)
    assert all(map(np.array_equal, found, want))


def test_training(device, turn) -> None:
    """State, which runs read and write."""
    x, y = noise(6, 3, 12, 12), np.arange(6) % 5
    start = {name: np.array(p.data) for name, p in net().named_parameters()}

    def after() -> dict[str, np.ndarray]:
        model = net()
        for name, p in model.named_parameters():
            p.data = start[name]
        adam = optim.AdamW(model.parameters())
        with train.Trainer(model, nn.CrossEntropyLoss(), adam, device=device, seed=0) as trainer:
            for _ in range(3):
                trainer.step(x, y)
            return {name: np.array(p.data) for name, p in model.named_parameters()}

    want = after()
    turn()
    found = after()
    assert all(np.array_equal(found[name], want[name]) for name in want)
