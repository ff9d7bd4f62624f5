"""Parameter: an array that a module owns, and its value in a graph while the module is traced."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arguments, _arrays
from clcnn.errors import ArgumentError, DtypeError, ShapeError, StateError
from clcnn.nn import init
from clcnn.value import Value

if TYPE_CHECKING:
    from clcnn.graph import Graph
    from clcnn.train.home import Home

MOST_ELEMENTS = 1 << 40  # of any value


class Parameter:
    """A float32 array of fixed shape that a module owns.

    In forward() it stands for its value in the graph: `x * self.scale`, `self.position[:, :n]`,
    `self.token.expand(n, -1, -1)`. While a trainer changes it on a device, reading it fetches the device's
    values.

    Parameters
    ----------
    shape : tuple of int, or array
        The shape; an array, or a torch tensor, gives its values too, as `torch.nn.Parameter` takes them.
    initializer : function of clcnn.nn.init, optional
        Fills it when it is first read; zeros without one.

    Raises
    ------
    ArgumentError
        For a dimension below 1, and 2^40 elements or more.
    DtypeError
        For an array that does not hold real numbers.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Parameter((2, 3), nn.init.ones).data.sum().item()
    6.0
    """

    __array_ufunc__ = None  # NumPy's operators leave `array * parameter` alone

    def __init__(self, shape: Any, initializer: init.Initializer = init.zeros) -> None:
        values = _array(shape) if _arrays.speaks(shape) else None
        self.shape = tuple(int(n) for n in (shape if values is None else values.shape))
        if any(not 1 <= n < 1 << 31 for n in self.shape):
            raise ArgumentError(
                f"parameter shape {list(self.shape)}: every dimension must be from 1 to 2147483647"
            )
        if math.prod(self.shape) >= MOST_ELEMENTS:
            raise ArgumentError(f"parameter shape {list(self.shape)}: there must be fewer than 2^40 elements")
        self._initializer = initializer
        self._rng = init.generator()
        self._data: np.ndarray | None = values
        self._path = ""  # this and the next one while its module is traced
        self._graph: Graph | None = None
        self._home: Home | None = None
        self._requires_grad = True

    @property
    def requires_grad(self) -> bool:
        """Whether optimisers that are given it train it; false: it is a constant of a trainer's plans. To be
        set before the first batch of a trainer, or StateError is raised."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._home is not None and bool(value) != self._requires_grad:
            raise StateError(f"{self!r} belongs to a trainer: close() that one before freezing parameters")
        self._requires_grad = bool(value)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def data(self) -> np.ndarray:
        """The array itself, C-contiguous float32; setting it takes an array of the same shape."""
        if self._home is not None:
            self._home.refresh()
        if self._data is None:
            self._data = np.require(self._initializer(self.shape, self._rng), np.float32, "C")
        return self._data

    @data.setter
    def data(self, value: np.ndarray) -> None:
        array = _array(value)
        if array.shape != self.shape:
            raise ShapeError(f"parameter has shape {list(self.shape)}, the new value {list(array.shape)}")
        if self._home is not None:
            self._home.push(self, array)
        self._data = array

    def as_value(self, graph: Graph) -> Value:
        """The parameter in a graph, under its dotted path.

        Parameters
        ----------
        graph : Graph

        Returns
        -------
        Value
        """
        return graph.parameter(self, self._path or "parameter")

    def _value(self) -> Value:
        if self._graph is None:
            raise StateError(
                f"{self!r} has a value only while its module is compiled, in forward(); see .data"
            )
        return self.as_value(self._graph)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Value, name):
            raise AttributeError(f"'Parameter' has no attribute '{name}'")
        return getattr(self._value(), name)

    def __getitem__(self, key: Any) -> Value:
        return self._value()[key]

    def take(self, array: np.ndarray) -> None:
        """Becomes an array of the right shape and type, which its home has fetched."""
        self._data = array

    def settle(self, home: Home | None) -> None:
        """Lives on a device from now on, or no longer (None). Raises StateError where another trainer has
        it."""
        if home is not None and self._home is not None:
            raise StateError(f"{self!r} belongs to a trainer already: close() that one first")
        self._home = home

    def numpy(self) -> np.ndarray:
        """The array itself, as `data`."""
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != np.float32:
            if copy is False:
                raise ValueError("a parameter is float32: another dtype needs a copy")
            return self.data.astype(dtype)
        return self.data.copy() if copy else self.data

    def __repr__(self) -> str:
        return f"Parameter(shape={list(self.shape)})"


def _as_value(name: str) -> Callable[..., Value]:
    """An operator of Value, for Parameter."""

    def operator(self: Parameter, *others: Any) -> Value:
        made: Value = getattr(self._value(), name)(*others)
        return made

    return operator


for _word in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _name in (f"__{_word}__", f"__r{_word}__"):
        if hasattr(Value, _name):
            setattr(Parameter, _name, _as_value(_name))
for _word in ("neg", "pos", "abs", "lt", "le", "gt", "ge"):
    setattr(Parameter, f"__{_word}__", _as_value(f"__{_word}__"))


def _array(value: Any) -> np.ndarray:
    """The new value of a parameter. Raises DtypeError."""
    try:
        array = _arrays.host_array(value, "parameter")
        if array.dtype.kind in "biuf":
            return np.require(array, np.float32, "C")  # ascontiguousarray() would make rank 0 rank 1
    except (ShapeError, DtypeError) as error:
        raise DtypeError(f"parameter: expected an array of real numbers: {error}") from error
    raise DtypeError(f"parameter: expected an array of real numbers, got {_arguments.shown(value)}")
