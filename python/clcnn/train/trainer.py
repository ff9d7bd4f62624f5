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
from clcnn.errors import ArgumentError, DtypeError, NonFiniteError, ShapeError, UnsupportedError
from clcnn.nn.module import Module
from clcnn.optim import Optimizer
from clcnn.optim.lr_scheduler import LRScheduler
from clcnn.plan import Plan
from clcnn.train import checkpoint
from clcnn.train.data import Arrays
from clcnn.train.home import Home
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
        x = self._images(x)
        result: NDArray[np.float32] = self._plan("predict", [x])(x)
        return result

    def evaluate(
        self, data: Arrays | Iterable[tuple[ArrayLike, ArrayLike]], batch: int = 256
    ) -> dict[str, float]:
        """Mean over a data set, computed as at inference: {"loss": ..., "accuracy": ...}; accuracy is the
        share of samples whose largest result is that of the label, and is left out for other targets.

        data: clcnn.train.Arrays, which is walked in batches of `batch`, or batches (x, y). Raises as step()
        does, and ArgumentError where there is nothing to evaluate.
        """
        batches = data.batches(batch, shuffle=False) if isinstance(data, Arrays) else data
        loss = right = count = 0.0
        labelled = True
        for x, y in batches:
            inputs = self._batch(x, y)
            result, each = self._plan("evaluate", inputs)(*inputs)
            n = len(inputs[0])
            count += n
            loss += float(each.ravel()[0]) * n
            labelled = labelled and inputs[1].ndim == 1 and inputs[1].dtype == np.int64
            if labelled:
                right += float(np.count_nonzero(result.argmax(axis=1) == inputs[1]))
        if not count:
            raise ArgumentError("evaluate(): there is no batch")
        found = {"loss": loss / count}
        return {**found, "accuracy": right / count} if labelled else found

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

    def _images(self, x: ArrayLike) -> NDArray[np.float32]:
        images = np.asarray(x)
        if images.dtype.kind not in "fiub":
            raise DtypeError(f"x: expected an array of real numbers, got {images.dtype}")
        if images.ndim < 2 or not images.size:
            raise ShapeError(f"x {list(images.shape)}: expected a batch (N, C, spatial...) that is not empty")
        return np.require(images, np.float32, "C")

    def _batch(self, x: ArrayLike, y: ArrayLike) -> list[NDArray[Any]]:
        images, target = self._images(x), np.asarray(y)
        wanted = getattr(self.loss, "target_dtype", "float32")
        if target.ndim < 1 or len(target) != len(images):
            raise ShapeError(f"y {list(target.shape)}: expected one for each of the {len(images)} samples")
        if wanted == "int64" and target.dtype.kind not in "iu":
            raise DtypeError(f"y: labels must be integers, got {target.dtype}")
        target = np.require(target, wanted, "C")
        if wanted == "int64":
            self._check_labels(target, images.shape)
        return [images, target]

    def _check_labels(self, labels: NDArray[np.int64], shape: tuple[int, ...]) -> None:
        classes = self._classes(shape)
        bad = np.flatnonzero((labels < 0) | (labels >= classes))
        if bad.size:
            at = int(bad[0])
            raise ArgumentError(
                f"y: sample {at} has label {labels[at]}; there are {classes} classes, from 0 on"
            )

    def _classes(self, shape: tuple[int, ...]) -> int:
        """Of the net's result: dimension 1."""
        if not hasattr(self, "_class_count"):
            graph = clcnn.graph.trace(self.net, (1, *shape[1:]))
            self._class_count = next(iter(graph.outputs.values())).shape[1]
        return self._class_count
