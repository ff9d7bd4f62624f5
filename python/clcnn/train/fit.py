"""The loop over epochs: progress, history, validation, callbacks and checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clcnn import _arguments
from clcnn.errors import ArgumentError
from clcnn.train import batches
from clcnn.train.ahead import ahead, copied
from clcnn.train.data import Augment, Split
from clcnn.train.folder import ImageFolder
from clcnn.train.metrics import Metric

if TYPE_CHECKING:
    from clcnn.train.trainer import Trainer

# (trainer, what was noted of the epoch) -> whether to stop
Callback = Callable[["Trainer", Mapping[str, Any]], bool | None]
LAST, BEST = "last.ckpt", "best.ckpt"


class EarlyStopping:
    """A callback of Trainer.fit() that stops where the best epoch is `patience` epochs ago.

    It reads the trainer's history alone, so that a resumed run stops where one without a break would.

    Parameters
    ----------
    monitor : str
        What to go by: a number of the history, such as "loss" or "val_accuracy".
    patience : int
        Epochs to go on for without a better one, 1 or more.
    min_delta : float
        Less of an improvement is none.
    mode : {"min", "max"}, optional
        Whether less or more is better; None: "min" for losses, else "max".

    Raises
    ------
    ArgumentError
        A mode that is neither, a patience below 1; in fit(), a number that the history lacks.
    DtypeError
        A patience that is no whole number.

    Examples
    --------
    >>> from clcnn import train
    >>> stop = train.EarlyStopping("val_accuracy", patience=3)
    >>> stop.mode
    'max'
    >>> trainer.fit(data, 100, callbacks=[stop])  # doctest: +SKIP
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 5,
        min_delta: float = 0.0,
        mode: str | None = None,
    ) -> None:
        self.monitor, self.mode = monitor, direction(monitor, mode)
        self.patience = _arguments.whole(patience, "EarlyStopping: patience", 1)
        self.min_delta = float(min_delta)

    def __call__(self, trainer: Trainer, record: Mapping[str, Any]) -> bool:
        best = best_epoch(trainer.history, self.monitor, self.mode, self.min_delta)
        return len(trainer.history) - 1 - best >= self.patience


def direction(monitor: str, mode: str | None) -> str:
    """Whether less ("min") or more ("max") of a number is better."""
    if mode not in (None, "min", "max"):
        raise ArgumentError(f"mode {mode!r} is neither 'min' nor 'max'")
    return mode or ("min" if "loss" in monitor else "max")


def best_epoch(history: list[dict[str, Any]], monitor: str, mode: str, min_delta: float = 0.0) -> int:
    """The index of the last epoch that improved on all before by more than min_delta."""
    best, found = -math.inf, 0
    for index, record in enumerate(history):
        if monitor not in record:
            raise ArgumentError(f"there is no {monitor!r} in the history; there are {sorted(record)}")
        value = record[monitor] if mode == "max" else -record[monitor]
        if value > best + (min_delta if best > -math.inf else 0.0):
            best, found = value, index
    return found


def fit(
    trainer: Trainer,
    data: Any,
    epochs: int,
    *,
    batch: int,
    validation: Any,
    augment: Augment | None,
    metrics: Iterable[Metric] | None,
    callbacks: Iterable[Callback],
    checkpoint: Any,
    monitor: str | None,
    progress: bool,
    prefetch: int,
) -> list[dict[str, Any]]:
    """See Trainer.fit()."""
    if isinstance(data, Split):
        validation = data.test if validation is None else validation
        augment = data.augment if augment is None else augment
        data = data.train
    if monitor is None:
        monitor = "loss" if validation is None else "val_loss"
    metrics = None if metrics is None else list(metrics)
    epochs = _arguments.whole(epochs, "fit(): epochs", 1)
    prefetch = _arguments.whole(prefetch, "fit(): prefetch", 0)
    folder = None if checkpoint is None else Path(_arguments.path(checkpoint, "fit(): checkpoint"))
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    callbacks = list(callbacks)
    for callback in callbacks:  # of a resumed run
        if hasattr(callback, "catch_up"):
            callback.catch_up(trainer)
    while trainer.epochs < epochs:
        record = _epoch(trainer, data, batch, augment, prefetch)
        if validation is not None:
            found = trainer.evaluate(validation, batch=batch, metrics=metrics)
            record |= {f"val_{name}": value for name, value in found.items()}
        trainer.epochs += 1
        trainer.history.append(record)
        if progress and (trainer.ranks is None or trainer.ranks.first):
            print(line(record, epochs), flush=True)
        if folder is not None:
            trainer.save(folder / LAST)
            if best_epoch(trainer.history, monitor, direction(monitor, None)) == len(trainer.history) - 1:
                trainer.save(folder / BEST)
        stop = any([callback(trainer, record) for callback in callbacks])  # all are called
        if stop if trainer.ranks is None else trainer.ranks.of_first(stop):
            break
    return trainer.history


def _epoch(trainer: Trainer, data: Any, batch: int, augment: Augment | None, prefetch: int) -> dict[str, Any]:
    """Trains on all samples once, in the order that belongs to this epoch."""
    if hasattr(data, "epoch"):
        data.epoch = trainer.epochs  # so that a resumed run takes the order of one without a break
    start, total, count = time.perf_counter(), 0.0, 0.0
    with closing(ahead(_walk(data, batch, augment), trainer.sends_to, prefetch)) as walk:
        for x, y in walk:
            rate = float(trainer.optimizer.param_groups[0]["lr"])
            loss = trainer.step(x, y)
            n = batches.counted(trainer.loss, y)
            count += n
            total += loss * (1 if getattr(trainer.loss, "reduction", None) == "sum" else n)
    if not count:
        raise ArgumentError("fit(): there is no batch; data that can be walked once only serve one epoch")
    return {
        "epoch": trainer.epochs + 1,
        "loss": total / count,
        "lr": rate,
        "seconds": round(time.perf_counter() - start, 3),
    }


def _walk(data: Any, batch: int, augment: Augment | None) -> Any:
    """One epoch's batches; images as bytes where the data set has them."""
    if isinstance(data, ImageFolder):
        return data.batches(batch, augment=augment, as_bytes=True)
    return data.batches(batch, augment=augment) if hasattr(data, "batches") else copied(data)


def line(record: Mapping[str, Any], epochs: int) -> str:
    """What is printed of an epoch."""
    known = ("epoch", "lr", "seconds")
    numbers = [f"{k} {v:.4f}" for k, v in record.items() if k not in known and isinstance(v, float)]
    return f"epoch {record['epoch']:3}/{epochs}  " + "  ".join([*numbers, f"{record['seconds']:6.1f} s"])
