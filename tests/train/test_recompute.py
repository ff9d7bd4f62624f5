"""Maps that backward computes again: a limit on memory is met, and changes no bit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops, optim, train
from trainers import bits

BATCH, SIDE = 8, 24
ROUNDED = 64  # bytes that a message may be off by, being rounded to a tenth of a KiB
SMALLEST = re.compile(r"the smallest plan needs ([\d.]+) KiB .*more than memory_limit")
AGAIN = re.compile(r"memory_limit: (\d+) nodes are computed again in backward")


class Block(nn.Module):
    """Two convolutions with norms beside a shortcut, and a branch that is joined to their sum."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip
        self.branch = nn.Sequential(nn.Conv2d(channels, channels, 1), nn.Sigmoid())
        self.join = nn.Conv2d(2 * channels, channels, 1)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        y = ops.relu(self.body(x) + x)
        return self.dropout(self.join(ops.concat(y, self.branch(x), dim=1)))


def net_of(blocks: int = 4):
    nn.init.manual_seed(5)
    layers = [Block(16) for _ in range(blocks)]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5)
    )


def batch(seed: int):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((BATCH, 3, SIDE, SIDE), np.float32), rng.integers(0, 5, BATCH)


def trained(device, net, steps: int = 3, **options):
    """Losses, all states and the plan's figures after a few steps."""
    adam = optim.AdamW(net.parameters(), lr=1e-3)
    with train.Trainer(net, nn.CrossEntropyLoss(), adam, device=device, **options) as trainer:
        losses = [trainer.step(*batch(i)) for i in range(steps)]
        (plan,) = trainer._plans.values()
        return losses, bits(trainer), plan.peak_bytes, plan.explain()


def least(device, net) -> int:
    """Bytes of the smallest plan, which the refusal tells."""
    with pytest.raises(clcnn.DeviceMemoryError) as refusal:
        trained(device, net, memory_limit=512)
    found = SMALLEST.search(str(refusal.value))
    assert found, refusal.value
    return int(float(found[1]) * 1024) + ROUNDED


@pytest.mark.parametrize("share", [0.85, 0.75, 0.7])  # below, GPUs may need algorithms with less scratch
def test_a_limit_is_met_without_a_change_of_bits(device, share):
    losses, states, most, _ = trained(device, net_of())
    limit = int(share * most)
    found, other, bytes_, text = trained(device, net_of(), memory_limit=limit)
    assert bytes_ <= limit
    assert AGAIN.search(text) and ":again" in text
    assert found == losses
    for name, array in states.items():
        np.testing.assert_array_equal(other[name], array, err_msg=name)


def test_what_no_plan_meets_is_told_with_what_would_do(device):
    smallest = least(device, net_of(2))
    with pytest.raises(clcnn.DeviceMemoryError, match="the smallest plan needs"):
        trained(device, net_of(2), memory_limit=smallest - 256)
    losses, _, bytes_, _ = trained(device, net_of(2), memory_limit=smallest)
    assert bytes_ <= smallest
    np.testing.assert_allclose(losses, trained(device, net_of(2))[0], rtol=1e-4)  # it may be less scratch


def test_less_is_computed_again_where_there_is_more_memory(device):
    most = trained(device, net_of(), steps=1)[2]
    repeated = []
    for share in (0.9, 0.6):
        found = AGAIN.search(trained(device, net_of(), steps=1, memory_limit=int(share * most))[3])
        assert found
        repeated.append(int(found[1]))
    assert 0 < repeated[0] < repeated[1]


def test_an_override_holds_where_a_layer_is_computed_again(device):
    """Else the bits would not be those of the plan without a limit."""
    graph = clcnn.graph.Graph()
    state = clcnn.State({"w": np.ones((8, 8, 3, 3), np.float32)}, device=device)
    w = graph.state("w", (8, 8, 3, 3))
    y = graph.input("x", (4, 8, 16, 16))
    for i in range(6):
        y = ops.relu(ops.conv(y, w, padding=1, name=f"conv{i}"))
    loss = ops.reduce_mean(ops.reshape(y, shape=(-1,)), axes=(0,))
    (gradient,) = clcnn.grad(loss, [w])
    graph.assign(w, w - gradient)
    graph.output(loss, "loss")
    forced = {f"conv{i}": "ref" for i in range(6)}
    with clcnn.compile(graph, device=device, state=state, algorithms=forced) as plan:
        limit = int(0.7 * plan.peak_bytes)
    with clcnn.compile(graph, device=device, state=state, algorithms=forced, memory_limit=limit) as plan:
        again = [row for row in plan.layers if row["layer"].endswith(":again") and row["op"] == "conv"]
        assert again and {row["algo"] for row in again} == {"ref"}
        assert plan.peak_bytes <= limit
    state.close()


def test_inference_computes_nothing_again(device):
    graph = clcnn.graph.trace(net_of(2).eval(), (BATCH, 3, SIDE, SIDE))
    with clcnn.compile(graph, device=device) as plan:
        limit = int(0.9 * plan.peak_bytes)
    with clcnn.compile(graph, device=device, memory_limit=limit) as plan:
        assert not AGAIN.search(plan.explain())
