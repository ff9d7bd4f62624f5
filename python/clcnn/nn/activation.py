"""Activations. Each adds one element-wise operator; producers take them into their epilogues when a plan is
compiled. `inplace` is accepted for compatibility and means nothing: the planner owns the memory."""

from __future__ import annotations

from typing import Any

from clcnn import _arguments, ops
from clcnn.nn import init
from clcnn.nn._args import positive
from clcnn.nn.module import Module, Parameter


class _Activation(Module):
    """One unary operator `_op` with the attributes in `_attrs` (name of the operator's attribute -> own
    attribute)."""

    _op: str
    _attrs: dict[str, str] = {}

    def forward(self, x: Any) -> Any:
        attrs = {theirs: getattr(self, mine) for theirs, mine in self._attrs.items()}
        return getattr(ops, self._op)(x, name=self.layer_name, **attrs)

    def extra_repr(self) -> str:
        return ", ".join(f"{mine}={getattr(self, mine)!r}" for mine in self._attrs.values())


class _InplaceActivation(_Activation):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


class ReLU(_InplaceActivation):
    """max(x, 0)."""

    _op = "relu"


class ReLU6(_InplaceActivation):
    """min(max(x, 0), 6)."""

    _op = "relu6"


class SiLU(_InplaceActivation):
    """x * sigmoid(x), also called swish."""

    _op = "silu"


class Hardswish(_InplaceActivation):
    """x * clip(x / 6 + 1/2, 0, 1)."""

    _op = "hard_swish"


class Hardsigmoid(_InplaceActivation):
    """clip(x / 6 + 1/2, 0, 1)."""

    _op = "hard_sigmoid"


class Sigmoid(_Activation):
    """1 / (1 + exp(-x))."""

    _op = "sigmoid"


class Tanh(_Activation):
    """tanh(x)."""

    _op = "tanh"


class LeakyReLU(_Activation):
    """x where x >= 0, negative_slope * x elsewhere."""

    _op = "leaky_relu"
    _attrs = {"negative_slope": "negative_slope"}

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = float(negative_slope)


class ELU(_Activation):
    """x where x >= 0, alpha * (exp(x) - 1) elsewhere."""

    _op = "elu"
    _attrs = {"alpha": "alpha"}

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = float(alpha)


class GELU(_Activation):
    """x * Phi(x); approximate="tanh" uses the tanh formula."""

    _op = "gelu"
    _attrs = {"approximate": "approximate"}

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate


class Hardtanh(_Activation):
    """x clipped to [min_val, max_val]."""

    _op = "clip"
    _attrs = {"min": "min_val", "max": "max_val"}

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = float(min_val)
        self.max_val = float(max_val)


class Softmax(_Activation):
    """exp(x) / sum(exp(x)) along `dim`."""

    _op = "softmax"
    _attrs = {"dim": "dim"}

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = _arguments.whole(dim, f"{type(self).__name__}: dim")


class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`."""

    _op = "log_softmax"


class PReLU(Module):
    """x where x >= 0, weight * x elsewhere; weight [num_parameters] per channel (dim 1), or one for all."""

    def __init__(self, num_parameters: int = 1, init_value: float = 0.25, **kwargs: Any) -> None:
        super().__init__()
        if "init" in kwargs:  # torch's name for the start value
            init_value = kwargs.pop("init")
        if kwargs:
            raise TypeError(f"PReLU: unexpected arguments {sorted(kwargs)}")
        self.num_parameters = positive("PReLU", "num_parameters", num_parameters)
        self.weight = Parameter((num_parameters,), init.constant(float(init_value)))

    def forward(self, x: Any) -> Any:
        return ops.prelu(x, self.constant(x.graph, "weight"), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"
