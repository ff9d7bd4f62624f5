"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ShapeError, UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import positive
from clcnn.nn.module import Module, Parameter


class _BatchNorm(Module):
    """(x - running_mean) / sqrt(running_var + eps) * weight + bias per channel (dim 1); folded into a
    convolution before it when a plan is compiled. In a training step, unless eval() was called: mean and
    variance are those of the batch, and the running ones move towards them by `momentum` (the variance with
    n - 1, as PyTorch's). Source: Ioffe and Szegedy 2015."""

    _ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.num_features = positive(type(self).__name__, "num_features", num_features)
        self.eps = float(eps)
        self.momentum = momentum
        self.affine = bool(affine)
        shape = (num_features,)
        if not track_running_stats:
            raise UnsupportedError(
                f"{type(self).__name__}: track_running_stats=False needs batch statistics at inference"
            )
        if affine:
            self.weight = Parameter(shape, init.ones)
            self.bias = Parameter(shape, init.zeros)
        self.register_buffer("running_mean", Parameter(shape, init.zeros))
        self.register_buffer("running_var", Parameter(shape, init.ones))

    def forward(self, x: Any) -> Any:
        if len(x.shape) not in self._ranks:
            raise ShapeError(
                f"{type(self).__name__} {self.layer_name or ''}: input {list(x.shape)} must have rank "
                + " or ".join(map(str, self._ranks))
            )
        mean, var = self.constant(x.graph, "running_mean"), self.constant(x.graph, "running_var")
        if self.affine:
            weight, bias = self.constant(x.graph, "weight"), self.constant(x.graph, "bias")
        else:
            weight = x.graph.constant(np.ones(self.num_features, np.float32))
            bias = x.graph.constant(np.zeros(self.num_features, np.float32))
        if self.training and not self.frozen and x.graph.training:
            return self._train(x, weight, bias, mean, var)
        return ops.batch_norm(x, weight, bias, mean, var, eps=self.eps, name=self.layer_name)

    def _train(self, x: Any, weight: Any, bias: Any, mean: Any, var: Any) -> Any:
        name = f"{type(self).__name__} {self.layer_name or ''}".rstrip()
        n = math.prod(x.shape) // x.shape[1]
        if n == 1:
            raise ShapeError(f"{name}: input {list(x.shape)} has one value a channel, which has no variance")
        if self.momentum is None:
            raise UnsupportedError(
                f"{name}: momentum=None, an average over all steps, is not offered for training"
            )
        m = float(self.momentum)
        y, batch_mean, batch_var = ops.batch_norm_train(x, weight, bias, eps=self.eps, name=self.layer_name)
        x.graph.update(self.running_mean, mean * (1 - m) + batch_mean * m)
        x.graph.update(self.running_var, var * (1 - m) + batch_var * (m * n / (n - 1)))
        return y

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class BatchNorm1d(_BatchNorm):
    """x [N, C] or [N, C, W]."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """x [N, C, H, W]."""

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """x [N, C, D, H, W]."""

    _ranks = (5,)


class LocalResponseNorm(Module):
    """x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al. 2012,
    section 3.3, with PyTorch's alpha / size)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = positive("LocalResponseNorm", "size", size)
        self.alpha, self.beta, self.k = float(alpha), float(beta), float(k)

    def forward(self, x: Any) -> Any:
        return ops.local_response_norm(
            x, size=self.size, alpha=self.alpha, beta=self.beta, k=self.k, name=self.layer_name
        )

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
