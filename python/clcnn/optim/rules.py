"""SGD, Adam, AdamW and RMSprop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clcnn import ops
from clcnn.errors import ArgumentError
from clcnn.nn.parameter import Parameter
from clcnn.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from clcnn.graph import Value

HYPER = 3  # numbers that every rule gets: learning rate, step, momentum


def _signed(group: Mapping[str, Any], g: Value) -> Value:
    """The gradient of what becomes smaller."""
    return -g if group["maximize"] else g


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as torch.optim.SGD.

    With d = g + weight_decay * p: m = momentum * m + (1 - dampening) * d, where the first step leaves
    dampening out, and p = p - lr * m; with nesterov, p = p - lr * (d + momentum * m). Source: Sutskever et
    al. 2013, in PyTorch's form.

    Parameters
    ----------
    params : iterable of Parameter, or of dict
        Parameters, or a dict for each group of them, see Optimizer.
    lr : float
        Learning rate, 0 or more.
    momentum : float
        Share of m that is kept, 0 or more.
    dampening : float
        Share of the gradient that m does without.
    weight_decay : float
        L2 penalty, 0 or more.
    nesterov : bool
        Needs a momentum above 0 and no dampening.
    maximize : bool
        True takes g with the other sign.

    Raises
    ------
    ArgumentError
        As Optimizer, and for nesterov without momentum or with dampening.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> optim.SGD(nn.Linear(4, 2).parameters(), lr=0.1, momentum=0.9).param_groups[0]["momentum"]
    0.9
    """

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=bool(nesterov),
            maximize=bool(maximize),
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        self._require("momentum", group["momentum"], lambda x: x >= 0, "0 or more")
        self._require("dampening", group["dampening"], lambda x: True, "a number")
        if group["nesterov"] and (not group["momentum"] or group["dampening"]):
            raise ArgumentError("SGD: nesterov needs a momentum above 0 and no dampening")

    def moments(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("momentum",)

    def hyper(self, group: Mapping[str, Any], step: int) -> tuple[float, ...]:
        common = super().hyper(group, step)
        if not group["dampening"]:
            return common
        damped = step > 1 and group["momentum"]
        return *common, 1.0 - group["dampening"] if damped else 1.0

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        (m,) = moments
        d, decay = _signed(group, g), group["weight_decay"]
        if group["dampening"]:
            d = (d + p * decay if decay else d) * _number(hyper, HYPER)
            hyper, decay = ops.slice(hyper, starts=[0], ends=[HYPER], axes=[0]), 0.0
        return ops.sgd_update(
            p,
            d,
            m,
            hyper,
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            weight_decay=decay,
            name="update",
        )


class Adam(Optimizer):
    """Adam, as torch.optim.Adam: weight decay is added to the gradient.

    With d = g + weight_decay * p, in step t: m = beta1 * m + (1 - beta1) * d,
    v = beta2 * v + (1 - beta2) * d^2, and
    p = p - lr * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps). Source: Kingma and Ba 2015, algorithm 1.

    Parameters
    ----------
    params : iterable of Parameter, or of dict
        Parameters, or a dict for each group of them, see Optimizer.
    lr : float
        Learning rate, 0 or more.
    betas : pair of float
        Shares of m and v that are kept, each from 0 to below 1.
    eps : float
        Added to the root, 0 or more.
    weight_decay : float
        L2 penalty, 0 or more.
    amsgrad : bool
        True takes the largest v so far in place of v (Reddi, Kale and Kumar 2018, algorithm 2).
    maximize : bool
        True takes g with the other sign.

    Raises
    ------
    ArgumentError
        As Optimizer, and for betas that are not two.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> optim.Adam(nn.Linear(4, 2).parameters()).param_groups[0]["lr"]
    0.001
    """

    _decoupled = False

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            betas=tuple(betas),
            eps=eps,
            weight_decay=weight_decay,
            amsgrad=bool(amsgrad),
            maximize=bool(maximize),
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        if len(group["betas"]) != 2:
            raise ArgumentError(f"{type(self).__name__}: betas must be two numbers, got {group['betas']!r}")
        for i, beta in enumerate(group["betas"]):
            self._require(f"betas[{i}]", beta, lambda x: 0 <= x < 1, "from 0 to below 1")

    def moments(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))

    def hyper(self, group: Mapping[str, Any], step: int) -> tuple[float, ...]:
        common = super().hyper(group, step)
        if not group["amsgrad"]:
            return common
        first, second = (1.0 - beta**step for beta in group["betas"])
        return *common, common[0] / first, second**-0.5

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        if group["amsgrad"]:
            return self._amsgrad(group, p, _signed(group, g), moments, hyper)
        m, v = moments
        return ops.adamw_update(
            p,
            _signed(group, g),
            m,
            v,
            hyper,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            epsilon=group["eps"],
            weight_decay=group["weight_decay"],
            decoupled=self._decoupled,
            name="update",
        )

    def _amsgrad(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        m, v, most = moments
        decay, first, second = group["weight_decay"], _number(hyper, 2), group["betas"][1]
        if decay and not self._decoupled:
            g = g + p * decay
        if decay and self._decoupled:
            p = p - p * (_number(hyper, 0) * decay)
        m = m * first + g * (1.0 - first)
        v = v * second + g * g * (1.0 - second)
        most = ops.maximum(most, v)
        step = m / (ops.sqrt(most) * _number(hyper, HYPER + 1) + group["eps"])
        return p - step * _number(hyper, HYPER), m, v, most


class AdamW(Adam):
    """AdamW, as torch.optim.AdamW: weight decay is apart from the gradient.

    As Adam with d = g, and before it p = p * (1 - lr * weight_decay). Source: Loshchilov and Hutter 2019,
    algorithm 2.

    Parameters
    ----------
    params, lr, betas, eps, amsgrad, maximize
        As for Adam.
    weight_decay : float
        Share of p that goes in a step, times lr; 0 or more.

    Raises
    ------
    ArgumentError
        As Adam.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> optim.AdamW(nn.Linear(4, 2).parameters(), lr=2e-3).param_groups[0]["weight_decay"]
    0.01
    """

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """The gradient over the root of its mean square, as torch.optim.RMSprop.

    With d = g + weight_decay * p: v = alpha * v + (1 - alpha) * d^2, and p = p - lr * d / (sqrt(v) + eps).
    Source: Tieleman and Hinton 2012, lecture 6.5; centered: Graves 2013, section 4.2.

    Parameters
    ----------
    params : iterable of Parameter, or of dict
        Parameters, or a dict for each group of them, see Optimizer.
    lr : float
        Learning rate, 0 or more.
    alpha : float
        Share of v that is kept, from 0 to 1.
    eps : float
        Added to the root, 0 or more.
    weight_decay : float
        L2 penalty, 0 or more.
    momentum : float
        Share of the last move that is added to the next one, 0 or more.
    centered : bool
        True takes v less the square of the mean gradient, which is kept likewise.
    maximize : bool
        True takes g with the other sign.

    Raises
    ------
    ArgumentError
        As Optimizer.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> optim.RMSprop(nn.Linear(4, 2).parameters()).param_groups[0]["alpha"]
    0.99
    """

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            lr=lr,
            alpha=alpha,
            eps=eps,
            weight_decay=weight_decay,
            momentum=momentum,
            centered=bool(centered),
            maximize=bool(maximize),
        )

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        self._require("alpha", group["alpha"], lambda x: 0 <= x <= 1, "from 0 to 1")
        self._require("momentum", group["momentum"], lambda x: x >= 0, "0 or more")

    def moments(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        mean = ("grad_avg",) if group["centered"] else ()
        moving = ("momentum",) if group["momentum"] or "momentum" in self.varied else ()
        return ("square_avg", *mean, *moving)

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        old = dict(zip(self.moments(group), moments, strict=True))
        alpha, decay, d = group["alpha"], group["weight_decay"], _signed(group, g)
        d = d + p * decay if decay else d
        new = {"square_avg": old["square_avg"] * alpha + d * d * (1.0 - alpha)}
        square = new["square_avg"]
        if group["centered"]:
            mean = new["grad_avg"] = old["grad_avg"] * alpha + d * (1.0 - alpha)
            square = ops.maximum(square - mean * mean, 0.0)
        move = d / (ops.sqrt(square) + group["eps"])
        if "momentum" in old:
            move = new["momentum"] = old["momentum"] * _number(hyper, 2) + move
        return p - move * _number(hyper, 0), *(new[name] for name in old)


def _number(hyper: Value, at: int) -> Value:
    """One of the numbers of a step."""
    return ops.slice(hyper, starts=[at], ends=[at + 1], axes=[0])
