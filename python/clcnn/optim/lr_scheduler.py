"""Schedules of the learning rate, as torch.optim.lr_scheduler: step() after each step of the trainer, so that
what PyTorch's users often count in epochs is counted in steps.

Every schedule is a formula of the step, so that it goes on from a checkpoint by one number.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence

from clcnn.errors import ArgumentError
from clcnn.optim._one_cycle import OneCycleLR
from clcnn.optim._plateau import ReduceLROnPlateau
from clcnn.optim._schedule import LRScheduler, cosine
from clcnn.optim.optimizer import Optimizer

__all__ = [
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]


class LambdaLR(LRScheduler):
    """The first learning rate times a function of the step.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    lr_lambda : function, or sequence of functions
        Of the step from 0 on: the factor. One for all groups, or one for each.

    Raises
    ------
    ArgumentError
        No optimiser, something that is no function, or not one for each group.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.LambdaLR(sgd, lambda step: 1 / (1 + step))
    >>> [schedule.rates(at) for at in (0, 1, 3)]
    [[1.0], [0.5], [0.25]]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
    ) -> None:
        count = len(optimizer.param_groups) if isinstance(optimizer, Optimizer) else 0
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count or not all(callable(f) for f in self.lr_lambdas):
            raise ArgumentError(f"LambdaLR: lr_lambda must be a function, or one for each of {count} groups")
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        return [rate * float(f(at)) for rate, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Times gamma after every step_size steps.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    step_size : int
        1 or more.
    gamma : float

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, a step_size below 1 or that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.StepLR(sgd, step_size=2, gamma=0.5)
    >>> [schedule.factor(at) for at in range(5)]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = self._whole("step_size", step_size, 1), float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma ** (at // self.step_size))


class MultiStepLR(LRScheduler):
    """Times gamma after each number of steps of `milestones`.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    milestones : sequence of int
        Each 0 or more, in any order.
    gamma : float

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, a milestone below 0 or that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.MultiStepLR(sgd, milestones=[2, 3], gamma=0.5)
    >>> [schedule.factor(at) for at in range(5)]
    [1.0, 1.0, 0.5, 0.25, 0.25]
    """

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones = sorted(self._whole("milestones", at, 0) for at in milestones)
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma ** bisect.bisect_right(self.milestones, at))


class ExponentialLR(LRScheduler):
    """Times gamma after every step.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    gamma : float

    Raises
    ------
    ArgumentError
        What was given is no optimiser.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> [schedule.factor(at) for at in range(4)]
    [1.0, 0.5, 0.25, 0.125]
    """

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma**at)


class ConstantLR(LRScheduler):
    """The first learning rate times factor for total_iters steps, then the first learning rate itself.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    factor : float
        From 0 to 1.
    total_iters : int
        0 or more.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, an argument outside its range, a total_iters that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.ConstantLR(sgd, factor=0.5, total_iters=2)
    >>> [schedule.factor(at) for at in range(4)]
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        self._factor = self._share("factor", factor, below=True)
        self.total_iters = self._whole("total_iters", total_iters, 0)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return self._factor if at < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """In a line from start_factor to end_factor times the first learning rate: a warm-up.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    start_factor : float
        Above 0, at most 1.
    end_factor : float
        From 0 to 1; it stays from total_iters on.
    total_iters : int
        Steps of the line, 1 or more.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, an argument outside its range, a total_iters that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.LinearLR(sgd, start_factor=0.5, total_iters=2)
    >>> [schedule.factor(at) for at in range(4)]
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
    ) -> None:
        self.start_factor = self._share("start_factor", start_factor)
        self.end_factor = self._share("end_factor", end_factor, below=True)
        self.total_iters = self._whole("total_iters", total_iters, 1)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        share = min(at, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * share


class PolynomialLR(LRScheduler):
    """(1 - step / total_iters)^power times the first learning rate, and 0 from there on.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    total_iters : int
        Steps down to 0, 1 or more.
    power : float

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, a total_iters below 1 or that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.PolynomialLR(sgd, total_iters=4, power=2.0)
    >>> [schedule.factor(at) for at in range(5)]
    [1.0, 0.5625, 0.25, 0.0625, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters, self.power = self._whole("total_iters", total_iters, 1), float(power)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float((1.0 - min(at, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to eta_min in T_max steps, and back in the next ones.

    The rate after t steps is eta_min + (lr - eta_min) / 2 * (1 + cos(pi t / T_max)). Source: Loshchilov and
    Hutter 2017, equation 5.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    T_max : int
        Steps down to eta_min, 1 or more.
    eta_min : float
        The least learning rate.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, a T_max below 1 or that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=4)
    >>> [round(schedule.rates(at)[0], 3) for at in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = self._whole("T_max", T_max, 1), float(eta_min)
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        return [cosine(rate, self.eta_min, at / self.T_max) for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first learning rate to eta_min, again and again, each time T_mult times as long.

    Source: Loshchilov and Hutter 2017, equation 5.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    T_0 : int
        Steps of the first half cosine, 1 or more.
    T_mult : int
        1 or more.
    eta_min : float
        The learning rate that each comes down to.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, a T_0 or T_mult below 1 or that is no whole number.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.CosineAnnealingWarmRestarts(sgd, T_0=2, T_mult=2)
    >>> [round(schedule.rates(at)[0], 3) for at in range(7)]
    [1.0, 0.5, 1.0, 0.854, 0.5, 0.146, 1.0]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        self.T_0, self.T_mult = self._whole("T_0", T_0, 1), self._whole("T_mult", T_mult, 1)
        self.eta_min = float(eta_min)
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        length = self.T_0
        if self.T_mult == 1:
            at %= length
        while at >= length:
            at -= length
            length *= self.T_mult
        return [cosine(rate, self.eta_min, at / length) for rate in self.base_lrs]


class SequentialLR(LRScheduler):
    """Schedules one after the other.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    schedulers : sequence of LRScheduler
        Of this optimiser; each counts its own steps from 0 on.
    milestones : sequence of int
        Steps at which the next one begins: one less than schedules, in ascending order, each 1 or more.

    Raises
    ------
    ArgumentError, DtypeError
        Schedules of another optimiser; milestones that do not fit them.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> warm = optim.lr_scheduler.LinearLR(sgd, start_factor=0.5, total_iters=2)
    >>> down = optim.lr_scheduler.ExponentialLR(sgd, gamma=0.5)
    >>> schedule = optim.lr_scheduler.SequentialLR(sgd, [warm, down], milestones=[2])
    >>> [schedule.rates(at)[0] for at in range(5)]
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]
    ) -> None:
        self.schedulers = list(schedulers)
        if any(not isinstance(part, LRScheduler) or part.optimizer is not optimizer for part in schedulers):
            raise ArgumentError("SequentialLR: schedulers must be schedules of the same optimiser")
        self.milestones = [self._whole("milestones", at, 1) for at in milestones]
        if len(self.schedulers) != len(self.milestones) + 1 or self.milestones != sorted(self.milestones):
            raise ArgumentError(
                f"SequentialLR: {len(self.schedulers)} schedules need one milestone less, in ascending "
                f"order; got {self.milestones}"
            )
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        part, since = self._part(at)
        return part.rates(since)

    def momenta(self, at: int) -> list[float] | None:
        part, since = self._part(at)
        return part.momenta(since)

    def _part(self, at: int) -> tuple[LRScheduler, int]:
        """The schedule of a step, and how many of its own steps it has done."""
        number = bisect.bisect_right(self.milestones, at)
        return self.schedulers[number], at - (self.milestones[number - 1] if number else 0)
