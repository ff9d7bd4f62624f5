"""Activations. Each adds one element-wise operator; producers take them into their epilogues when a plan is
compiled. `inplace` is accepted for compatibility and means nothing: the planner owns the memory."""

from __future__ import annotations

from typing import Any

from clcnn import _arguments, ops
from clcnn.errors import ArgumentError, ShapeError, UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import positive
from clcnn.nn.module import Layer, Parameter

SAME_AS_X = 17.0  # from here on log(1 + exp(x)) is x in float32


class _Activation(Layer):
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


class CELU(ELU):
    """max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)."""

    _op = "celu"


class SELU(_InplaceActivation):
    """scale * (x where x > 0, alpha * (exp(x) - 1) elsewhere). Source: Klambauer et al. 2017."""

    _op = "selu"


class Mish(_InplaceActivation):
    """x * tanh(softplus(x)). Source: Misra 2019."""

    _op = "mish"


class Softsign(_Activation):
    """x / (1 + |x|)."""

    _op = "softsign"


class Softplus(Layer):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x > threshold."""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = float(beta), float(threshold)
        if not self.beta > 0:
            raise ArgumentError(f"Softplus: beta={beta!r} must be above 0")

    def forward(self, x: Any) -> Any:
        if self.beta == 1 and self.threshold >= SAME_AS_X:
            return ops.softplus(x, name=self.layer_name)
        y = ops.softplus(x * self.beta) / self.beta
        if self.threshold >= SAME_AS_X:
            return y
        return ops.where(x * self.beta > self.threshold, x, y, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class LogSigmoid(Layer):
    """log(1 / (1 + exp(-x)))."""

    def forward(self, x: Any) -> Any:
        return ops.neg(ops.softplus(-x), name=self.layer_name)


class Tanhshrink(Layer):
    """x - tanh(x)."""

    def forward(self, x: Any) -> Any:
        return ops.sub(x, ops.tanh(x), name=self.layer_name)


class Hardshrink(Layer):
    """x where |x| > lambd, 0 elsewhere."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = float(lambd)
        if not self.lambd >= 0:
            raise ArgumentError(f"{type(self).__name__}: lambd={lambd!r} must be at least 0")

    def forward(self, x: Any) -> Any:
        return ops.shrink(x, lambd=self.lambd, bias=self._bias, name=self.layer_name)

    @property
    def _bias(self) -> float:
        return 0.0

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """x nearer to 0 by lambd, and 0 where |x| <= lambd."""

    @property
    def _bias(self) -> float:
        return self.lambd


class Threshold(Layer):
    """x where x > threshold, `value` elsewhere."""

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value = float(threshold), float(value)

    def forward(self, x: Any) -> Any:
        return ops.where(x > self.threshold, x, self.value, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}"


class RReLU(Layer):
    """x where x >= 0, (lower + upper) / 2 * x elsewhere, as at inference; not offered for training."""

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper = float(lower), float(upper)

    def forward(self, x: Any) -> Any:
        if self.training and x.graph.training:
            raise UnsupportedError(
                f"RReLU {self.layer_name or ''}: random slopes are not offered in training"
            )
        return ops.leaky_relu(x, negative_slope=(self.lower + self.upper) / 2, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}"


class GLU(Layer):
    """a * sigmoid(b), a and b being the halves of x along `dim`. Source: Dauphin et al. 2017."""

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = _arguments.whole(dim, "GLU: dim")

    def forward(self, x: Any) -> Any:
        if x.size(self.dim) % 2:
            raise ShapeError(f"GLU {self.layer_name or ''}: dim {self.dim} of {list(x.shape)} has no halves")
        a, b = x.chunk(2, self.dim)
        return ops.mul(a, ops.sigmoid(b), name=self.layer_name)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


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


class Softmax2d(Softmax):
    """Softmax over the channels of x [N, C, H, W]."""

    def __init__(self) -> None:
        super().__init__(-3)


class Softmin(Softmax):
    """Softmax of -x along `dim`."""

    def forward(self, x: Any) -> Any:
        return super().forward(-x)


class LogSoftmax(Softmax):
    """log(softmax(x)) along `dim`."""

    _op = "log_softmax"


class PReLU(Layer):
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
