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
        """|x|."""
        return self.graph.apply("abs", self)

    def exp(self) -> Value:
        """e to the power of x."""
        return self.graph.apply("exp", self)

    def log(self) -> Value:
        """Natural logarithm."""
        return self.graph.apply("log", self)

    def sqrt(self) -> Value:
        """Square root."""
        return self.graph.apply("sqrt", self)

    def rsqrt(self) -> Value:
        """1 over the square root."""
        return self.graph.apply("reciprocal", self.sqrt())

    def square(self) -> Value:
        """x * x."""
        return self * self

    def pow(self, exponent: Any) -> Value:
        """x ** exponent."""
        return self.__pow__(exponent)

    def clamp(self, min: float | None = None, max: float | None = None) -> Value:
        """Limited to the range from min to max.

        Parameters
        ----------
        min, max : float, optional
            None: no bound on this side.
        """
        return self.graph.apply("clip", self, min=min, max=max)

    clip = clamp

    def relu(self) -> Value:
        """max(x, 0)."""
        return self.graph.apply("relu", self)

    def sigmoid(self) -> Value:
        """1 / (1 + exp(-x))."""
        return self.graph.apply("sigmoid", self)

    def tanh(self) -> Value:
        """tanh(x)."""
        return self.graph.apply("tanh", self)

    def softmax(self, dim: int) -> Value:
        """exp(x) / sum(exp(x)) along dim."""
        return self.graph.apply("softmax", self, dim=dim)

    def log_softmax(self, dim: int) -> Value:
        """log(softmax(x)) along dim."""
        return self.graph.apply("log_softmax", self, dim=dim)

    def matmul(self, other: Any) -> Value:
        """x @ other."""
        return self.__matmul__(other)

    def masked_fill(self, mask: Value, value: float) -> Value:
        """x with `value` wherever a mask is true.

        Parameters
        ----------
        mask : Value of bool
            Broadcast to x.
        value : float
        """
        return self.graph.apply("where", mask, value, self)
