"""Trainer: forward, backward and update of a net as one plan for each shape of batch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn import _arguments, _core
from clcnn import device as device_list
from clcnn.device import Selector, parse_bytes
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.nn.module import Module
from clcnn.optim import Optimizer
from clcnn.optim.lr_scheduler import LRScheduler
from clcnn.train import batches, checkpoint
from clcnn.train.data import Arrays, Augment
from clcnn.train.fit import Callback, fit
from clcnn.train.home import Home
from clcnn.train.metrics import Accuracy, Metric
from clcnn.train.ranks import Ranks
from clcnn.train.step import GradientRules
from clcnn.train.stepping import Stepping
from clcnn.train.team import check_alike

PRECISIONS = ("strict", "highest", "high")


class Trainer(Stepping):
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
    def sends_to(self) -> _core.Device | None:
        """The device that fit() sends batches to ahead of their steps; None: they stay on the host, as where
        several devices take parts of them."""
        return self.device if len(self.devices) == 1 and self.ranks is None else None

    # ---- training ----

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
        """Trains until `epochs` epochs are done, those of a checkpoint that was resumed included.

        Parameters
        ----------
        data : Arrays, ImageFolder, Split, or iterable of batches (x, y)
            Batches must bear to be walked again and again. A Split has the validation data and the
            augmentation, too.
        epochs : int
        batch : int
            Samples of a batch. Default 32.
        validation : as data, optional
            What evaluate() is called on after each epoch.
        augment : function, optional
            Of (x, NumPy generator): gives x changed at random. See RandomAffine.
        metrics : iterable of metrics, optional
            Of the validation, as of evaluate().
        callbacks : iterable of functions
            Of (trainer, the epoch's dict), called in the end of each; one that returns true ends the
            training, such as EarlyStopping(). optim.lr_scheduler.ReduceLROnPlateau is one, too. Default ().
        checkpoint : path, optional
            A folder, in which "last.ckpt" is written after each epoch, and "best.ckpt" after one that is the
            best by `monitor`.
        monitor : str, optional
            A key of the epoch's dict; less is better for losses, more for others. None: "val_loss", or "loss"
            without validation data.
        progress : bool
            Prints a line for each epoch. Default True.
        prefetch : int
            So many batches are made ready ahead, by a thread that reads the data and sends it to the device
            while that is at work, images of an ImageFolder as bytes; 0: none, for data that look at the
            trainer. Default 2.

        Returns
        -------
        list of dict
            The history, a dict for each epoch: "epoch", "loss" (the mean over its steps), "lr", "seconds",
            and what evaluate() says of the validation data, as "val_loss" and so on.

        Raises
        ------
        ArgumentError
            There is no batch. And what step() and evaluate() raise.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn, optim, train
        >>> net = nn.Linear(2, 3)
        >>> data = train.Arrays(np.ones((8, 2), np.float32), np.zeros(8, np.int64))
        >>> with train.Trainer(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
        ...     history = trainer.fit(data, epochs=2, batch=4, validation=data, progress=False)
        >>> sorted(history[-1])
        ['epoch', 'loss', 'lr', 'seconds', 'val_accuracy', 'val_loss']
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
        """The net's result for a batch, computed as at inference.

        Parameters
        ----------
        x : float32 array [N, C, *spatial], or Tensor

        Returns
        -------
        float32 array [N, ...]

        Raises
        ------
        ShapeError, DtypeError, ArgumentError, StateError, DeviceError
            As step().

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn, optim, train
        >>> net = nn.Linear(2, 3)
        >>> with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
        ...     trainer.predict(np.ones((4, 2), np.float32)).shape
        (4, 3)
        """
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
        """What the net does with a data set, computed as at inference.

        Parameters
        ----------
        data : Arrays, or what else has batches(), or iterable of batches (x, y)
        batch : int
            Samples of a batch. Default 256.
        metrics : iterable of metrics, optional
            Of clcnn.train, such as Accuracy(top=5); None: Accuracy() where targets are labels.

        Returns
        -------
        dict
            "loss", the mean over all samples, also of a loss that sums them up; and a value for each metric,
            by its name.

        Raises
        ------
        ArgumentError
            There is nothing to evaluate. And what step() raises.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn, optim, train
        >>> net = nn.Linear(2, 3)
        >>> data = train.Arrays(np.ones((8, 2), np.float32), np.zeros(8, np.int64))
        >>> with train.Trainer(net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
        ...     sorted(trainer.evaluate(data))
        ['accuracy', 'loss']
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
        """Writes a checkpoint: parameters, statistics, moments, the step, the schedule.

        A file of that name is replaced at once, when the new one is whole. Of ranks the first one writes.

        Parameters
        ----------
        path : path

        Raises
        ------
        StateError
            Before the first batch.
        OSError
            The file cannot be written.

        Examples
        --------
        See resume().
        """
        self._check_usable()
        if self.ranks is None or self.ranks.first:
            checkpoint.save(self, path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Goes back (or on) to where a checkpoint of this trainer, or of one like it, was written.

        Parameters
        ----------
        path : path

        Raises
        ------
        CheckpointError
            As resume().
        StateError
            The device is busy with a step that timed out.
        """
        checkpoint.load(self, path)
        self._unsure = self._timed_out = False

    @classmethod
    def resume(
        cls, path: str | os.PathLike[str], net: Module, loss: Module, optimizer: Optimizer, **options: Any
    ) -> Trainer:
        """A trainer that goes on where a checkpoint was written, with the same bits on the same device.

        Parameters
        ----------
        path : path
        net, loss, optimizer, **options
            As for Trainer().

        Returns
        -------
        Trainer

        Raises
        ------
        CheckpointError
            The file is damaged, or of another net or optimiser: all differences in one message. Nothing is
            changed then.
        OSError
            The file cannot be read.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn, optim, train
        >>> net = nn.Linear(2, 1)
        >>> x, y = np.ones((4, 2), np.float32), np.zeros((4, 1), np.float32)
        >>> with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters(), 0.1)) as trainer:
        ...     _ = trainer.step(x, y)
        ...     trainer.save("last.ckpt")
        >>> again = nn.Linear(2, 1)
        >>> sgd = optim.SGD(again.parameters(), 0.1)
        >>> with train.Trainer.resume("last.ckpt", again, nn.MSELoss(), sgd) as trainer:
        ...     trainer.steps
        1
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


def _rules(clip_norm: float | None, clip_value: float | None, accumulate: int) -> GradientRules:
    for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
        if limit is not None and not (isinstance(limit, (int, float)) and 0 < limit < math.inf):
            raise ArgumentError(f"Trainer: {name} must be a number above 0, got {_arguments.shown(limit)}")
    return GradientRules(clip_norm, clip_value, _arguments.whole(accumulate, "Trainer: accumulate", 1))
