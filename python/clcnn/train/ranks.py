"""Ranks: processes on one machine or many that train one net together, begun by mpiexec."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from clcnn.classify import MissingExtraError
from clcnn.errors import Error

T = TypeVar("T")

# What mpiexec tells the processes that it begins: how many there are, by MPICH and by Open MPI.
COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
PIECE = 8 << 20  # elements that are added up at a time
FAILED = 1  # exit status of all ranks after an exception in one


def begun() -> bool:
    """Whether this process is one of several that mpiexec began."""
    return any(os.environ.get(name, "1") != "1" for name in COUNTS)


def share_of(cores: Iterable[int], rank: int, size: int) -> set[int]:
    """The cores that are left to one of `size` ranks on a machine: at least one, which ranks share where
    there are fewer cores than ranks."""
    all_cores = sorted(cores)
    if size >= len(all_cores):
        return {all_cores[rank % len(all_cores)]}
    return set(all_cores[rank * len(all_cores) // size : (rank + 1) * len(all_cores) // size])


class Ranks:
    """This process among those that mpiexec began: `mpiexec -n 4 python train.py` with `Ranks()` in it.

    Make it before a device is opened: ranks of one machine divide its cores, unless mpiexec has bound them to
    different ones. Then give it to the trainer, and every rank the same batches: each takes its part. An
    exception that nobody handles, or that leaves `with`, ends all ranks.

    Attributes
    ----------
    rank, size : int
        The number of this process from 0 on, and how many there are.
    local_rank, local_size : int
        The same among those on this machine.

    Raises
    ------
    MissingExtraError
        mpi4py, or an MPI library for it, is not installed.

    Examples
    --------
    >>> from clcnn import train
    >>> with train.Ranks() as ranks:  # doctest: +SKIP
    ...     trainer = train.Trainer(net, loss, adam, ranks=ranks)
    ...     trainer.fit(data, 10)
    """

    def __init__(self) -> None:
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # the latter: there is no MPI library
            raise MissingExtraError(
                f"training in several processes needs mpi4py and an MPI library ({error}): "
                "pip install 'clcnn[mpi]'"
            ) from error
        self._comm: Any = MPI.COMM_WORLD.Dup()
        self.rank, self.size = int(self._comm.Get_rank()), int(self._comm.Get_size())
        local = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = int(local.Get_rank()), int(local.Get_size())
        _divide_cores(local)
        self._usual_hook, sys.excepthook = sys.excepthook, self._hook

    @property
    def first(self) -> bool:
        """Whether this is the rank that prints and saves."""
        return self.rank == 0

    def all(self, value: T) -> list[T]:
        """The values of all ranks; each rank must call it.

        Parameters
        ----------
        value : any
            What pickle takes.

        Returns
        -------
        list
            In the order of the ranks.
        """
        found: list[T] = self._comm.allgather(value)
        return found

    def of_first(self, value: T) -> T:
        """The value of rank 0; each rank must call it.

        Parameters
        ----------
        value : any
            What pickle takes.

        Returns
        -------
        any
        """
        found: T = self._comm.bcast(value)
        return found

    def add(self, array: NDArray[np.float32]) -> None:
        """Makes a flat array the sum of those of all ranks, taken in their order.

        Each rank adds one part of it up, which all get then.

        Parameters
        ----------
        array : float32 array
            Of one dimension, of the same size on all ranks; it is changed.
        """
        for at in range(0, array.size, PIECE):
            piece = array[at : at + PIECE]
            part = -(-piece.size // self.size)
            given = np.zeros((self.size, part), np.float32)
            given.reshape(-1)[: piece.size] = piece
            found = np.empty_like(given)
            self._comm.Alltoall(given, found)
            total = found[0]
            for other in found[1:]:
                total += other
            self._comm.Allgather(total, given)
            piece[:] = given.reshape(-1)[: piece.size]

    def abort(self) -> None:
        """Ends all ranks at once. Without it the others would wait for this one for ever."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._comm.Abort(FAILED)

    def _hook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self._usual_hook(kind, error, trace)
        self.abort()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.excepthook = self._usual_hook
        if error is None:
            return
        if isinstance(error, Error):
            print(f"rank {self.rank}: {type(error).__name__}: {error}", file=sys.stderr)
        else:
            traceback.print_exception(error)
        self.abort()

    def __repr__(self) -> str:
        return f"<clcnn.train.Ranks: {self.rank} of {self.size}>"


def _divide_cores(local: Any) -> None:
    """Leaves the ranks of a machine a part of its cores each, before PoCL starts a thread for every core."""
    if not hasattr(os, "sched_setaffinity"):
        return
    allowed = os.sched_getaffinity(0)
    if any(other != allowed for other in local.allgather(allowed)):
        return  # mpiexec, or somebody else, has divided them
    if local.Get_size() > 1:
        allowed = share_of(allowed, local.Get_rank(), local.Get_size())
        os.sched_setaffinity(0, allowed)
    os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(len(allowed)))
