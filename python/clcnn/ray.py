"""Predictor: a model for Ray Data's map_batches(), with a device of its own for each actor."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, compiler
from clcnn.errors import ArgumentError, StateError

__all__ = ["Predictor"]


class Predictor:
    """Computes columns from columns of a batch {name: array}.

    Parameters
    ----------
    model : what clcnn.compile() takes
        A path, since actors are made in other processes.
    batch_size : int
        Rows that the model is compiled for, by the first batch; fewer are filled up, more are taken in
        pieces.
    columns : str, or sequence of str
        The model's inputs, in order.
    results : sequence of str, optional
        Names for the outputs. None: the model's own.
    devices : sequence of int, optional
        Indices of clcnn.devices(); each actor of a machine takes one that no other has, since Ray hides no
        OpenCL devices. None: all share the default one.
    **options
        Of clcnn.compile().

    Raises
    ------
    StateError
        No device is left.
    ArgumentError
        A column is missing in a batch. Others as clcnn.compile(), at the first batch.

    Examples
    --------
    >>> ds.map_batches(clcnn.ray.Predictor, fn_constructor_args=["net.onnx", 64, "image"],
    ...                batch_size=64, concurrency=2)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        batch_size: int,
        columns: str | Sequence[str],
        *,
        results: Sequence[str] | None = None,
        devices: Sequence[int] | None = None,
        **options: Any,
    ) -> None:
        self._size = _arguments.whole(batch_size, "Predictor: batch_size", 1)
        self._columns = [columns] if isinstance(columns, str) else list(columns)
        self._model, self._results, self._options = model, results, options
        self._plan: Any = None
        if devices is not None:
            self._options["device"], self._lock = claim(devices)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        if missing := [name for name in self._columns if name not in batch]:
            raise ArgumentError(f"Predictor: there is no column {missing}; there are {sorted(batch)}")
        arrays = [np.stack(list(batch[name])) for name in self._columns]
        if self._plan is None:
            shapes = [(self._size, *x.shape[1:]) for x in arrays]
            self._plan = compiler.compile(self._model, shapes, **self._options)
        plan: Any = self._plan
        arrays = [np.asarray(x, kind) for x, kind in zip(arrays, plan.input_dtypes.values(), strict=True)]
        pieces = []
        for first in range(0, len(arrays[0]), self._size):
            parts = [x[first : first + self._size] for x in arrays]
            rows = len(parts[0])
            full = [np.concatenate([x, np.repeat(x[-1:], self._size - rows, axis=0)]) for x in parts]
            pieces.append([y[:rows] for y in plan.run(full).values()])
        names = self._results or list(plan.outputs)
        return {name: np.concatenate(parts) for name, parts in zip(names, zip(*pieces), strict=True)}


def claim(devices: Sequence[int]) -> tuple[int, int]:
    """The first device that no other process has, and the open file whose lock keeps it for this one."""
    import fcntl  # not on Windows

    for index in devices:
        path = os.path.join(tempfile.gettempdir(), f"clcnn-{os.getuid()}-device-{index}.lock")
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return index, file
        except BlockingIOError:
            os.close(file)
    raise StateError(f"Predictor: other processes have all devices of {list(devices)}: use fewer actors")
