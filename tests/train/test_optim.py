"""Optimisers and schedules as objects; what a step computes is tested with the trainer."""

import json
from pathlib import Path

import numpy as np
import pytest

from clcnn import nn, optim, train
from clcnn.errors import ArgumentError
from clcnn.optim import lr_scheduler
from training_cases import (
    CLIPPED,
    OPTIMIZERS,
    PLATEAUS,
    RATES,
    SCHEDULE_STEPS,
    SCHEDULES,
    SIZE,
    STEPS,
    WATCHED,
    optimizer_data,
)

# OneCycleLR(SGD(lr=0.1), max_lr=0.4, total_steps=10, cycle_momentum=False) of PyTorch 2.13
ONE_CYCLE = [
    0.016,
    0.208,
    0.4,
    0.38019385,
    0.32469826,
    0.24450481,
    0.15549679,
    0.07530334,
    0.01980775,
    1.6e-06,
]


@pytest.fixture
def layer():
    return nn.Linear(3, 2)


def test_groups(layer):
    found = optim.AdamW(
        [{"params": [layer.weight], "weight_decay": 0.5}, {"params": [layer.bias], "lr": 1.0}]
    )
    assert [g["lr"] for g in found.param_groups] == [1e-3, 1.0]
    assert [g["weight_decay"] for g in found.param_groups] == [0.5, 1e-2]
    assert "2 parameters" in repr(found)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: optim.SGD([]), "no parameters"),
        (lambda p: optim.SGD([p, p]), "given twice"),
        (lambda p: optim.SGD([3]), "expected parameters"),
        (lambda p: optim.SGD([p], lr=-1), "lr must be 0 or more, got -1"),
        (lambda p: optim.SGD([p], lr=float("nan")), "lr must be"),
        (lambda p: optim.SGD([p], nesterov=True), "nesterov needs a momentum"),
        (lambda p: optim.SGD([p], momentum=0.9, dampening=0.1, nesterov=True), "and no dampening"),
        (lambda p: optim.SGD([p], dampening=float("inf")), "dampening must be a number"),
        (lambda p: optim.RMSprop([p], alpha=2), "alpha must be from 0 to 1, got 2"),
        (lambda p: optim.RMSprop([p], momentum=-1), "momentum must be 0 or more"),
        (lambda p: optim.SGD([{"params": [p], "betas": (0, 0)}]), r"unknown settings \['betas'\]"),
        (lambda p: optim.SGD([{"lr": 1}]), "'params'"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), r"betas\[1\] must be from 0 to below 1"),
        (lambda p: optim.Adam([p], betas=(0.9,)), "two numbers"),
    ],
)
def test_bad_settings_are_refused(layer, make, message):
    with pytest.raises(ArgumentError, match=message):
        make(layer.weight)


def test_one_cycle(layer):
    sgd = optim.SGD(layer.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(sgd, 0.4, total_steps=10)
    rates = []
    for _ in range(10):
        rates += schedule.get_last_lr()
        schedule.step()
    assert rates == pytest.approx(ONE_CYCLE, rel=1e-4, abs=1e-9)
    again = optim.lr_scheduler.OneCycleLR(sgd, 0.4, epochs=5, steps_per_epoch=2)
    again.load_state_dict({"last_epoch": 4})
    assert again.get_last_lr() == pytest.approx([ONE_CYCLE[4]], rel=1e-4)


def test_one_cycle_in_lines(layer):
    schedule = optim.lr_scheduler.OneCycleLR(
        optim.SGD(layer.parameters()),
        1.0,
        total_steps=11,
        pct_start=6 / 11,
        anneal_strategy="linear",
        div_factor=5,
    )
    schedule.load_state_dict({"last_epoch": 5})
    assert schedule.get_last_lr() == pytest.approx([1.0])
    schedule.load_state_dict({"last_epoch": 2})
    assert schedule.get_last_lr() == pytest.approx([0.2 + 0.8 * 2 / 5])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "total_steps"),
        ({"total_steps": 0}, "total_steps: 0 is less than 1"),
        ({"total_steps": 5, "pct_start": 2}, "pct_start"),
        ({"total_steps": 5, "anneal_strategy": "up"}, "anneal_strategy"),
    ],
)
def test_bad_schedules_are_refused(layer, arguments, message):
    with pytest.raises(ArgumentError, match=message):
        optim.lr_scheduler.OneCycleLR(optim.SGD(layer.parameters()), 1.0, **arguments)


def test_a_schedule_ends(layer):
    schedule = optim.lr_scheduler.OneCycleLR(optim.SGD(layer.parameters()), 1.0, total_steps=2)
    schedule.step()
    schedule.step()
    with pytest.raises(ArgumentError, match="beyond the 2"):
        schedule.step()


# ---- against PyTorch ----

KNOWN = json.loads((Path(__file__).parent / "torch_training.json").read_text("utf-8"))


def trajectory(name, kwargs, clip, device):
    """A parameter's values while its squared distance to a target becomes smaller."""
    first, target = optimizer_data()
    net = nn.Linear(1, SIZE, bias=False)
    net.weight.data = first[:, None]
    optimizer = getattr(optim, name)(net.parameters(), **kwargs)
    found = []
    rules = {f"clip_{key}": value for key, value in clip.items()}
    with train.Trainer(net, nn.MSELoss(reduction="sum"), optimizer, device=device, **rules) as trainer:
        for _ in range(STEPS):
            trainer.step(np.ones((1, 1), np.float32), target[None])
            found.append(net.weight.data.ravel().copy())
    return np.array(found)


