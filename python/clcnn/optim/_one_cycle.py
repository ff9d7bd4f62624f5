"""OneCycleLR."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from clcnn.errors import ArgumentError
from clcnn.optim._schedule import LRScheduler, cosine, line
from clcnn.optim.optimizer import Optimizer


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr, then down to the first rate over final_div_factor.

    Source: Smith and Topin 2018.

    Parameters
    ----------
    optimizer : clcnn.optim.Optimizer
    max_lr : float, or sequence of float
        The highest rate, for all groups or for each.
    total_steps : int, optional
        Steps of the schedule, 1 or more; or give epochs and steps_per_epoch.
    epochs, steps_per_epoch : int, optional
        total_steps is their product.
    pct_start : float
        Share of the steps that the rate goes up, from 0 to 1.
    anneal_strategy : {"cos", "linear"}
        Half a cosine or a line between the rates.
    cycle_momentum : bool
        Whether the momentum, or the first of the betas, goes down while the rate goes up, and back.
    base_momentum, max_momentum : float, or sequence of float
        Its least and its highest number, for all groups or for each.
    div_factor : float
        max_lr over the first rate.
    final_div_factor : float
        The first rate over the last one.
    three_phase : bool
        True goes down to the first rate as fast as up, then further down.

    Raises
    ------
    ArgumentError, DtypeError
        No optimiser, an argument outside its range, no number of steps or one that is not whole; in
        step(), beyond the last one.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> sgd = optim.SGD(nn.Linear(2, 1).parameters(), lr=1.0)
    >>> schedule = optim.lr_scheduler.OneCycleLR(sgd, 1.0, total_steps=10)
    >>> [round(schedule.rates(at)[0], 2) for at in (0, 1, 2, 5, 9)]
    [0.04, 0.52, 1.0, 0.61, 0.0]
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
        self._between = cosine if anneal_strategy == "cos" else line
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
