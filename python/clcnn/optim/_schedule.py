"""What all schedules share: LRScheduler, and how they go from one number to another."""

from __future__ import annotations

import math
from typing import Any

from clcnn import _arguments
from clcnn.errors import ArgumentError
from clcnn.optim.optimizer import Optimizer


class LRScheduler:
    """Base of all schedules: sets "lr" of each group of an optimiser.

    A subclass has factor(at), or rates(at) where a factor of the first learning rates is not all.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
        Its "lr" of each group is the first learning rate.

    Attributes
    ----------
    base_lrs : list of float
        The learning rates that the optimiser's groups were given.
    last_epoch : int
        How often step() was called; what a checkpoint keeps.

    Raises
    ------
    ArgumentError
        What was given is no optimiser.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> class Halves(optim.lr_scheduler.LRScheduler):
    ...     def factor(self, at):
    ...         return 0.5**at
    >>> schedule = Halves(optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0))
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"schedule: expected an optimiser, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs = [float(g.setdefault("initial_lr", g["lr"])) for g in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def factor(self, at: int) -> float:
        """What the first learning rates are multiplied by.

        Parameters
        ----------
        at : int
            After so many steps.

        Returns
        -------
        float
        """
        raise NotImplementedError

    def rates(self, at: int) -> list[float]:
        """The learning rate of each group.

        Parameters
        ----------
        at : int
            After so many steps.

        Returns
        -------
        list of float
        """
        return [rate * self.factor(at) for rate in self.base_lrs]

    def momenta(self, at: int) -> list[float] | None:
        """The momentum of each group.

        Parameters
        ----------
        at : int
            After so many steps.

        Returns
        -------
        list of float, or None
            None where it stays as it is.
        """
        return None

    def step(self) -> None:
        """Goes on by one step. A trainer that has the schedule does so after each update."""
        self.last_epoch += 1
        self._set()

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group now.

        Returns
        -------
        list of float
        """
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What load_state_dict() needs to go on from here.

        Returns
        -------
        dict
            "last_epoch", the number of steps.
        """
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from where state_dict() was taken.

        Parameters
        ----------
        state : dict
        """
        self.last_epoch = int(state["last_epoch"])
        self._set()

    def _set(self) -> None:
        groups = self.optimizer.param_groups
        for group, rate in zip(groups, self.rates(self.last_epoch), strict=True):
            group["lr"] = rate
        for group, momentum in zip(groups, self.momenta(self.last_epoch) or (), strict=False):
            self.optimizer.set_momentum(group, momentum)

    def _whole(self, name: str, value: int, least: int) -> int:
        return _arguments.whole(value, f"{type(self).__name__}: {name}", least)

    def _share(self, name: str, value: float, below: bool = False) -> float:
        """A number above 0 (or, with `below`, from 0 on), up to 1."""
        if not (0 <= value <= 1 if below else 0 < value <= 1):
            rule = "from 0 to 1" if below else "above 0 and at most 1"
            raise ArgumentError(f"{type(self).__name__}: {name} must be {rule}, got {value!r}")
        return float(value)


def cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share
