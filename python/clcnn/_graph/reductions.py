"""Methods that make one element of many in a symbolic value: sums, extremes and their places, variances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from clcnn._graph.dimensions import Dimensions, Dims
from clcnn.errors import ShapeError

if TYPE_CHECKING:
    from clcnn.value import Value


class Reductions(Dimensions):
    """Sums, extremes and variances over dimensions of a value."""

    __slots__ = ()

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Sum over the dimensions `dim`.

        Parameters
        ----------
        dim : int, or sequence of int, optional
            None: all of them.
        keepdim : bool
            Leaves them with size 1. Default False.

        Returns
        -------
        Value
            Of x's dtype: float32, int64 or int32.

        Raises
        ------
        ShapeError, ArgumentError
            There is no such dimension; one is named twice.
        DtypeError
            x is bool or uint8.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.sum((0, 2)).shape
        (3,)
        """
        return self._reduced("reduce_sum", dim, keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Mean over the dimensions `dim`.

        Parameters
        ----------
        dim : int, or sequence of int, optional
            None: all of them.
        keepdim : bool
            Leaves them with size 1. Default False.

        Returns
        -------
        Value
            float32.

        Raises
        ------
        ShapeError, ArgumentError
            There is no such dimension; one is named twice.
        DtypeError
            x is not float32.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 8, 8))
        >>> x.mean((2, 3)).shape, x.mean((2, 3), keepdim=True).shape
        ((2, 3), (2, 3, 1, 1))
        """
        return self._reduced("reduce_mean", dim, keepdim)

    def prod(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Product over the dimensions `dim`, or over all.

        Parameters
        ----------
        dim : int, or sequence of int, optional
        keepdim : bool
            As of sum().

        Returns
        -------
        Value
            Of x's dtype: float32, int64 or int32.

        Raises
        ------
        ShapeError, ArgumentError, DtypeError
            As of sum().

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 3)).prod(1).shape
        (2,)
        """
        return self._reduced("reduce_prod", dim, keepdim)

    def amax(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Largest element over the dimensions `dim`, or over all; NaN where there is one.

        Parameters
        ----------
        dim : int, or sequence of int, optional
        keepdim : bool
            As of sum().

        Returns
        -------
        Value
            Of x's dtype: float32, int64, int32 or bool.

        Raises
        ------
        ShapeError, ArgumentError, DtypeError
            As of sum().

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 3, 4)).amax((1, 2)).shape
        (2,)
        """
        return self._reduced("reduce_max", dim, keepdim)

    def amin(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Least element over the dimensions `dim`, or over all; NaN where there is one.

        Parameters
        ----------
        dim : int, or sequence of int, optional
        keepdim : bool
            As of sum().

        Returns
        -------
        Value
            Of x's dtype: float32, int64, int32 or bool.

        Raises
        ------
        ShapeError, ArgumentError, DtypeError
            As of sum().

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 3, 4)).amin(0, keepdim=True).shape
        (1, 3, 4)
        """
        return self._reduced("reduce_min", dim, keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest element of all; with `dim` the largest along it and their indices, as a pair.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1. Default False.

        Returns
        -------
        Value, or (Value, Value)
            Indices are int64, of the first among equals.

        Raises
        ------
        ShapeError, DtypeError
            There is no such dimension; x is bool or uint8.

        Examples
        --------
        >>> import clcnn
        >>> most, where = clcnn.Graph().input("x", (2, 3)).max(1)
        >>> most.shape, where.dtype
        ((2,), 'int64')
        """
        return self.amax() if dim is None else (self.amax(dim, keepdim), self.argmax(dim, keepdim))

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The least element of all; with `dim` the least along it and their indices, as a pair.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1. Default False.

        Returns
        -------
        Value, or (Value, Value)
            Indices are int64, of the first among equals.

        Raises
        ------
        ShapeError, DtypeError
            There is no such dimension; x is bool or uint8.

        Examples
        --------
        >>> import clcnn
        >>> least, where = clcnn.Graph().input("x", (2, 3)).min(0)
        >>> least.shape, where.shape
        ((3,), (3,))
        """
        return self.amin() if dim is None else (self.amin(dim, keepdim), self.argmin(dim, keepdim))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Value:
        """Index of the largest element along dim, or among all elements in row-major order.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1. Without dim it says nothing. Default False.

        Returns
        -------
        Value
            int64; the first index among equals. NaN counts as the largest.

        Raises
        ------
        ShapeError, DtypeError
            There is no such dimension; x is bool or uint8.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (1, 3)).argmax(1))
        >>> clcnn.compile(g)(np.array([[3.0, 7.0, 5.0]], np.float32)).tolist()
        [1]
        """
        return self._found("argmax", dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Value:
        """Index of the least element along dim, or among all elements in row-major order.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1. Without dim it says nothing. Default False.

        Returns
        -------
        Value
            int64; the first index among equals. NaN counts as the least.

        Raises
        ------
        ShapeError, DtypeError
            There is no such dimension; x is bool or uint8.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 3)).argmin(-1, keepdim=True).shape
        (2, 1)
        """
        return self._found("argmin", dim, keepdim)

    def var(self, dim: Dims = None, correction: int = 1, keepdim: bool = False) -> Value:
        """Variance over the dimensions `dim`: sum((x - mean)^2) / (count - correction).

        Parameters
        ----------
        dim : int, or sequence of int, optional
            None: all of them.
        correction : int
            1: of a sample; 0: of all there is. Default 1.
        keepdim : bool
            Leaves them with size 1. Default False.

        Returns
        -------
        Value
            float32.

        Raises
        ------
        ShapeError
            There are no more elements than `correction`, or there is no such dimension.
        ArgumentError, DtypeError
            A dimension is named twice; x is not float32.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (1, 3)).var(1))
        >>> clcnn.compile(g)(np.array([[1.0, 2.0, 3.0]], np.float32)).tolist()
        [1.0]
        """
        count = math.prod(self.shape[axis] for axis in self._axes(dim)) - correction
        if count < 1:
            raise ShapeError(f"var: {self!r} has too few elements for correction={correction}")
        apart = self.graph.apply("sub", self, self.mean(dim, True))
        return self.graph.apply("div", (apart * apart).sum(dim, keepdim), count)

    def std(self, dim: Dims = None, correction: int = 1, keepdim: bool = False) -> Value:
        """Standard deviation over the dimensions `dim`: the root of var().

        Parameters
        ----------
        dim : int, or sequence of int, optional
        correction : int
        keepdim : bool
            As of var().

        Returns
        -------
        Value
            float32.

        Raises
        ------
        ShapeError, ArgumentError, DtypeError
            As of var().

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 8)).std(1, correction=0).shape
        (2,)
        """
        return self.var(dim, correction, keepdim).sqrt()

    def _reduced(self, op: Any, dim: Any, keepdim: Any) -> Value:
        if not self.shape:
            return self.graph.value(self)
        return self.graph.apply(op, self, axes=self._axes(dim), keepdims=keepdim)

    def _found(self, op: Any, dim: Any, keepdim: Any) -> Value:
        if dim is None:
            flat = self.graph.apply("flatten", self, start_dim=0, end_dim=-1)
            return self.graph.apply(op, flat, dim=0, keepdims=False)
        return self.graph.apply(op, self, dim=self._axis(dim), keepdims=keepdim)
