"""Schedules of the learning rate, as torch.optim.lr_scheduler: step() after each step of the trainer."""

from __future__ import annotations

import math
from typing import Any, Literal

from clcnn.errors import ArgumentError
from clcnn.optim.optimizer import Optimizer


class LRScheduler:
    """Base of all schedules: sets "lr" of each group of an optimiser.

    Attributes
    ----------
    last_epoch : int
        How often step() was called; what a checkpoint keeps.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"schedule: expected an optimiser, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs = [float(group["lr"]) for group in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def rates(self) -> list[float]:
        """The learning rate of each group after `last_epoch` steps."""
        raise NotImplementedError

    def step(self) -> None:
        """Goes on by one."""
        self.last_epoch += 1
        self._set()

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group now."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What load_state_dict() needs to go on from here."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where state_dict() was taken."""
        self.last_epoch = int(state["last_epoch"])
        self._set()

    def _set(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.rates(), strict=True):
            group["lr"] = rate


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr in the first pct_start of the steps, then down to the first rate
    over final_div_factor. Source: Smith and Topin 2018, as torch.optim.lr_scheduler.OneCycleLR with
    cycle_momentum=False.

    Give total_steps, or epochs and steps_per_epoch.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1:
            raise ArgumentError(f"OneCycleLR: total_steps must be at least 1, got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ArgumentError(f"OneCycleLR: pct_start must be from 0 to 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"OneCycleLR: anneal_strategy {anneal_strategy!r} is neither 'cos' nor 'linear'"
            )
        self.max_lr, self.total_steps = float(max_lr), int(total_steps)
        self._peak = float(pct_start * total_steps) - 1
        self._first = self.max_lr / div_factor
        self._last = self._first / final_div_factor
        self._cosine = anneal_strategy == "cos"
        super().__init__(optimizer)

    def rates(self) -> list[float]:
        at, end = self.last_epoch, self.total_steps - 1
        if at > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {at} is beyond the {self.total_steps} of the schedule")
        if at <= self._peak or end <= self._peak:
            rate = self._between(self._first, self.max_lr, at / self._peak if self._peak > 0 else 1.0)
        else:
            rate = self._between(self.max_lr, self._last, (at - self._peak) / (end - self._peak))
        return [rate] * len(self.optimizer.param_groups)

    def _between(self, start: float, end: float, share: float) -> float:
        share = min(share, 1.0)
        if self._cosine:
            return end + (start - end) / 2 * (1 + math.cos(math.pi * share))
        return start + (end - start) * share
