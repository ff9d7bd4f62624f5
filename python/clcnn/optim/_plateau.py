"""ReduceLROnPlateau."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from clcnn import _arguments
from clcnn.errors import ArgumentError
from clcnn.optim.optimizer import Optimizer


class ReduceLROnPlateau:
    """Times `factor` once a number has not become better for more than `patience` calls.

    As torch.optim.lr_scheduler's of this name. It is no formula of the step, so that it is no
    Trainer(schedule=): it is a callback of Trainer.fit(), which goes by `monitor`, or step() is called with
    a number. Make it before a trainer is resumed, with the first rates.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    mode : {"min", "max"}
        Whether less or more is better.
    factor : float
        Between 0 and 1.
    patience : int
        Calls without a better number that change nothing, 0 or more.
    threshold : float
        Less of an improvement is none.
    threshold_mode : {"rel", "abs"}
        Whether that is relative to the best number so far.
    cooldown : int
        Calls after a reduction that do not count, 0 or more.
    min_lr : float, or sequence of float
        The least rate, for all groups or for each.
    eps : float
        A smaller change of the rate is left out.
    monitor : str
        As a callback: the number of the history to go by.

    Attributes
    ----------
    best : float
        The best number so far.
    num_bad_epochs, cooldown_counter : int
        Calls since then without a better one; calls that do not count yet to come.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, an argument outside its range; in fit(), a number that the history lacks, or a trainer
        with a schedule.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> plateau = optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=1)
    >>> for loss in (0.5, 0.5, 0.5):
    ...     plateau.step(loss)
    >>> plateau.get_last_lr()
    [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: Literal["min", "max"] = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: Literal["rel", "abs"] = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
        *,
        monitor: str = "val_loss",
    ) -> None:
        name = type(self).__name__
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"{name}: expected an optimiser, got {type(optimizer).__name__}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ArgumentError(
                f"{name}: mode must be 'min' or 'max' and threshold_mode 'rel' or 'abs', got {mode!r} and "
                f"{threshold_mode!r}"
            )
        if not 0 < factor < 1:
            raise ArgumentError(f"{name}: factor must be between 0 and 1, got {factor!r}")
        groups = optimizer.param_groups
        self.min_lrs = [float(min_lr)] * len(groups) if isinstance(min_lr, (int, float)) else list(min_lr)
        if len(self.min_lrs) != len(groups):
            raise ArgumentError(f"{name}: min_lr has {len(self.min_lrs)} numbers for {len(groups)} groups")
        self.optimizer, self.mode, self.factor, self.threshold = optimizer, mode, float(factor), threshold
        self.patience = _arguments.whole(patience, f"{name}: patience", 0)
        self.cooldown = _arguments.whole(cooldown, f"{name}: cooldown", 0)
        self.threshold_mode, self.eps, self.monitor = threshold_mode, float(eps), monitor
        self.base_lrs = [float(group["lr"]) for group in groups]
        self._begin()

    def _begin(self) -> None:
        self.best = math.inf if self.mode == "min" else -math.inf
        self.num_bad_epochs = self.cooldown_counter = 0

    def step(self, metrics: float) -> None:
        """Notes one more number, and reduces the rates where it is time.

        Parameters
        ----------
        metrics : float
            The number that is watched, such as an epoch's loss.

        Examples
        --------
        >>> from clcnn import nn, optim
        >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
        >>> plateau = optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=0)
        >>> for loss in (0.5, 0.6):
        ...     plateau.step(loss)
        >>> plateau.get_last_lr()
        [0.1]
        """
        number = float(metrics)
        if self._better(number):
            self.best, self.num_bad_epochs = number, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                new = max(group["lr"] * self.factor, least)
                if group["lr"] - new > self.eps:
                    group["lr"] = new
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _better(self, number: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            return sign * number > sign * self.best * (1 + sign * self.threshold)
        return sign * number > sign * self.best + self.threshold

    def get_last_lr(self) -> list[float]:
        """The learning rate of each group now.

        Returns
        -------
        list of float
        """
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def catch_up(self, trainer: Any) -> None:
        """Sets what follows from a trainer's history, from the first rates on.

        Parameters
        ----------
        trainer : Trainer

        Raises
        ------
        ArgumentError
            The trainer has a schedule, or its history has not what is monitored.
        """
        if trainer.schedule is not None:
            raise ArgumentError(f"{type(self).__name__}: the trainer has a schedule, which sets the rates")
        self._begin()
        for group, rate in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = rate
        for record in trainer.history:
            if self.monitor not in record:
                raise ArgumentError(
                    f"there is no {self.monitor!r} in the history; there are {sorted(record)}"
                )
            self.step(record[self.monitor])

    def __call__(self, trainer: Any, record: Any) -> bool:
        """As a callback of Trainer.fit(): never stops it."""
        self.catch_up(trainer)
        return False
