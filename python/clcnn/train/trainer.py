"""Trainer: forward, backward and update of a net as one plan for each shape of batch."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn import _arguments, _core
from clcnn.device import DeviceInfo
from clcnn.errors import ArgumentError, NonFiniteError, UnsupportedError
from clcnn.nn.module import Module
from clcnn.optim import Optimizer
from clcnn.optim.lr_scheduler import LRScheduler
from clcnn.plan import Plan
from clcnn.train import batches, checkpoint
from clcnn.train.data import Arrays
from clcnn.train.home import Home
from clcnn.train.metrics import Accuracy, Metric
from clcnn.train.step import evaluation_graph, first_bad_layer, training_graph

PRECISIONS = ("strict", "highest", "high")


class Trainer:
    """Trains a net on one device.

    Parameters, moments and running statistics live on the device; net.state_dict() fetches them when they are
    newer there. The first batch of each shape compiles a plan.

    net: an nn.Module; what train() and eval() say of its parts holds: parts in eval mode keep their running
    statistics. loss: a module of (net's result, target) whose result has one element, such as
    nn.CrossEntropyLoss(). optimizer: of clcnn.optim, over parameters of the net; others stay as they are.
    device: as clcnn.compile() takes it. schedule: of clcnn.optim.lr_scheduler; goes on after each step. seed:
    of what is drawn while training. precision: "strict", "highest" or "high" (see clcnn.compile).

    Raises ArgumentError, UnsupportedError, NoDeviceError; where the net is compiled, at its first batch, also
    ShapeError, DeviceMemoryError and BuildError.
    """

    def __init__(
        self,
        net: Module,
        loss: Module,
        optimizer: Optimizer,
        *,
        device: str | int | DeviceInfo | _core.Device | None = None,
        schedule: LRScheduler | None = None,
        seed: int = 0,
        precision: str = "highest",
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
        self.device = device if isinstance(device, _core.Device) else clcnn.Device(device)
        self.steps = 0
        self._home: Home | None = None
        self._plans: dict[Any, Plan] = {}

    # ---- training ----

    def step(self, x: ArrayLike, y: ArrayLike) -> float:
        """One step on a batch: forward, backward, update. Returns the loss before the update.

        x: float32 (N, C, spatial...). y: the target, for nn.CrossEntropyLoss integers (N,). Raises before
        anything is sent: ShapeError, DtypeError, ArgumentError (a label outside the classes: it names sample,
        label and classes). Raises NonFiniteError where the loss or a gradient is not finite; parameters stay
        as they were then.
        """
        inputs = self._batch(x, y)
        plan = self._plan("step", inputs)
        given = {"x": inputs[0], "y": inputs[1], "key": self._key()}
        for number, group in enumerate(self.optimizer.param_groups):
            given[f"hyper_{number}"] = np.array(self.optimizer.hyper(group, self.steps + 1), np.float32)
        loss, finite = plan.step(*(given[name] for name in plan.inputs))
        if not finite.all():
            self._tell_not_finite(float(loss.ravel()[0]), inputs)
        self.steps += 1
        self._bound.changed()
        if self.schedule is not None:
            self.schedule.step()
        return float(loss.ravel()[0])

    def _tell_not_finite(self, loss: float, inputs: list[NDArray[Any]]) -> None:
        layer = first_bad_layer(
            self.net, self._bound.layout, self._bound.state, inputs[0], self._key(), self.device
        )
        where = (
            f"layer {layer!r} is the first with results that are not finite"
            if layer
            else ("the results of all layers are finite, a gradient is not")
        )
        raise NonFiniteError(
            f"step {self.steps + 1}: the loss is {loss:g}; {where}. Parameters are those of step {self.steps}"
        )

    # ---- evaluating ----

    def predict(self, x: ArrayLike) -> NDArray[np.float32]:
        """The net's result for a batch, computed as at inference."""
        x = batches.images(x)
        result: NDArray[np.float32] = self._plan("predict", [x])(x)
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
        is replaced at once, when the new one is whole. Raises OSError, StateError before the first batch."""
        checkpoint.save(self, path)

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
        return f"<clcnn.train.Trainer of {type(self.net).__name__} on {self.device.name}: {self.steps} steps>"

    # ---- inside ----

    @property
    def _bound(self) -> Home:
        assert self._home is not None
        return self._home

    def _begin(self, input_shape: tuple[int, ...]) -> None:
        """Moves parameters to the device, once."""
        if self._home is None:
            self._home = Home(self.net, self.optimizer, self.device, input_shape)
            for name in self._home.layout.unused:
                warnings.warn(f"the net's result does not depend on parameter {name!r}", stacklevel=4)

    def _plan(self, kind: str, inputs: list[NDArray[Any]]) -> Plan:
        shapes = tuple(x.shape for x in inputs)
        key = (kind, shapes)
        if key not in self._plans:
            self._begin(shapes[0])
            layout, state = self._bound.layout, self._bound.state
            if kind == "step":
                graph = training_graph(self.net, self.loss, self.optimizer, layout, shapes)
            else:
                graph = evaluation_graph(self.net, self.loss if kind == "evaluate" else None, layout, shapes)
            self._plans[key] = clcnn.compile(graph, device=self.device, precision=self.precision, state=state)
        return self._plans[key]

    def _key(self) -> NDArray[np.int64]:
        """What this step draws its random numbers with."""
        return np.array([self.seed, self.steps], np.int64)

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

    def _batch(self, x: ArrayLike, y: ArrayLike) -> list[NDArray[Any]]:
        images = batches.images(x)
        target = batches.target(y, len(images), self._target_dtype)
        if self._target_dtype == "int64":
            batches.check_labels(target, self._classes(images.shape), self._ignored)
        return [images, target]
