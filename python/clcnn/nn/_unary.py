"""What activations of one operator share."""

from __future__ import annotations

from typing import Any

from clcnn import ops
from clcnn.nn.module import Layer


class _Activation(Layer):
    # One unary operator `_op` with the attributes in `_attrs` (name of the operator's attribute -> own one).
    _op: str
    _attrs: dict[str, str] = {}

    def forward(self, x: Any) -> Any:
        attrs = {theirs: getattr(self, mine) for theirs, mine in self._attrs.items()}
        return getattr(ops, self._op)(x, name=self.layer_name, **attrs)

    def extra_repr(self) -> str:
        return ", ".join(f"{mine}={getattr(self, mine)!r}" for mine in self._attrs.values())


class _InplaceActivation(_Activation):
    """Works on each element: x float32 of any shape -> the same shape.

    Parameters
    ----------
    inplace : bool
        Accepted for compatibility, changes nothing: the planner owns the memory.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
