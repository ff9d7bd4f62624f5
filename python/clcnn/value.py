"""Value: a symbolic array of a graph, with the operators and the methods of torch's tensors.

Each adds nodes to the graph; nothing is computed before a plan runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clcnn._graph.arithmetic import Arithmetic
from clcnn._graph.reductions import Reductions
from clcnn._graph.shapes import Shapes
from clcnn._index import Indexed
from clcnn.errors import DtypeError

if TYPE_CHECKING:
    from clcnn.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class Value(Shapes, Reductions, Arithmetic):
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

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension.

        Parameters
        ----------
        dim : int, optional
            Counted from the end if negative, as in all methods.

        Returns
        -------
        tuple of int, or int

        Raises
        ------
        ShapeError
            There is no such dimension.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 4))
        >>> x.size(), x.size(-1)
        ((2, 3, 4), 4)
        """
        return self.shape if dim is None else self.shape[self._axis(dim)]

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    # ---- parts ----

    def __getitem__(self, key: Any) -> Value:
        """`[]` as NumPy has it.

        Parameters
        ----------
        key : int, slice, None, `...`, or array or list of ints, or a tuple of these
            Slices may have any step. There may be one array or list.

        Returns
        -------
        Value

        Raises
        ------
        ShapeError
            An index is outside, or a part has no elements.
        ArgumentError
            What else NumPy takes, such as masks.

        Examples
        --------
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (2, 3, 8, 8))
        >>> x[0].shape, x[..., ::-2].shape, x[:, [2, 0]].shape
        ((3, 8, 8), (2, 3, 8, 4), (2, 2, 8, 8))
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

    def contiguous(self) -> Value:
        """The value itself: how values lie in memory is the planner's business."""
        return self

    # ---- types ----

    def to(self, dtype: str) -> Value:
        """As elements of another type; floats are cut towards 0.

        Parameters
        ----------
        dtype : {"float32", "int64", "int32", "bool"}

        Returns
        -------
        Value
            `self` if it is of that type.

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
