"""Trainer: forward, backward and update of a net as one plan for each shape of batch."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn import _arguments, _core
from clcnn import device as device_list
from clcnn.device import Selector, parse_bytes
from clcnn.errors import ArgumentError, NonFiniteError, RunTimeoutError, StateError, UnsupportedError
from clcnn.graph import Graph
from clcnn.nn.module import Module
from clcnn.optim import Optimizer
from clcnn.optim.lr_scheduler import LRScheduler
from clcnn.plan import Plan
from clcnn.state import State
from clcnn.train import batches, checkpoint
from clcnn.train.data import Arrays, Augment
from clcnn.train.fit import Callback, fit
from clcnn.train.home import Home
from clcnn.train.metrics import Accuracy, Metric
from clcnn.train.ranks import Ranks
from clcnn.train.shared import SharedEvaluation, SharedStep, cut
from clcnn.train.step import GradientRules, Recipe, evaluation_graph, first_not_finite, training_graph
from clcnn.train.team import Mirrors, check_alike

PRECISIONS = ("strict", "highest", "high")


class Trainer:
    """Trains a net on one device, or on several of one kind.

    Parameters, moments and running statistics live on the device; net.state_dict() fetches them when they
    are newer there. The first batch of each shape compiles a plan.

    Parameters
    ----------
    net : nn.Module
        What train() and eval() say of its parts holds: parts in eval mode keep their running statistics.
    loss : nn.Module
        Of (net's result, target), with a result of one element, such as nn.CrossEntropyLoss().
    optimizer : clcnn.optim.Optimizer
        Over parameters of the net; others stay as they are.
    device : Device or selector, or a list of them, optional
        Of several, each computes the gradients of a part of every batch, which are added up in their order,
        and all make the same update: as one device does, within rounding, and with the same bits each time.
        Batch norms take mean and variance of their part; running statistics become the mean of all parts'.
    schedule : clcnn.optim.lr_scheduler.LRScheduler, optional
        Goes on after each update.
    seed : int
        Of what is drawn while training.
    precision : {"strict", "highest", "high"}
        See clcnn.compile().
    clip_norm : float, optional
        The most that the norm of all gradients may be, taken after clip_value.
    clip_value : float, optional
        The most that an element of a gradient may be.
    ranks : clcnn.train.Ranks, optional
        The processes that train together: all are given the same batches, and share them.
    accumulate : int
        An update is made of the mean gradient of so many steps.
    memory_limit : int or str
        What a plan may take beside the states, see clcnn.compile(). Where the fastest step takes more,
        backward computes maps of forward again: cheap ones such as activations, then those of whole segments.
        That changes no bit; where it is not enough, algorithms with less scratch may.

    Attributes
    ----------
    epochs : int
        How many epochs fit() has done.
    history : list of dict
        What fit() noted of each.

    Raises
    ------
    ArgumentError, UnsupportedError, NoDeviceError
    ShapeError, DeviceMemoryError, BuildError
        Where the net is compiled, at its first batch.

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn import nn, optim, train
    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    >>> x, y = np.eye(4, dtype=np.float32).reshape(4, 1, 2, 2), [0, 0, 1, 1]
    >>> with train.Trainer(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), 1.0)) as trainer:
    ...     losses = [trainer.step(x, y) for _ in range(20)]
    >>> losses[-1] < 0.5 * losses[0]
    True
    """

    def __init__(
        self,
        net: Module,
        loss: Module,
        optimizer: Optimizer,
        *,
        device: Selector | Sequence[Selector] = None,
        schedule: LRScheduler | None = None,
        seed: int = 0,
        precision: _arguments.Precision = "highest",
        clip_norm: float | None = None,
        clip_value: float | None = None,
        accumulate: int = 1,
        ranks: Ranks | None = None,
        memory_limit: int | str = 0,
    ) -> None:
        for name, given, kind in (
            ("net", net, Module),
            ("loss", loss, Module),
            ("optimizer", optimizer, Optimizer),
        ):
            if not isinstance(given, kind):
                raise ArgumentError(
                    f"Trainer: {name} must be a {kind.__name__}, got {_arguments.shown(given)}"
                )
        if precision == "medium":
            raise UnsupportedError(
                "Trainer: precision 'medium' is for inference; there are 'strict', 'highest', 'high'"
            )
        if precision not in PRECISIONS:
            raise ArgumentError(f"Trainer: precision {precision!r} is none of {', '.join(PRECISIONS)}")
        if schedule is not None and schedule.optimizer is not optimizer:
            raise ArgumentError("Trainer: the schedule is of another optimiser")
        self.net, self.loss, self.optimizer, self.schedule = net, loss, optimizer, schedule
        self.seed, self.precision = int(seed), precision
        if isinstance(device, device_list.ONE):  # a device of its own
            device = device if isinstance(device, _core.Device) else clcnn.Device(device)
        self.devices = device_list.several(device, "Trainer: device")
        check_alike(self.devices)
        self.ranks = ranks
        self.rules = _rules(clip_norm, clip_value, accumulate)
        self.memory_limit = parse_bytes(memory_limit, "memory_limit")
        self._steps = self.epochs = 0
        self.history: list[dict[str, Any]] = []
        self._schedule_start = schedule.last_epoch if schedule is not None else 0
        self._unsure = self._timed_out = False
        self._home: Home | None = None
        self._plans: dict[Any, Any] = {}  # Plan, or what stands for one on several devices

    @property
    def device(self) -> _core.Device:
        """The device; of several the first, whose states are what is read and saved."""
        return self.devices[0]

    @property
    def steps(self) -> int:
        """How many steps were done."""
        if self._unsure and not self._timed_out:
            self._advance_to(self._bound.progress)
        return self._steps

    @property
    def sends_to(self) -> _core.Device | None:
        """The device that fit() sends batches to ahead of their steps; None: they stay on the host, as where
        several devices take parts of them."""
        return self.device if len(self.devices) == 1 and self.ranks is None else None

    # ---- training ----

    def step(self, x: ArrayLike | clcnn.Tensor, y: ArrayLike, *, timeout: float | None = None) -> float:
        """One step on a batch: forward, backward, update. Returns the loss before the update.

        x: float32 (N, C, spatial...), or a clcnn.Tensor of the trainer's device. y: the target, for
        nn.CrossEntropyLoss integers (N,). timeout: seconds; after RunTimeoutError the trainer refuses all
        work until restore(). After Ctrl-C the step was done as a whole or not at all, and `steps` tells
        which.

        Raises before anything is sent: ShapeError, DtypeError, ArgumentError (a label outside the classes: it
        names sample, label and classes). Raises NonFiniteError where the loss or a gradient is not finite;
        parameters stay as they were then.
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

    def fit(
        self,
        data: Any,
        epochs: int,
        *,
        batch: int = 32,
        validation: Any = None,
        augment: Augment | None = None,
        metrics: Iterable[Metric] | None = None,
        callbacks: Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        monitor: str | None = None,
        progress: bool = True,
        prefetch: int = 2,
    ) -> list[dict[str, Any]]:
        """Trains until `epochs` epochs are done, those of a checkpoint that was resumed included. Returns the
        history, a dict for each: "epoch", "loss" (the mean over its steps), "lr", "seconds", and what
        evaluate() says of the validation data, as "val_loss" and so on.

        data: Arrays, ImageFolder, or batches (x, y) that can be walked again and again; or a Split, which has
        the validation data and the augmentation too. metrics: of the validation. callbacks: functions of
        (trainer, the epoch's dict), called in the end of each; one that returns true ends the training, such
        as EarlyStopping(); optim.lr_scheduler.ReduceLROnPlateau is one, too. checkpoint: a folder, in which
        "last.ckpt" is written after each epoch, and "best.ckpt" after one that is the best by `monitor`
        ("val_loss", or "loss" without validation data; less is better for losses, more for others). progress:
        prints a line for each epoch. prefetch: so many batches are made ready ahead, by a thread that reads
        the data and sends it to the device while that is at work, images of an ImageFolder as bytes; 0: none,
        for data that look at the trainer.

        Raises what step() and evaluate() raise; ArgumentError also where there is no batch.
        """
        return fit(
            self,
            data,
            epochs,
            batch=batch,
            validation=validation,
            augment=augment,
            metrics=metrics,
            callbacks=callbacks,
            checkpoint=checkpoint,
            monitor=monitor,
            progress=progress,
            prefetch=prefetch,
        )

    # ---- evaluating ----

    def predict(self, x: ArrayLike | clcnn.Tensor) -> NDArray[np.float32]:
        """The net's result for a batch, computed as at inference."""
        self._check_usable()
        images = batches.images(x)
        result: NDArray[np.float32] = self._plan("predict", [images])(images)
        return result

    def evaluate(
        self,
        data: Arrays | Iterable[tuple[ArrayLike, ArrayLike]],
        batch: int = 256,
        metrics: Iterable[Metric] | None = None,
    ) -> dict[str, Any]:
        """What the net does with a data set, computed as at inference: {"loss": ...} and a value for each
        metric, by its name.

        data: clcnn.train.Arrays, or what else has batches(); it is walked in batches of `batch`. Or batches
        (x, y). metrics: of clcnn.train, such as Accuracy(top=5); None: Accuracy() where targets are labels.
        "loss" is the mean over all samples, also of a loss that sums them up. Raises as step() does, and
        ArgumentError where there is nothing to evaluate.
        """
        self._check_usable()
        labelled = self._target_dtype == "int64"
        if metrics is None:
            metrics = [Accuracy()] if labelled else []
        metrics = list(metrics)
        for metric in metrics:
            metric.reset()
        total = count = 0.0
        for x, y in batches.walk(data, batch):
            inputs = self._batch(x, y)
            result, loss = self._plan("evaluate", inputs)(*inputs)
            n = batches.counted(self.loss, inputs[1])
            count += n
            total += float(loss.ravel()[0]) * (1 if getattr(self.loss, "reduction", None) == "sum" else n)
            target = inputs[1]
            if labelled and metrics:
                result, target = batches.by_sample(result, target, self._ignored)
            for metric in metrics:
                metric.add(result, target)
        if not count:
            raise ArgumentError("evaluate(): there is no batch")
        return {"loss": total / count, **{metric.name: metric.value() for metric in metrics}}

    # ---- files ----

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a checkpoint: parameters, statistics, moments, the step, the schedule. A file of that name
        is replaced at once, when the new one is whole. Of ranks the first one writes. Raises OSError,
        StateError before the first batch."""
        self._check_usable()
        if self.ranks is None or self.ranks.first:
            checkpoint.save(self, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Goes back (or on) to where a checkpoint of this trainer, or of one like it, was written. Raises as
        resume(), and StateError while the device is busy with a step that timed out."""
        checkpoint.load(self, path)
        self._unsure = self._timed_out = False

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], net: Module, loss: Module, optimizer: Optimizer, **options: Any
    ) -> Trainer:
        """A trainer that goes on where a checkpoint was written, with the same bits on the same device.

        net, loss, optimizer and options: as for Trainer(). Raises CheckpointError, with all differences in
        one message, where the file is damaged or of another net or optimiser; nothing is changed then.
        """
        trainer = cls(net, loss, optimizer, **options)
        checkpoint.load(trainer, path)
        return trainer

    def close(self) -> None:
        """Gives the device memory back; the net keeps its parameters."""
        for plan in self._plans.values():
            plan.close()
        self._plans.clear()
        if self._home is not None:
            self._home.close()
            self._home = None

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def __repr__(self) -> str:
        where = ", ".join(device.name for device in self.devices)
        return f"<clcnn.train.Trainer of {type(self.net).__name__} on {where}: {self.steps} steps>"

    # ---- inside ----

    @property
    def _bound(self) -> Home:
        assert self._home is not None
        return self._home

    def _begin(self, input_shape: tuple[int, ...]) -> None:
        """Moves parameters to the device, once."""
        if self._home is None:
            self._home = Home(self.net, self.optimizer, self.rules, self.devices, input_shape, self.ranks)
            for name in self._home.layout.unused:
                warnings.warn(f"the net's result does not depend on parameter {name!r}", stacklevel=4)

    def _plan(self, kind: str, inputs: list[NDArray[Any]]) -> Any:
        shapes = tuple(x.shape for x in inputs)
        key = (kind, shapes)
        self._begin(shapes[0])
        if any(p.requires_grad for p in self._bound.layout.frozen):
            raise StateError("a parameter was unfrozen after the first batch: close() this trainer first")
        if key not in self._plans:
            self._plans[key] = self._make(kind, shapes)
        return self._plans[key]

    def _make(self, kind: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
        layout, state = self._bound.layout, self._bound.state
        recipe = Recipe(self.net, self.loss, self.optimizer, layout, self.rules)
        train = kind in ("step", "gather")
        if isinstance(state, Mirrors):
            if train:
                return SharedStep(recipe, state, shapes, kind == "step", self._compile, self.ranks)
            return SharedEvaluation(recipe, state, shapes, kind == "evaluate", self._compile)
        if train:
            graph = training_graph(recipe, shapes, kind == "step")
        else:
            graph = evaluation_graph(self.net, self.loss if kind == "evaluate" else None, layout, shapes)
        return self._compile(graph, self.device, state)

    def _compile(self, graph: Graph, device: _core.Device, state: State) -> Plan:
        limit = self.memory_limit
        return clcnn.compile(graph, device=device, precision=self.precision, memory_limit=limit, state=state)

    def _classes(self, shape: tuple[int, ...]) -> int:
        """Of the net's result: dimension 1."""
        if not hasattr(self, "_class_count"):
            graph = clcnn.graph.trace(self.net, (1, *shape[1:]))
            self._class_count = next(iter(graph.outputs.values())).shape[1]
        return self._class_count

    @property
    def _target_dtype(self) -> str:
        return str(getattr(self.loss, "target_dtype", "float32"))

    @property
    def _ignored(self) -> int | None:
        """The label that counts for nothing."""
        return getattr(self.loss, "ignore_index", None)

    def _batch(self, x: ArrayLike | clcnn.Tensor, y: ArrayLike) -> list[NDArray[Any]]:
        images = batches.images(x)
        target = batches.target(y, images.shape[0], self._target_dtype)
        if self._target_dtype == "int64":
            batches.check_labels(target, self._classes(images.shape), self._ignored)
        return [images, target]


def _rules(clip_norm: float | None, clip_value: float | None, accumulate: int) -> GradientRules:
    for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
        if limit is not None and not (isinstance(limit, (int, float)) and 0 < limit < math.inf):
            raise ArgumentError(f"Trainer: {name} must be a number above 0, got {_arguments.shown(limit)}")
    return GradientRules(clip_norm, clip_value, _arguments.whole(accumulate, "Trainer: accumulate", 1))
