"""Asks PyTorch what tests/lib/training_cases.py lists, and writes
tests/train/torch_training.json. Needs torch:
PYTHONPATH=tests/lib python tests/lib/torch_training.py"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import torch

import training_cases as cases

TARGET = Path(__file__).parents[1] / "train" / "torch_training.json"


def rounded(tensor: torch.Tensor) -> list[float]:
    return [float(f"{number:.9g}") for number in tensor.detach().double().ravel().tolist()]


def loss_answers(name: str, kwargs: dict[str, Any], shape: tuple[int, ...]) -> dict[str, list[float]]:
    """The loss in float64, and the gradient of its sum."""
    arrays = {k: torch.tensor(v, dtype=torch.float64) for k, v in kwargs.items() if isinstance(v, list)}
    x, target = (torch.from_numpy(a) for a in cases.loss_data(name, kwargs, shape))
    x = x.double().requires_grad_()
    target = target.double() if target.is_floating_point() else target
    loss = getattr(torch.nn, name)(**{**kwargs, **arrays})(x, target)
    loss.sum().backward()
    return {"loss": rounded(loss), "grad": rounded(x.grad)}


def optimizer_answers(name: str, kwargs: dict[str, Any], clip: dict[str, float]) -> list[list[float]]:
    """The parameters after each step; clip: "norm" or "value" of the gradient."""
    first, target = (torch.from_numpy(a).double() for a in cases.optimizer_data())
    p = first.requires_grad_()
    optimizer = getattr(torch.optim, name)([p], **kwargs)
    answers = []
    for _ in range(cases.STEPS):
        optimizer.zero_grad()
        ((p - target) ** 2).sum().backward()
        if "value" in clip:
            torch.nn.utils.clip_grad_value_([p], clip["value"])
        if "norm" in clip:
            torch.nn.utils.clip_grad_norm_([p], clip["norm"])
        optimizer.step()
        answers.append(rounded(p))
    return answers


def make_schedule(optimizer: Any, name: str, kwargs: dict[str, Any]) -> Any:
    kwargs = dict(kwargs)
    if name == "SequentialLR":
        kwargs["schedulers"] = [make_schedule(optimizer, *part) for part in kwargs["schedulers"]]
    return getattr(torch.optim.lr_scheduler, name)(optimizer, **kwargs)


def schedule_answers(name: str, kwargs: dict[str, Any]) -> list[list[float]]:
    """Learning rates and momenta of two groups before each step."""
    groups = [{"params": [torch.zeros(1)], "lr": rate} for rate in cases.RATES]
    optimizer = torch.optim.SGD(groups, momentum=0.7)
    schedule = make_schedule(optimizer, name, kwargs)
    answers = []
    for step in range(cases.SCHEDULE_STEPS):
        answers.append([g[key] for key in ("lr", "momentum") for g in optimizer.param_groups])
        optimizer.step()
        if step + 1 < cases.SCHEDULE_STEPS:
            schedule.step()
    return answers


def plateau_answers(kwargs: dict[str, Any]) -> list[list[float]]:
    """Learning rates of two groups after each number."""
    groups = [{"params": [torch.zeros(1)], "lr": rate} for rate in cases.RATES]
    optimizer = torch.optim.SGD(groups)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **kwargs)
    answers = []
    for number in cases.WATCHED:
        schedule.step(number)
        answers.append([g["lr"] for g in optimizer.param_groups])
    return answers


def main() -> None:
    warnings.simplefilter("ignore")  # what SequentialLR says of its own calls
    answers = {
        "torch": torch.__version__,
        "losses": [loss_answers(*case) for case in cases.LOSSES],
        "optimizers": [optimizer_answers(*case, {}) for case in cases.OPTIMIZERS],
        "clipped": [optimizer_answers(*case, clip) for *case, clip in cases.CLIPPED],
        "schedules": [schedule_answers(*case) for case in cases.SCHEDULES],
        "plateaus": [plateau_answers(kwargs) for kwargs in cases.PLATEAUS],
    }
    TARGET.write_text(json.dumps(answers, indent=None).replace("}, {", "},\n{") + "\n", "utf-8")


if __name__ == "__main__":
    main()
