"""Losses: values and gradients against PyTorch's, in a graph and in a trainer, and bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops, optim, train
from clcnn.errors import ArgumentError, DtypeError, ShapeError
from training_cases import LOSSES, loss_data

KNOWN = json.loads((Path(__file__).parent / "torch_training.json").read_text("utf-8"))["losses"]


def value_and_gradient(loss, x, target, device):
    """What a loss gives, and the gradient of its sum."""
    g = clcnn.Graph()
    given = g.input("x", x.shape)
    value = loss(given, g.input("y", target.shape, loss.target_dtype))
    g.output(value, "loss")
    g.output(clcnn.grad(ops.reduce_sum(value, keepdims=False), given), "grad")
    with clcnn.compile(g, device=device) as plan:
        found = plan.run({"x": x, "y": target})
    return found["loss"], found["grad"]


@pytest.mark.parametrize("number", range(len(LOSSES)), ids=[f"{n}-{k}" for n, k, _ in LOSSES])
def test_values_and_gradients_are_pytorchs(device, number):
    name, kwargs, shape = LOSSES[number]
    value, gradient = value_and_gradient(getattr(nn, name)(**kwargs), *loss_data(name, kwargs, shape), device)
    np.testing.assert_allclose(value.ravel(), KNOWN[number]["loss"], rtol=2e-6, atol=1e-7)
    np.testing.assert_allclose(gradient.ravel(), KNOWN[number]["grad"], rtol=1e-5, atol=1e-7)


def test_every_loss_is_compared():
    losses = {name for name in nn.__all__ if name.endswith("Loss")}
    assert losses == {name for name, _, _ in LOSSES}


def test_large_logits_overflow_nowhere(device):
    x = np.array([[200.0, -200.0, 50.0, -50.0]], np.float32)
    y = np.array([[0.0, 1.0, 1.0, 0.0]], np.float32)
    value, gradient = value_and_gradient(nn.BCEWithLogitsLoss(reduction="none"), x, y, device)
    np.testing.assert_allclose(value, [[200, 200, np.exp(-50.0), np.exp(-50.0)]], rtol=1e-5)
    np.testing.assert_allclose(gradient, [[1, -1, -np.exp(-50.0), np.exp(-50.0)]], rtol=1e-5)


def test_probabilities_of_0_and_1_have_finite_losses(device):
    x = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
    y = np.array([[0.0, 1.0, 0.0, 1.0]], np.float32)
    value, gradient = value_and_gradient(nn.BCELoss(reduction="none"), x, y, device)
    np.testing.assert_array_equal(value, [[0, 100, 100, 0]])  # as PyTorch's
    assert np.isfinite(gradient).all()


def test_impossible_classes_do_not_spoil_the_others(device):
    x = np.array([[-np.inf, -0.5], [-0.25, -np.inf]], np.float32)
    value, gradient = value_and_gradient(nn.NLLLoss(), x, np.array([1, 0]), device)
    assert value == 0.375
    np.testing.assert_array_equal(gradient, [[0, -0.5], [-0.5, 0]])


def test_all_labels_ignored_give_no_number_as_pytorch(device):
    x, _ = loss_data("CrossEntropyLoss", {}, (3, 4))
    value, _ = value_and_gradient(nn.CrossEntropyLoss(ignore_index=-1), x, np.full(3, -1), device)
    assert np.isnan(value)


def test_a_net_learns_a_line(device):
    nn.init.manual_seed(1)
    net = nn.Linear(2, 1)
    x = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
    y = x @ np.array([[2.0], [-1.0]], np.float32) + 0.5
    with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), lr=0.3), device=device) as trainer:
        for _ in range(60):
            trainer.step(x, y)
        found = trainer.evaluate([(x, y)])
    assert found["loss"] < 1e-6 and list(found) == ["loss"]
    np.testing.assert_allclose(net.weight.data, [[2, -1]], atol=1e-3)


def test_a_trainer_takes_ignored_labels(device):
    nn.init.manual_seed(1)
    net = nn.Conv2d(1, 3, 1)  # classifies pixels
    x = np.random.default_rng(0).normal(size=(2, 1, 4, 4)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 3, (2, 4, 4))
    y[0] = -100
    loss = nn.CrossEntropyLoss(ignore_index=-100)
    with train.Trainer(net, loss, optim.SGD(net.parameters(), lr=0.1), device=device) as trainer:
        both = trainer.evaluate([(x, y)])
        alone = trainer.evaluate([(x[1:], y[1:])])
        assert both["loss"] == pytest.approx(alone["loss"], rel=1e-6)
        assert both["accuracy"] == pytest.approx(alone["accuracy"])
        trainer.step(x, y)
        y[1, 2, 3] = 3
        with pytest.raises(ArgumentError, match=r"sample 1 at \[2, 3\] has label 3; there are 3"):
            trainer.step(x, y)


def test_a_sum_is_no_mean_when_it_is_evaluated(device):
    net = nn.Linear(2, 3)
    x, y = np.ones((5, 2), np.float32), np.array([0, 1, 2, 0, 1])
    found = []
    for reduction in ("mean", "sum"):
        loss = nn.CrossEntropyLoss(reduction=reduction)
        with train.Trainer(net, loss, optim.SGD(net.parameters()), device=device) as trainer:
            found.append(trainer.evaluate(train.Arrays(x, y), batch=2)["loss"])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.CrossEntropyLoss(reduction="median"), ArgumentError, "reduction 'median' is none of"),
        (lambda: nn.CrossEntropyLoss(label_smoothing=2), ArgumentError, "label_smoothing"),
        (lambda: nn.HuberLoss(delta=0), ArgumentError, "delta must be above 0, got 0"),
        (lambda: nn.SmoothL1Loss(beta=-1), ArgumentError, "beta must be 0 or more, got -1"),
        (lambda: nn.NLLLoss(["a"]), DtypeError, "weight must be real numbers"),
        (lambda: nn.NLLLoss([1, -1]), ArgumentError, "every weight must be finite and 0 or more"),
        (lambda: nn.BCEWithLogitsLoss(pos_weight=[np.inf]), ArgumentError, "every pos_weight"),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("loss", "x", "y", "message"),
    [
        (nn.MSELoss(), (2, 3), (2, 1), r"result \[2, 3\] and the target \[2, 1\] must have one shape"),
        (nn.BCELoss([1, 2]), (2, 3), (2, 3), r"weight \[2\] does not go with \[2, 3\]"),
        (nn.BCELoss(np.ones((4, 2, 3))), (2, 3), (2, 3), r"weight \[4, 2, 3\] does not go"),
        (nn.NLLLoss(), (2, 3), (3,), r"\[N, C, ...\] and labels \[3\]"),
        (nn.NLLLoss(), (2, 3, 4), (2,), r"\[N, C, ...\] and labels \[2\]"),
        (nn.CrossEntropyLoss([1, 2]), (2, 3), (2,), r"weight \[2\] must be one for each of the 3 classes"),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(loss, x, y, message):
    g = clcnn.Graph()
    with pytest.raises(ShapeError, match=message):
        loss(g.input("x", x), g.input("y", y, loss.target_dtype))
