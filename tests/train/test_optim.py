"""Optimisers and schedules as objects; what a step computes is tested with the trainer."""

import pytest

from clcnn import nn, optim
from clcnn.errors import ArgumentError, UnsupportedError

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
        (lambda p: optim.SGD([{"params": [p], "betas": (0, 0)}]), r"unknown settings \['betas'\]"),
        (lambda p: optim.SGD([{"lr": 1}]), "'params'"),
        (lambda p: optim.Adam([p], betas=(0.9, 1.0)), r"betas\[1\] must be from 0 to below 1"),
        (lambda p: optim.Adam([p], betas=(0.9,)), "two numbers"),
    ],
)
def test_bad_settings_are_refused(layer, make, message):
    with pytest.raises(ArgumentError, match=message):
        make(layer.weight)


def test_dampening_is_not_offered(layer):
    with pytest.raises(UnsupportedError, match="dampening"):
        optim.SGD(layer.parameters(), dampening=0.5)


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
        ({"total_steps": 0}, "at least 1"),
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
