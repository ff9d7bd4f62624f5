"""Methods that give the elements of a symbolic value another shape or order, or a part of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clcnn import _arguments
from clcnn._graph.dimensions import Dimensions, Dims

if TYPE_CHECKING:
    from clcnn.value import Value


class Shapes(Dimensions):
    """Parts of a value along a dimension, and its elements in another shape."""

    __slots__ = ()

    # ---- parts ----

    def split(self, size: int | Sequence[int], dim: int = 0) -> tuple[Value, ...]:
        """Parts along one dimension.

        Parameters
        ----------
        size : int, or sequence of int
            Of each part, the last one smaller where it must be; or the sizes of all parts.
        dim : int

        Returns
        -------
        tuple of Value

        Raises
        ------
        ShapeError, ArgumentError
            There is no such dimension; sizes below 1, or that do not add up.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> [part.shape for part in x.split(2, dim=1)]
        [(2, 2, 4), (2, 1, 4)]
        """
        axis = self._axis(dim)
        if isinstance(size, int):
            count, rest = divmod(self.shape[axis], _arguments.whole(size, "split: size", 1))
            size = [size] * count + [rest] * bool(rest)
        return self.graph.node("split", [self], {"sizes": size, "dim": axis})

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Value, ...]:
        """At most `chunks` parts of one size along dim, the last one smaller where it must be.

        Parameters
        ----------
        chunks : int
            1 or more.
        dim : int
            Default 0.

        Returns
        -------
        tuple of Value
            Fewer than `chunks` where parts of ceil(size / chunks) are fewer.

        Raises
        ------
        ArgumentError, ShapeError
            chunks below 1; there is no such dimension.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 5))
        >>> [part.shape for part in x.chunk(2, dim=1)]
        [(2, 3), (2, 2)]
        """
        count = _arguments.whole(chunks, "chunk: chunks", 1)
        return self.split(-(-self.shape[self._axis(dim)] // count), dim)

    def unbind(self, dim: int = 0) -> tuple[Value, ...]:
        """The parts of size 1 along dim, without that dimension.

        Parameters
        ----------
        dim : int
            Default 0.

        Returns
        -------
        tuple of Value
            As many as the dimension has elements.

        Raises
        ------
        ShapeError
            There is no such dimension.

        Examples
        --------
        >>> import clcnn
        >>> q, k, v = clcnn.Graph().input("x", (3, 2, 4)).unbind()
        >>> q.shape
        (2, 4)
        """
        axis = self._axis(dim)
        return tuple(part.squeeze(axis) for part in self.split(1, axis))

    # ---- shapes ----

    def reshape(self, *shape: Any) -> Value:
        """The same elements, in row-major order, in another shape. view() is the same.

        Parameters
        ----------
        *shape : int, or one sequence of int
            One size may be -1: the rest.

        Returns
        -------
        Value

        Raises
        ------
        ShapeError
            The number of elements is another one.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.reshape(6, -1).shape
        (6, 4)
        """
        return self.graph.apply("reshape", self, shape=_several(shape))

    view = reshape

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Value:
        """Dimensions start_dim to end_dim joined into one.

        Parameters
        ----------
        start_dim, end_dim : int
            The first and the last of them. Default 0 and -1: all.

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError
            There are no such dimensions, or they are in the wrong order.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.flatten(1).shape
        (2, 12)
        """
        return self.graph.apply("flatten", self, start_dim=start_dim, end_dim=end_dim)

    def permute(self, *dims: Any) -> Value:
        """The dimensions in another order.

        Parameters
        ----------
        *dims : int, or one sequence of int
            Each dimension once: where every dimension of the result comes from.

        Returns
        -------
        Value

        Raises
        ------
        ShapeError, ArgumentError
            There is no such dimension; one is missing or comes twice.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return self.graph.apply("transpose", self, perm=[self._axis(d) for d in _several(dims)])

    def transpose(self, dim0: int, dim1: int) -> Value:
        """Two dimensions in each other's place.

        Parameters
        ----------
        dim0, dim1 : int

        Returns
        -------
        Value

        Raises
        ------
        ShapeError
            There is no such dimension.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.transpose(1, 2).shape
        (2, 4, 3)
        """
        order = list(range(self.ndim))
        a, b = self._axis(dim0), self._axis(dim1)
        order[a], order[b] = b, a
        return self.graph.apply("transpose", self, perm=order)

    @property
    def T(self) -> Value:
        """A matrix with rows and columns in each other's place; of others the dimensions backwards."""
        return self.permute(*range(self.ndim)[::-1])

    @property
    def mT(self) -> Value:
        """The last two dimensions in each other's place. Raises ShapeError below two dimensions."""
        return self.transpose(-2, -1)

    def squeeze(self, dim: Dims = None) -> Value:
        """Without dimensions of size 1.

        Parameters
        ----------
        dim : int, or sequence of int, optional
            Those that may go; one of another size stays. None: all.

        Returns
        -------
        Value

        Raises
        ------
        ShapeError, ArgumentError
            There is no such dimension; one is named twice.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 1, 3, 1))
        >>> x.squeeze().shape, x.squeeze(1).shape
        ((2, 3), (2, 3, 1))
        """
        wanted = range(self.ndim) if dim is None else self._axes(dim)
        axes = [axis for axis in wanted if self.shape[axis] == 1]
        return self.graph.apply("squeeze", self, axes=axes) if axes else self.graph.value(self)

    def unsqueeze(self, dim: int) -> Value:
        """With one more dimension, of size 1.

        Parameters
        ----------
        dim : int
            Its place in the result, counted from the end if negative.

        Returns
        -------
        Value

        Raises
        ------
        ArgumentError
            There is no such place.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3))
        >>> x.unsqueeze(1).shape, x.unsqueeze(-1).shape
        ((2, 1, 3), (2, 3, 1))
        """
        return self.graph.apply("unsqueeze", self, axes=[dim])

    def expand(self, *sizes: Any) -> Value:
        """Repeated along dimensions of size 1.

        Parameters
        ----------
        *sizes : int, or one sequence of int
            The shape; -1 leaves a dimension as it is. Dimensions may be added in front.

        Returns
        -------
        Value

        Raises
        ------
        ShapeError
            A dimension of another size than 1 would change.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (3, 1)).expand(2, -1, 4).shape
        (2, 3, 4)
        """
        wanted = _several(sizes)
        have = (1,) * (len(wanted) - self.ndim) + self.shape
        return self.graph.apply("expand", self, shape=[n if m < 0 else m for m, n in zip(wanted, have)])


def _several(given: tuple[Any, ...]) -> list[int]:
    """Sizes or dimensions given one by one, or as one sequence."""
    one = len(given) == 1 and isinstance(given[0], Sequence)
    return [_arguments.whole(n, "sizes and dimensions") for n in (given[0] if one else given)]
