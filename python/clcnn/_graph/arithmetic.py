"""The operators of Python on symbolic values, and functions element by element; they add nodes to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clcnn.graph import Graph
    from clcnn.value import Value


class Arithmetic:
    """What `+ - * / // % ** @`, comparisons, `& | ^ ~` and functions element by element make of a value."""

    __slots__ = ()

    if TYPE_CHECKING:
        graph: Graph
        dtype: str

    # ---- arithmetic ----

    def __add__(self, other: Any) -> Value:
        return self.graph.apply("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self.graph.apply("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self.graph.apply("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.graph.apply("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.graph.apply("mul", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self.graph.apply("mul", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self.graph.apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.graph.apply("div", other, self)

    def __floordiv__(self, other: Any) -> Value:
        if self.dtype == "float32":
            return self.graph.apply("floor", self / other)
        return self.graph.apply("div", self - self.graph.apply("mod", self, other), other)

    def __mod__(self, other: Any) -> Value:
        return self.graph.apply("mod", self, other)

    def __rmod__(self, other: Any) -> Value:
        return self.graph.apply("mod", other, self)

    def __pow__(self, other: Any) -> Value:
        return self.graph.apply("pow", self, other)

    def __rpow__(self, other: Any) -> Value:
        return self.graph.apply("pow", other, self)

    def __matmul__(self, other: Any) -> Value:
        return self.graph.apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return self.graph.apply("matmul", other, self)

    def __neg__(self) -> Value:
        return self.graph.apply("neg", self)

    def __abs__(self) -> Value:
        return self.graph.apply("abs", self)

    # ---- comparisons and logic ----

    def __eq__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            return NotImplemented
        return self.graph.apply("equal", self, other)

    def __ne__(self, other: object) -> Any:
        if other is None or isinstance(other, (str, bytes)):
            return NotImplemented
        return self.graph.apply("logical_not", self.graph.apply("equal", self, other))

    def __lt__(self, other: Any) -> Value:
        return self.graph.apply("less", self, other)

    def __le__(self, other: Any) -> Value:
        return self.graph.apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Value:
        return self.graph.apply("greater", self, other)

    def __ge__(self, other: Any) -> Value:
        return self.graph.apply("greater_equal", self, other)

    def __and__(self, other: Any) -> Value:
        return self.graph.apply("logical_and", self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Value:
        return self.graph.apply("logical_or", self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Value:
        return self.graph.apply("logical_xor", self, other)

    __rxor__ = __xor__

    def __invert__(self) -> Value:
        return self.graph.apply("logical_not", self)

    # ---- element by element ----

    def abs(self) -> Value:
        """|x| of each element.

        Returns
        -------
        Value
            Of x's shape and dtype: float32, int64 or int32.
        """
        return self.graph.apply("abs", self)

    def exp(self) -> Value:
        """e to the power of each element.

        Returns
        -------
        Value
            float32 of x's shape.

        Raises
        ------
        DtypeError
            x is not float32, as in log(), sqrt(), relu() and the like: see Value.float().

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (2,)).exp())
        >>> clcnn.compile(g)(np.array([0.0, -np.inf], np.float32)).tolist()
        [1.0, 0.0]
        """
        return self.graph.apply("exp", self)

    def log(self) -> Value:
        """Natural logarithm of each element: -inf for 0, NaN below.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("log", self)

    def sqrt(self) -> Value:
        """Square root of each element: NaN below 0.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("sqrt", self)

    def rsqrt(self) -> Value:
        """1 / sqrt(x) of each element: inf for 0, NaN below.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("reciprocal", self.sqrt())

    def square(self) -> Value:
        """x * x of each element.

        Returns
        -------
        Value
            Of x's shape and dtype: float32, int64 or int32.
        """
        return self * self

    def pow(self, exponent: Any) -> Value:
        """x ** exponent, broadcast as NumPy does.

        Parameters
        ----------
        exponent : Value, array or number
            Of x's dtype.

        Returns
        -------
        Value
            float32, int64 or int32, as x. Integers to negative powers are cut towards 0.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (3,)).pow(2))
        >>> clcnn.compile(g)(np.array([1.0, 2.0, 3.0], np.float32)).tolist()
        [1.0, 4.0, 9.0]
        """
        return self.__pow__(exponent)

    def clamp(self, min: float | None = None, max: float | None = None) -> Value:
        """Elements limited to the range from min to max. clip() is the same.

        Parameters
        ----------
        min, max : float, optional
            None: no bound on this side. Where min > max, all become max.

        Returns
        -------
        Value
            float32 of x's shape.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (3,)).clamp(0, 1))
        >>> clcnn.compile(g)(np.array([-2.0, 0.5, 2.0], np.float32)).tolist()
        [0.0, 0.5, 1.0]
        """
        return self.graph.apply("clip", self, min=min, max=max)

    clip = clamp

    def relu(self) -> Value:
        """max(x, 0) of each element.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("relu", self)

    def sigmoid(self) -> Value:
        """1 / (1 + exp(-x)) of each element.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("sigmoid", self)

    def tanh(self) -> Value:
        """Hyperbolic tangent of each element.

        Returns
        -------
        Value
            float32 of x's shape.
        """
        return self.graph.apply("tanh", self)

    def softmax(self, dim: int) -> Value:
        """exp(x) / sum(exp(x)) along one dimension, the maximum subtracted first.

        Parameters
        ----------
        dim : int
            Counted from the end if negative.

        Returns
        -------
        Value
            float32 of x's shape; sums along dim are 1.

        Raises
        ------
        ArgumentError
            There is no such dimension.
        DtypeError
            x is not float32.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (1, 4)).softmax(1))
        >>> clcnn.compile(g)(np.zeros((1, 4), np.float32)).tolist()
        [[0.25, 0.25, 0.25, 0.25]]
        """
        return self.graph.apply("softmax", self, dim=dim)

    def log_softmax(self, dim: int) -> Value:
        """log(softmax(x)) along one dimension: x - max - log(sum(exp(x - max))).

        Parameters
        ----------
        dim : int
            Counted from the end if negative.

        Returns
        -------
        Value
            float32 of x's shape.

        Raises
        ------
        ArgumentError
            There is no such dimension.
        DtypeError
            x is not float32.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> g.output(g.input("x", (1, 1)).log_softmax(1))
        >>> clcnn.compile(g)(np.ones((1, 1), np.float32)).tolist()
        [[0.0]]
        """
        return self.graph.apply("log_softmax", self, dim=dim)

    def matmul(self, other: Any) -> Value:
        """x @ other: the matrix product by numpy.matmul's rules, which broadcast leading dimensions.

        Parameters
        ----------
        other : Value or array
            [..., K, N] for an x of [..., M, K]; one dimension is a vector.

        Returns
        -------
        Value
            float32 [..., M, N].

        Raises
        ------
        ShapeError
            The shapes do not fit.
        DtypeError
            One of the two is not float32.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> x = clcnn.Graph().input("x", (8, 2, 3))
        >>> x.matmul(np.ones((3, 4), np.float32)).shape
        (8, 2, 4)
        """
        return self.__matmul__(other)

    def masked_fill(self, mask: Value, value: float) -> Value:
        """x with one value wherever a mask is true.

        Parameters
        ----------
        mask : Value of bool
            Broadcast to x.
        value : float
            Of x's dtype.

        Returns
        -------
        Value
            Of x's shape and dtype.

        Raises
        ------
        ShapeError, DtypeError
            The mask does not fit, or is not bool.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> g = clcnn.Graph()
        >>> x = g.input("x", (3,))
        >>> g.output(x.masked_fill(x < 0, 9))
        >>> clcnn.compile(g)(np.array([-1.0, 0.0, 1.0], np.float32)).tolist()
        [9.0, 0.0, 1.0]
        """
        return self.graph.apply("where", mask, value, self)
