"""Steps of a trainer: each is done as a whole or not at all, whatever ends it, and counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn.errors import NonFiniteError, RunTimeoutError, StateError
from clcnn.train.plans import Plans
from clcnn.train.shared import cut
from clcnn.train.step import first_not_finite

if TYPE_CHECKING:
    from clcnn.optim.lr_scheduler import LRScheduler


class Stepping(Plans):
    """The part of clcnn.train.Trainer that makes steps."""

    if TYPE_CHECKING:
        schedule: LRScheduler | None
        seed: int
        _steps: int
        _schedule_start: int
        _unsure: bool
        _timed_out: bool

    @property
    def steps(self) -> int:
        """How many steps were done."""
        if self._unsure and not self._timed_out:
            self._advance_to(self._bound.progress)
        return self._steps

    def step(self, x: ArrayLike | clcnn.Tensor, y: ArrayLike, *, timeout: float | None = None) -> float:
        """One step on a batch: forward, backward, update.

        After Ctrl-C the step was done as a whole or not at all, and `steps` tells which.

        Parameters
        ----------
        x : float32 array [N, C, *spatial], or Tensor
            A clcnn.Tensor must be of the trainer's device.
        y : array
            The target, for nn.CrossEntropyLoss integers [N].
        timeout : float, optional
            Seconds; after RunTimeoutError the trainer refuses all work until restore().

        Returns
        -------
        float
            The loss before the update.

        Raises
        ------
        ShapeError, DtypeError, ArgumentError
            Before anything is sent. A label outside the classes: it names sample, label and classes.
        NonFiniteError
            The loss or a gradient is not finite; parameters stay as they were then.
        StateError, RunTimeoutError, DeviceError
            And at the first batch of a shape, what clcnn.compile() raises.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn, optim, train
        >>> net = nn.Linear(2, 1)
        >>> x, y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
        >>> with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
        ...     first, second = trainer.step(x, y), trainer.step(x, y)
        >>> second < first
        True
        """
        self._check_usable()
        inputs = self._batch(x, y)
        every = self.rules.accumulate
        plan = self._plan("step" if (self.steps + 1) % every == 0 else "gather", inputs)
        given = self._given(inputs)
        self._unsure = True  # until the new number of steps is noted: exceptions may come anywhere
        self._bound.changed()
        try:
            loss, finite = plan.step(*(given[name] for name in plan.inputs), timeout=timeout)
        except RunTimeoutError:
            self._timed_out = True
            raise
        if not finite.all():
            self._unsure = False
            self._tell_not_finite(float(loss.ravel()[0]), given)
        self._advance_to(self._steps + 1)
        return float(loss.ravel()[0])

    def _given(self, inputs: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """What a step may take, by name."""
        begun = self.steps % self.rules.accumulate > 0
        given = {
            "x": inputs[0],
            "y": inputs[1],
            "key": np.array([self.seed, self.steps], np.int64),
            "kept": np.array([begun], np.float32),
        }
        for number, group in enumerate(self.optimizer.param_groups):
            settings = self.optimizer.hyper(group, self.steps // self.rules.accumulate + 1)
            given[f"hyper_{number}"] = np.array(settings, np.float32)
        return given

    def _advance_to(self, steps: int) -> None:
        """Notes that so many steps were committed, and does with the schedule what belongs to it."""
        self._steps = steps
        updates = self._schedule_start + steps // self.rules.accumulate
        if self.schedule is not None:  # also one that Ctrl-C left between its number and its rates
            self.schedule.load_state_dict({**self.schedule.state_dict(), "last_epoch": updates})
        self._unsure = False

    def _check_usable(self) -> None:
        """Finds out whether a step that was interrupted was committed. Raises StateError after a time-out."""
        if self._timed_out:
            raise StateError("the last step timed out: restore() a checkpoint before anything else")
        if self._unsure:
            self._advance_to(self._bound.progress)

    def _tell_not_finite(self, loss: float, given: dict[str, NDArray[Any]]) -> None:
        parts = [
            {**given, "x": given["x"][part], "y": given["y"][part]}
            for part in cut(len(given["x"]), len(self.devices))
        ]
        what = first_not_finite(self.net, self.loss, self._bound.layout, parts, self._bound.first)
        raise NonFiniteError(
            f"step {self.steps + 1}: the loss is {loss:g}; {what}. Parameters are those of step {self.steps}"
        )