@pytest.mark.parametrize("number", range(len(OPTIMIZERS)), ids=[f"{n}-{k}" for n, k in OPTIMIZERS])
def test_steps_are_pytorchs(device, number):
    found = trajectory(*OPTIMIZERS[number], {}, device)
    np.testing.assert_allclose(found, KNOWN["optimizers"][number], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("number", range(len(CLIPPED)), ids=[f"{n}-{c}" for n, _, c in CLIPPED])
def test_clipped_steps_are_pytorchs(device, number):
    found = trajectory(*CLIPPED[number], device)
    np.testing.assert_allclose(found, KNOWN["clipped"][number], rtol=2e-5, atol=2e-6)


def test_every_optimizer_and_schedule_is_compared():
    assert {n for n in optim.__all__ if n[0].isupper()} == {n for n, _ in OPTIMIZERS} | {"Optimizer"}
    schedules = {n for n, cls in vars(lr_scheduler).items() if n.endswith("LR") and isinstance(cls, type)}
    assert schedules == {n for n, _ in SCHEDULES if n.endswith("LR")} | {"LambdaLR"}


@pytest.mark.parametrize("number", range(len(PLATEAUS)))
def test_plateaus_are_pytorchs(layer, number):
    groups = [{"params": [p], "lr": rate} for p, rate in zip((layer.weight, layer.bias), RATES)]
    schedule = lr_scheduler.ReduceLROnPlateau(optim.SGD(groups), **PLATEAUS[number])
    found = []
    for watched in WATCHED:
        schedule.step(watched)
        found.append(schedule.get_last_lr())
    np.testing.assert_allclose(found, KNOWN["plateaus"][number], rtol=1e-9)
    assert found[-1] < found[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factor": 1.0}, "factor must be between 0 and 1, got 1.0"),
        ({"mode": "least"}, "mode must be 'min' or 'max'"),
        ({"patience": -1}, "patience: -1 is less than 0"),
        ({"min_lr": [0.1]}, "min_lr has 1 numbers for 2 groups"),
    ],
)
def test_bad_plateaus_are_refused(layer, arguments, message):
    groups = [{"params": [p]} for p in (layer.weight, layer.bias)]
    with pytest.raises(ArgumentError, match=message):
        lr_scheduler.ReduceLROnPlateau(optim.SGD(groups), **arguments)
    with pytest.raises(ArgumentError, match="expected an optimiser, got Linear"):
        lr_scheduler.ReduceLROnPlateau(layer)


def make_schedule(optimizer, name, kwargs):
    if name == "SequentialLR":
        kwargs = {**kwargs, "schedulers": [make_schedule(optimizer, *part) for part in kwargs["schedulers"]]}
    return getattr(lr_scheduler, name)(optimizer, **kwargs)


@pytest.mark.parametrize(
    "number", range(len(SCHEDULES)), ids=[f"{n}-{i}" for i, (n, _) in enumerate(SCHEDULES)]
)
def test_schedules_are_pytorchs(layer, number):
    groups = [{"params": [p], "lr": rate} for p, rate in zip((layer.weight, layer.bias), RATES)]
    sgd = optim.SGD(groups, momentum=0.7)
    schedule = make_schedule(sgd, *SCHEDULES[number])
    found = []
    for step in range(SCHEDULE_STEPS):
        found.append([group[key] for key in ("lr", "momentum") for group in sgd.param_groups])
        if step + 1 < SCHEDULE_STEPS:
            schedule.step()
    np.testing.assert_allclose(found, KNOWN["schedules"][number], rtol=1e-12, atol=1e-9)
    schedule.load_state_dict({"last_epoch": 5})  # as a checkpoint does
    assert schedule.get_last_lr() == found[5][:2]


def test_a_function_of_the_step(layer):
    sgd = optim.SGD(layer.parameters(), lr=0.5)
    schedule = lr_scheduler.LambdaLR(sgd, lambda step: 1 / (1 + step))
    schedule.step()
    assert schedule.get_last_lr() == [0.25]
    with pytest.raises(ArgumentError, match="one for each of 1 groups"):
        lr_scheduler.LambdaLR(sgd, [])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.StepLR(o, 0), "StepLR: step_size"),
        (lambda o: lr_scheduler.MultiStepLR(o, [1, -2]), "milestones"),
        (lambda o: lr_scheduler.LinearLR(o, start_factor=0), "start_factor must be above 0"),
        (lambda o: lr_scheduler.ConstantLR(o, factor=1.5), "factor must be from 0 to 1, got 1.5"),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 0), "T_max"),
        (lambda o: lr_scheduler.OneCycleLR(o, [1, 2], total_steps=5), "max_lr has 2 numbers for 1 groups"),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [3]), "one milestone less"),
        (lambda o: lr_scheduler.SequentialLR(o, [3], []), "schedules of the same optimiser"),
        (lambda o: lr_scheduler.StepLR("sgd", 1), "expected an optimiser"),
        (lambda o: lr_scheduler.OneCycleLR("sgd", 1.0, total_steps=3), "expected an optimiser"),
    ],
)
def test_schedules_check_their_arguments(layer, make, message):
    with pytest.raises(ArgumentError, match=message):
        make(optim.SGD(layer.parameters()))
