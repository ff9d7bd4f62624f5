"""The dimensions of a symbolic value, by numbers that may count from the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clcnn import _arguments
from clcnn.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    from clcnn.graph import Graph

Dims = int | Sequence[int] | None


class Dimensions:
    """What methods that work along dimensions ask of a value."""

    __slots__ = ()

    if TYPE_CHECKING:
        graph: Graph
        shape: tuple[int, ...]
        dtype: str

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

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
