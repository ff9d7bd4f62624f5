"""Schedules of the learning rate, as torch.optim.lr_scheduler: step() after each step of the trainer, so that
what PyTorch's users often count in epochs is counted in steps.

Every schedule is a formula of the step, so that it goes on from a checkpoint by one number.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from clcnn import _arguments
from clcnn.errors import ArgumentError
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
    "SequentialLR",
    "StepLR",
]


class LRScheduler:
    """Base of all schedules: sets "lr" of each group of an optimiser.

    A subclass has factor(at), or rates(at) where a factor of the first learning rates is not all.

    Attributes
    ----------
    base_lrs : list of float
        The learning rates that the optimiser's groups were given.
    last_epoch : int
        How often step() was called; what a checkpoint keeps.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentError(f"schedule: expected an optimiser, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.base_lrs = [float(g.setdefault("initial_lr", g["lr"])) for g in optimizer.param_groups]
        self.last_epoch = 0
        self._set()

    def factor(self, at: int) -> float:
        """What the first learning rates are multiplied by after `at` steps."""
        raise NotImplementedError

    def rates(self, at: int) -> list[float]:
        """The learning rate of each group after `at` steps."""
        return [rate * self.factor(at) for rate in self.base_lrs]

    def momenta(self, at: int) -> list[float] | None:
        """The momentum of each group after `at` steps; None where it stays as it is."""
        return None

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


class LambdaLR(LRScheduler):
    """The first learning rate times lr_lambda(step); lr_lambda: a function, or one for each group."""

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
    """Times gamma after every step_size steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        self.step_size, self.gamma = self._whole("step_size", step_size, 1), float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma ** (at // self.step_size))


class MultiStepLR(LRScheduler):
    """Times gamma after each number of steps of `milestones`."""

    def __init__(self, optimizer: Optimizer, milestones: Sequence[int], gamma: float = 0.1) -> None:
        self.milestones = sorted(self._whole("milestones", at, 0) for at in milestones)
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma ** bisect.bisect_right(self.milestones, at))


class ExponentialLR(LRScheduler):
    """Times gamma after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        self.gamma = float(gamma)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float(self.gamma**at)


class ConstantLR(LRScheduler):
    """The first learning rate times factor for total_iters steps, then the first learning rate itself."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        self._factor = self._share("factor", factor, below=True)
        self.total_iters = self._whole("total_iters", total_iters, 0)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return self._factor if at < self.total_iters else 1.0


class LinearLR(LRScheduler):
    """In a line from start_factor to end_factor times the first learning rate in total_iters steps: a
    warm-up."""

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
    """(1 - step / total_iters)^power times the first learning rate, and 0 from there on."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        self.total_iters, self.power = self._whole("total_iters", total_iters, 1), float(power)
        super().__init__(optimizer)

    def factor(self, at: int) -> float:
        return float((1.0 - min(at, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to eta_min in T_max steps, and back in the next ones.
    Source: Loshchilov and Hutter 2017, equation 5."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        self.T_max, self.eta_min = self._whole("T_max", T_max, 1), float(eta_min)
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        return [_cosine(rate, self.eta_min, at / self.T_max) for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first learning rate to eta_min in T_0 steps, again and again, each time T_mult
    times as long. Source: Loshchilov and Hutter 2017, equation 5."""

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
        return [_cosine(rate, self.eta_min, at / length) for rate in self.base_lrs]


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr in the first pct_start of the steps, then down to the first rate
    over final_div_factor. three_phase: down to the first rate as fast as up, then further down.
    cycle_momentum: the momentum, or the first of the betas, goes from max_momentum down to base_momentum
    while the rate goes up, and back. Source: Smith and Topin 2018.

    max_lr, base_momentum, max_momentum: a number, or one for each group. Give total_steps, or epochs and
    steps_per_epoch. Raises ArgumentError, also for a step beyond the last.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: Literal["cos", "linear"] = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        self.total_steps = self._whole("total_steps", total_steps, 1)
        self._share("pct_start", pct_start, below=True)
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(
                f"OneCycleLR: anneal_strategy {anneal_strategy!r} is neither 'cos' nor 'linear'"
            )
        self._between = _cosine if anneal_strategy == "cos" else _line
        groups = len(optimizer.param_groups) if isinstance(optimizer, Optimizer) else 0
        self.max_lrs = self._each("max_lr", max_lr, groups)
        self._first = [rate / div_factor for rate in self.max_lrs]
        self._last = [rate / final_div_factor for rate in self._first]
        self.cycle_momentum = bool(cycle_momentum)
        self._low = self._each("base_momentum", base_momentum, groups)
        self._high = self._each("max_momentum", max_momentum, groups)
        peak, end = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        self._ends = [peak, 2 * peak, end] if three_phase else [peak, end]
        if cycle_momentum and isinstance(optimizer, Optimizer):
            optimizer.varied |= {"momentum", "betas"}
        super().__init__(optimizer)

    def rates(self, at: int) -> list[float]:
        down = [self._first] if len(self._ends) == 3 else []
        return self._along([self._first, self.max_lrs, *down, self._last], at)

    def momenta(self, at: int) -> list[float] | None:
        if not self.cycle_momentum:
            return None
        still = [self._high] if len(self._ends) == 3 else []
        return self._along([self._high, self._low, self._high, *still], at)

    def _along(self, stops: list[list[float]], at: int) -> list[float]:
        """The numbers on the way from stop to stop, which are reached at the ends of the phases."""
        if at > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {at} is beyond the {self.total_steps} of the schedule")
        last = len(self._ends) - 1
        phase = next((i for i, end in enumerate(self._ends) if at <= end or i == last), last)
        begin, end = self._ends[phase - 1] if phase else 0.0, self._ends[phase]
        share = min((at - begin) / (end - begin), 1.0) if end > begin else 1.0
        return [self._between(a, b, share) for a, b in zip(stops[phase], stops[phase + 1], strict=True)]

    def _each(self, name: str, value: float | Sequence[float], groups: int) -> list[float]:
        values = [value] * groups if isinstance(value, (int, float)) else list(value)
        if len(values) != groups:
            raise ArgumentError(f"OneCycleLR: {name} has {len(values)} numbers for {groups} groups")
        return [float(v) for v in values]


class SequentialLR(LRScheduler):
    """Schedules one after the other: the next one begins after each number of steps of `milestones`."""

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


class ReduceLROnPlateau:
    """Times `factor` once a number has not become better for more than `patience` calls, as
    torch.optim.lr_scheduler's of this name: no formula of the step, so that it is no Trainer(schedule=).

    Call step(number), or give it to Trainer.fit() among `callbacks`: there it goes by `monitor`, a number of
    the history, alone, so that a resumed run has the rates of one without a break.

    mode: "min" where less is better, "max" where more is. threshold: less of an improvement is none,
    relative to the best so far ("rel") or not ("abs"). cooldown: calls after a reduction that do not count.
    min_lr: the least rate, for all or for each group. eps: a smaller change is left out. Make it before a
    trainer is resumed, with the first rates. Raises ArgumentError.

    Attributes
    ----------
    best : float
        The best number so far.
    num_bad_epochs, cooldown_counter : int
        Calls since then without a better one; calls that do not count yet to come.
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
        """Notes one more number, and reduces the rates where it is time."""
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
        """The learning rate of each group now."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def catch_up(self, trainer: Any) -> None:
        """Sets what follows from the trainer's history, from the first rates on."""
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


def _cosine(start: float, end: float, share: float) -> float:
    return end + (start - end) / 2 * (1 + math.cos(math.pi * share))


def _line(start: float, end: float, share: float) -> float:
    return start + (end - start) * share
