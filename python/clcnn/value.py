"""Value: a symbolic array of a graph, with the operators and the methods of torch's tensors.

Each adds nodes to the graph; nothing is computed before a plan runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clcnn import _arguments
from clcnn._graph.arithmetic import Arithmetic
from clcnn._index import Indexed
from clcnn.errors import ArgumentError, DtypeError, ShapeError

if TYPE_CHECKING:
    from clcnn.graph import Graph

Dims = int | Sequence[int] | None


@dataclass(frozen=True, slots=True, eq=False)
class Value(Arithmetic):
    """A symbolic array of a graph: what operators take and give.

    `+ - * / // % ** @`, comparisons, `& | ^ ~` of bools and `[]` add nodes, whichever side the value stands
    on; the methods have torch's names and arguments. `==` makes a node too.

    Attributes
    ----------
    graph : Graph
        The graph that the value belongs to.
    id : int
        Its number there.
    shape : tuple of int
        Its shape, known while the graph is built.
    dtype : str
        "float32", "int64", "int32", "bool" or "uint8".

    Examples
    --------
    >>> import clcnn
    >>> x = clcnn.Graph().input("x", (2, 3, 8, 8))
    >>> x.mean((2, 3)).shape
    (2, 3)
    >>> x[:, :2, ::2, -1].shape
    (2, 2, 4)
    >>> (1 - x.view(2, -1)).shape
    (2, 192)
    """

    graph: Graph
    id: int
    shape: tuple[int, ...]
    dtype: str = "float32"

    # NumPy arrays leave `array + value` to __radd__ below; walking over a value would cut it into nodes.
    __array_ufunc__ = None
    __iter__ = None
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        dtype = "" if self.dtype == "float32" else f" {self.dtype}"
        return f"<clcnn.Value {self.id}: {'x'.join(map(str, self.shape)) or 'scalar'}{dtype}>"

    def __bool__(self) -> bool:
        raise DtypeError(
            f"{self!r} is neither true nor false while the graph is built; choose elements with ops.where()"
        )

    def __len__(self) -> int:
        if not self.shape:
            raise DtypeError(f"{self!r} has no dimension, and so no len()")
        return self.shape[0]

    def __pos__(self) -> Value:
        return self

    # ---- looking ----

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension.

        Parameters
        ----------
        dim : int, optional

        Returns
        -------
        tuple of int, or int

        Raises
        ------
        ShapeError
            There is no such dimension.
        """
        return self.shape if dim is None else self.shape[self._axis(dim)]

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    # ---- parts ----

    def __getitem__(self, key: Any) -> Value:
        """`[]` as NumPy has it: ints, slices with any step, None, `...`, and one array or list of ints.

        Raises ShapeError (an index outside, a part without elements), ArgumentError.
        """
        found = Indexed.of(self.shape, key)
        value = self
        if found.axes:
            value = self.graph.apply(
                "slice", value, axes=found.axes, starts=found.starts, ends=found.ends, steps=found.steps
            )
        if found.indices is not None:
            value = self.graph.apply("gather", value, found.indices, dim=found.indexed)
        return value if value.shape == found.shape else value.reshape(found.shape)

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

        Returns
        -------
        tuple of Value
        """
        count = _arguments.whole(chunks, "chunk: chunks", 1)
        return self.split(-(-self.shape[self._axis(dim)] // count), dim)

    def unbind(self, dim: int = 0) -> tuple[Value, ...]:
        """The parts of size 1 along dim, without that dimension."""
        axis = self._axis(dim)
        return tuple(part.squeeze(axis) for part in self.split(1, axis))

    # ---- shapes ----

    def reshape(self, *shape: Any) -> Value:
        """The same elements in another shape.

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

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.flatten(1).shape
        (2, 12)
        """
        return self.graph.apply("flatten", self, start_dim=start_dim, end_dim=end_dim)

    def permute(self, *dims: Any) -> Value:
        """The dimensions in another order: *dims are ints, or one sequence, each dimension once.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.permute(2, 0, 1).shape
        (4, 2, 3)
        """
        return self.graph.apply("transpose", self, perm=[self._axis(d) for d in _several(dims)])

    def transpose(self, dim0: int, dim1: int) -> Value:
        """Two dimensions in each other's place."""
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
        """The last two dimensions in each other's place."""
        return self.transpose(-2, -1)

    def squeeze(self, dim: Dims = None) -> Value:
        """Without dimensions of size 1.

        Parameters
        ----------
        dim : int, or sequence of int, optional
            Those that may go; one of another size stays. None: all.
        """
        wanted = range(self.ndim) if dim is None else self._axes(dim)
        axes = [axis for axis in wanted if self.shape[axis] == 1]
        return self.graph.apply("squeeze", self, axes=axes) if axes else self

    def unsqueeze(self, dim: int) -> Value:
        """With a dimension of size 1 more, before dimension `dim`."""
        return self.graph.apply("unsqueeze", self, axes=[dim])

    def expand(self, *sizes: Any) -> Value:
        """Repeated along dimensions of size 1.

        Parameters
        ----------
        *sizes : int, or one sequence of int
            The shape; -1 leaves a dimension as it is. Dimensions may be added in front.

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

    def contiguous(self) -> Value:
        """The value itself: how values lie in memory is the planner's business."""
        return self

    # ---- reductions ----

    def sum(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Sum over the dimensions `dim`.

        Parameters
        ----------
        dim : int, or sequence of int, optional
            None: all of them.
        keepdim : bool
            Leaves them with size 1.

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
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.sum((0, 2)).shape
        (3,)
        """
        return self._reduced("reduce_sum", dim, keepdim)

    def mean(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Mean over the dimensions `dim`, or over all; arguments as of sum()."""
        return self._reduced("reduce_mean", dim, keepdim)

    def prod(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Product over the dimensions `dim`, or over all; arguments as of sum()."""
        return self._reduced("reduce_prod", dim, keepdim)

    def amax(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Largest element over the dimensions `dim`, or over all; arguments as of sum()."""
        return self._reduced("reduce_max", dim, keepdim)

    def amin(self, dim: Dims = None, keepdim: bool = False) -> Value:
        """Least element over the dimensions `dim`, or over all; arguments as of sum()."""
        return self._reduced("reduce_min", dim, keepdim)

    def max(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The largest element of all; with `dim` the largest along it and their int64 indices, as a pair.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1.

        Returns
        -------
        Value, or (Value, Value)
        """
        return self.amax() if dim is None else (self.amax(dim, keepdim), self.argmax(dim, keepdim))

    def min(self, dim: int | None = None, keepdim: bool = False) -> Any:
        """The least element of all; with `dim` the least along it and their int64 indices, as a pair.

        Parameters
        ----------
        dim : int, optional
        keepdim : bool
            Leaves it with size 1.

        Returns
        -------
        Value, or (Value, Value)
        """
        return self.amin() if dim is None else (self.amin(dim, keepdim), self.argmin(dim, keepdim))

    def argmax(self, dim: int | None = None, keepdim: bool = False) -> Value:
        """int64 index of the largest element along dim, or among all elements."""
        return self._found("argmax", dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False) -> Value:
        """int64 index of the least element along dim, or among all elements."""
        return self._found("argmin", dim, keepdim)

    def var(self, dim: Dims = None, correction: int = 1, keepdim: bool = False) -> Value:
        """Variance over the dimensions `dim`: sum((x - mean)^2) / (count - correction).

        Parameters
        ----------
        dim : int, or sequence of int, optional
            None: all of them.
        correction : int
            1: of a sample; 0: of all there is.
        keepdim : bool
            Leaves them with size 1.

        Raises
        ------
        ShapeError
            There are no more elements than `correction`.
        """
        count = math.prod(self.shape[axis] for axis in self._axes(dim)) - correction
        if count < 1:
            raise ShapeError(f"var: {self!r} has too few elements for correction={correction}")
        apart = self - self.mean(dim, True)
        return self.graph.apply("div", (apart * apart).sum(dim, keepdim), count)

    def std(self, dim: Dims = None, correction: int = 1, keepdim: bool = False) -> Value:
        """Root of the variance, see var()."""
        return self.var(dim, correction, keepdim).sqrt()

    # ---- types ----

    def to(self, dtype: str) -> Value:
        """As elements of another type; floats lose what is behind the point.

        Parameters
        ----------
        dtype : {"float32", "int64", "int32", "bool"}

        Raises
        ------
        ArgumentError
            Another dtype.

        Examples
        --------
        >>> import clcnn
        >>> clcnn.Graph().input("x", (2, 3)).to("int64").dtype
        'int64'
        """
        return self if dtype == self.dtype else self.graph.apply("cast", self, to=dtype)

    def float(self) -> Value:
        """As float32."""
        return self.to("float32")

    def long(self) -> Value:
        """As int64."""
        return self.to("int64")

    # ---- inside ----

    def _axis(self, dim: Any) -> Any:
        at = _arguments.whole(dim, "dim")
        if not -self.ndim <= at < self.ndim:
            raise ShapeError(f"dim {at} is outside of {self!r}")
        return at % self.ndim

    def _axes(self, dim: Any) -> Any:
        if dim is None:
            return list(range(self.ndim))
        axes = [self._axis(d) for d in (dim if isinstance(dim, Sequence) else [dim])]
        if len(set(axes)) < len(axes):
            raise ArgumentError(f"dim {dim} names a dimension of {self!r} twice")
        return axes

    def _reduced(self, op: Any, dim: Any, keepdim: Any) -> Value:
        return self.graph.apply(op, self, axes=self._axes(dim), keepdims=keepdim) if self.shape else self

    def _found(self, op: Any, dim: Any, keepdim: Any) -> Value:
        if dim is None:
            return self.graph.apply(op, self.flatten(), dim=0, keepdims=False)
        return self.graph.apply(op, self, dim=self._axis(dim), keepdims=keepdim)


def _several(given: tuple[Any, ...]) -> list[int]:
    """Sizes or dimensions given one by one, or as one sequence."""
    one = len(given) == 1 and isinstance(given[0], Sequence)
    return [_arguments.whole(n, "sizes and dimensions") for n in (given[0] if one else given)]
