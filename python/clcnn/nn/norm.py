"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError, UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import Ints, positive
from clcnn.nn.module import Layer, Parameter


class _BatchNorm(Layer):
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
            raise self.misfit(x, "must have rank " + " or ".join(map(str, self._ranks)))
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
        # as one line of functions, which GPUs compute in one launch
        x.graph.update(self.running_mean, mean + (batch_mean - mean) * m)
        x.graph.update(self.running_var, var + (batch_var * (n / (n - 1)) - var) * m)
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


class LocalResponseNorm(Layer):
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


class GroupNorm(Layer):
    """(x - mean) / sqrt(variance + eps) * weight + bias over groups of channels of each item of x [N, C,
    ...]. Source: Wu and He 2018."""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True) -> None:
        super().__init__()
        self.num_groups = positive("GroupNorm", "num_groups", num_groups)
        self.num_channels = positive("GroupNorm", "num_channels", num_channels)
        if num_channels % num_groups:
            raise ArgumentError(
                f"GroupNorm: num_channels={num_channels} is not divisible by {num_groups} groups"
            )
        self.eps, self.affine = float(eps), bool(affine)
        _add_affine(self, (num_channels,), affine, affine)

    def forward(self, x: Any) -> Any:
        _check_channels(self, x, self.num_channels)
        weight, bias = self.constant(x.graph, "weight"), self.constant(x.graph, "bias")
        return ops.group_norm(x, weight, bias, groups=self.num_groups, eps=self.eps, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


class _InstanceNorm(Layer):
    """(x - mean) / sqrt(variance + eps), and with affine * weight + bias, over each channel of each item.
    Source: Ulyanov et al. 2016."""

    _rank: int

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__()
        self.num_features = positive(type(self).__name__, "num_features", num_features)
        if track_running_stats:
            raise UnsupportedError(f"{type(self).__name__}: track_running_stats=True is not offered")
        self.eps, self.momentum, self.affine = float(eps), momentum, bool(affine)
        _add_affine(self, (num_features,), affine, affine)

    def forward(self, x: Any) -> Any:
        if len(x.shape) != self._rank:
            raise self.misfit(x, f"must have rank {self._rank}")
        _check_channels(self, x, self.num_features)
        weight, bias = self.constant(x.graph, "weight"), self.constant(x.graph, "bias")
        return ops.instance_norm(x, weight, bias, eps=self.eps, name=self.layer_name)

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, affine={self.affine}"


class InstanceNorm1d(_InstanceNorm):
    """x [N, C, W]."""

    _rank = 3


class InstanceNorm2d(_InstanceNorm):
    """x [N, C, H, W]."""

    _rank = 4


class InstanceNorm3d(_InstanceNorm):
    """x [N, C, D, H, W]."""

    _rank = 5


class _OverLast(Layer):
    """A norm over the last dimensions, which have normalized_shape."""

    def __init__(self, normalized_shape: Ints, eps: float, weight: bool, bias: bool) -> None:
        super().__init__()
        sizes = [normalized_shape] if isinstance(normalized_shape, int) else normalized_shape
        owner = type(self).__name__
        self.normalized_shape = tuple(positive(owner, "normalized_shape", n) for n in sizes)
        self.eps, self.elementwise_affine = float(eps), bool(weight)
        _add_affine(self, self.normalized_shape, weight, bias)

    def _check(self, x: Any) -> None:
        shape = self.normalized_shape
        if tuple(x.shape[-len(shape) :]) != shape:
            raise self.misfit(x, f"must end in {list(shape)}")

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LayerNorm(_OverLast):
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, which have
    normalized_shape. Source: Ba et al. 2016."""

    def __init__(
        self, normalized_shape: Ints, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True
    ) -> None:
        super().__init__(normalized_shape, eps, elementwise_affine, elementwise_affine and bias)

    def forward(self, x: Any) -> Any:
        self._check(x)
        weight, bias = self.constant(x.graph, "weight"), self.constant(x.graph, "bias")
        return ops.layer_norm(
            x, weight, bias, dim=-len(self.normalized_shape), eps=self.eps, name=self.layer_name
        )


class RMSNorm(_OverLast):
    """x / sqrt(mean square + eps) * weight over the last dimensions, which have normalized_shape; eps=None is
    float32's 1.19e-7. Source: Zhang and Sennrich 2019."""

    def __init__(
        self, normalized_shape: Ints, eps: float | None = None, elementwise_affine: bool = True
    ) -> None:
        least = float(np.finfo(np.float32).eps)
        super().__init__(normalized_shape, least if eps is None else eps, elementwise_affine, False)

    def forward(self, x: Any) -> Any:
        self._check(x)
        weight = self.constant(x.graph, "weight")
        return ops.rms_norm(x, weight, dim=-len(self.normalized_shape), eps=self.eps, name=self.layer_name)


def _add_affine(module: Layer, shape: tuple[int, ...], weight: bool, bias: bool) -> None:
    """Factors that start as ones and terms that start as zeros, or None."""
    module.register_parameter("weight", Parameter(shape, init.ones) if weight else None)
    module.register_parameter("bias", Parameter(shape, init.zeros) if bias else None)


def _check_channels(module: Layer, x: Any, channels: int) -> None:
    if len(x.shape) < 2 or x.shape[1] != channels:
        raise module.misfit(x, f"must have {channels} channels")
