"""Losses, optimisers and schedules that are compared with PyTorch: what is called, and on which
numbers. Read by tests/train/, and by tests/lib/torch_training.py, which asks PyTorch for its answers."""

from __future__ import annotations

from typing import Any

import numpy as np

CLASS_WEIGHTS = [0.5, 2.0, 0.0, 1.0, 1.5]
POSITIVE = [1.0, 3.0, 0.25, 2.0, 1.0]

# name in torch.nn, keyword arguments, shape of the net's result
LOSSES: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("MSELoss", {}, (4, 5)),
    ("MSELoss", {"reduction": "sum"}, (2, 3, 4)),
    ("L1Loss", {}, (4, 5)),
    ("L1Loss", {"reduction": "none"}, (2, 3)),
    ("HuberLoss", {}, (4, 5)),
    ("HuberLoss", {"delta": 0.4, "reduction": "sum"}, (4, 5)),
    ("SmoothL1Loss", {}, (4, 5)),
    ("SmoothL1Loss", {"beta": 0.3}, (4, 5)),
    ("SmoothL1Loss", {"beta": 0.0}, (4, 5)),
    ("BCELoss", {}, (4, 5)),
    ("BCELoss", {"weight": POSITIVE, "reduction": "sum"}, (4, 5)),
    ("BCEWithLogitsLoss", {}, (4, 5)),
    ("BCEWithLogitsLoss", {"weight": CLASS_WEIGHTS}, (4, 5)),
    ("BCEWithLogitsLoss", {"pos_weight": POSITIVE, "reduction": "none"}, (4, 5)),
    ("NLLLoss", {}, (6, 5)),
    ("NLLLoss", {"weight": CLASS_WEIGHTS}, (6, 5)),
    ("NLLLoss", {"ignore_index": 1}, (6, 5, 2, 3)),
    ("NLLLoss", {"ignore_index": -100, "weight": CLASS_WEIGHTS, "reduction": "sum"}, (6, 5, 4)),
    ("NLLLoss", {"reduction": "none"}, (6, 5)),
    ("CrossEntropyLoss", {}, (6, 5)),
    ("CrossEntropyLoss", {"reduction": "sum", "label_smoothing": 0.1}, (6, 5)),
    ("CrossEntropyLoss", {"reduction": "none"}, (6, 5)),
    ("CrossEntropyLoss", {}, (3, 5, 4, 2)),
    ("CrossEntropyLoss", {"weight": CLASS_WEIGHTS}, (6, 5)),
    ("CrossEntropyLoss", {"weight": CLASS_WEIGHTS, "label_smoothing": 0.2, "ignore_index": 3}, (6, 5)),
    ("CrossEntropyLoss", {"ignore_index": -100, "label_smoothing": 0.3}, (6, 5, 3)),
]

# name in torch.optim, keyword arguments
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.1, "dampening": 0.3}),
    ("SGD", {"lr": 0.02, "momentum": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.95), "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "maximize": True}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.2}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "betas": (0.9, 0.9), "weight_decay": 0.2, "amsgrad": True}),
    ("RMSprop", {}),
    ("RMSprop", {"lr": 0.02, "alpha": 0.9, "weight_decay": 0.1, "momentum": 0.8}),
    ("RMSprop", {"lr": 0.02, "eps": 1e-3, "centered": True, "maximize": True}),
]
CLIPPED: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("SGD", {"lr": 0.1, "momentum": 0.9}, {"norm": 0.5}),
    ("SGD", {"lr": 0.1}, {"norm": 100.0}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}, {"value": 0.3}),
    ("AdamW", {"lr": 0.05}, {"norm": 0.4, "value": 0.25}),
]
STEPS = 8  # of an optimiser
# of ReduceLROnPlateau, and the numbers that it watches
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 1, "factor": 0.5},
    {"mode": "max", "patience": 0, "threshold": 0.05, "threshold_mode": "abs", "min_lr": 2e-3},
    {"patience": 0, "cooldown": 2, "threshold": 0.1},
    {"mode": "max", "patience": 1, "threshold": 0.2, "eps": 0.02},
]
WATCHED = [1.0, 0.9, 0.91, 0.899, 0.95, 0.3, 0.31, 0.29, 0.3, 0.3, 0.3, 0.1, 0.2, 0.2, 0.2, 0.2]
SIZE = 7  # parameters

# name in torch.optim.lr_scheduler, arguments after the optimiser; SequentialLR's parts have the same form
SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 4}),
    ("StepLR", {"step_size": 3, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [2, 5, 5, 9], "gamma": 0.3}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("ConstantLR", {}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 3}),
    ("LinearLR", {}),
    ("LinearLR", {"start_factor": 0.5, "end_factor": 0.1, "total_iters": 8}),
    ("PolynomialLR", {"total_iters": 9, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 10, "eta_min": 0.01}),
    ("CosineAnnealingLR", {"T_max": 5}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "T_mult": 2, "eta_min": 0.001}),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": 14}),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": 14, "three_phase": True, "base_momentum": 0.8}),
    (
        "OneCycleLR",
        {"max_lr": [0.4, 0.1], "total_steps": 14, "anneal_strategy": "linear", "max_momentum": 0.99},
    ),
    ("OneCycleLR", {"max_lr": 0.4, "total_steps": 14, "cycle_momentum": False}),
    (
        "SequentialLR",
        {
            "schedulers": [("LinearLR", {"total_iters": 4}), ("CosineAnnealingLR", {"T_max": 9})],
            "milestones": [4],
        },
    ),
    (
        "SequentialLR",
        {
            "schedulers": [
                ("ConstantLR", {"factor": 0.1, "total_iters": 9}),
                ("ExponentialLR", {"gamma": 0.8}),
                ("StepLR", {"step_size": 2}),
            ],
            "milestones": [3, 7],
        },
    ),
]
SCHEDULE_STEPS = 14
RATES = (0.1, 0.02)  # of two groups


def loss_data(name: str, kwargs: dict[str, Any], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The net's result, and the target."""
    rng = np.random.default_rng(abs(hash_of(name)) + len(shape))
    x = rng.normal(size=shape).astype(np.float32)
    if name in ("NLLLoss", "CrossEntropyLoss"):
        labels = rng.integers(0, shape[1], (shape[0], *shape[2:]))
        ignored = kwargs.get("ignore_index")
        if ignored is not None:
            labels.ravel()[::3] = ignored
        return (-np.abs(x) if name == "NLLLoss" else x), labels
    if name == "BCELoss":
        x = (1 / (1 + np.exp(-2 * x))).astype(np.float32)
    if name.startswith("BCE"):
        return x, rng.integers(0, 2, shape).astype(np.float32)
    return x, rng.normal(size=shape).astype(np.float32)


def hash_of(text: str) -> int:
    """A number that a text always gives."""
    return sum((i + 1) * byte for i, byte in enumerate(text.encode()))


def optimizer_data() -> tuple[np.ndarray, np.ndarray]:
    """First parameters, and what they go towards: the loss is the sum of squares of their difference."""
    rng = np.random.default_rng(5)
    first, target = rng.normal(size=(2, SIZE)).astype(np.float32)
    return first, target
