"""SGD, Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clcnn import ops
from clcnn.errors import ArgumentError, UnsupportedError
from clcnn.nn.module import Parameter
from clcnn.optim.optimizer import Optimizer

if TYPE_CHECKING:
    from clcnn.graph import Value


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as torch.optim.SGD.

    With g + weight_decay * p for g: m = momentum * m + g, p = p - lr * m, or with nesterov
    p = p - lr * (g + momentum * m). Source: Sutskever et al. 2013, in PyTorch's form.
    """

    moments = ("momentum",)

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        if dampening:
            raise UnsupportedError("SGD: dampening is not offered")
        super().__init__(params, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=bool(nesterov))

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        self._require("momentum", group["momentum"], lambda x: x >= 0, "0 or more")
        if group["nesterov"] and not group["momentum"]:
            raise ArgumentError("SGD: nesterov needs a momentum above 0")

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        (m,) = moments
        return ops.sgd_update(
            p,
            g,
            m,
            hyper,
            momentum=group["momentum"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            name="update",
        )


class Adam(Optimizer):
    """Adam, as torch.optim.Adam: weight decay is added to the gradient. Source: Kingma and Ba 2015,
    algorithm 1."""

    moments = ("exp_avg", "exp_avg_sq")
    _decoupled = False

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, lr=lr, betas=tuple(betas), eps=eps, weight_decay=weight_decay)

    def _check(self, group: Mapping[str, Any]) -> None:
        super()._check(group)
        if len(group["betas"]) != 2:
            raise ArgumentError(f"{type(self).__name__}: betas must be two numbers, got {group['betas']!r}")
        for i, beta in enumerate(group["betas"]):
            self._require(f"betas[{i}]", beta, lambda x: 0 <= x < 1, "from 0 to below 1")

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        m, v = moments
        return ops.adamw_update(
            p,
            g,
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


class AdamW(Adam):
    """Adam with weight decay by itself, as torch.optim.AdamW: p = p - lr * weight_decay * p before the step.
    Source: Loshchilov and Hutter 2019, algorithm 2."""

    _decoupled = True

    def __init__(
        self,
        params: Iterable[Parameter] | Iterable[Mapping[str, Any]],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)
