"""Normalisation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, ShapeError, UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import Ints, positive
from clcnn.nn.module import Layer
from clcnn.nn.parameter import Parameter


class _BatchNorm(Layer):
    """y = (x - running_mean) / sqrt(running_var + eps) * weight + bias for each channel (dimension 1). It is
    folded into a convolution before it when a plan is compiled.

    In a trainer's step, unless eval() or freeze() was called, mean and variance are those of the batch, and
    the running ones move towards them by `momentum` (there, as in PyTorch, the variance divides by n - 1).
    Source: Ioffe and Szegedy 2015.

    Parameters
    ----------
    num_features : int
        The number of channels C. weight, bias, running_mean and running_var are [C], float32.
    eps : float
        Added to the variance.
    momentum : float or None
        The weight of a batch in the running statistics. None, an average of all steps, is not offered for
        training.
    affine : bool
        False has neither weight nor bias: 1 and 0.
    track_running_stats : bool
        Has to be True.

    Raises
    ------
    ArgumentError
        Where num_features is no int of at least 1.
    ShapeError
        When called on x of another rank or of other channels; in training also where a channel has one value.
    UnsupportedError
        For track_running_stats=False; in training for momentum=None.
    """

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
            return self._train(x, weight, bias)
        return ops.batch_norm(x, weight, bias, mean, var, eps=self.eps, name=self.layer_name)

    def _train(self, x: Any, weight: Any, bias: Any) -> Any:
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
        x.graph.follow(self.running_mean, batch_mean, m)
        x.graph.follow(self.running_var, batch_var, m, factor=n / (n - 1))
        return y

    def extra_repr(self) -> str:
        return f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}"


class BatchNorm1d(_BatchNorm):
    """Normalises the channels of a batch of vectors or sequences: x [N, C] or [N, C, W] -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.BatchNorm1d(2), (1, 2))([[1, 2]]).round(2))
    [[1. 2.]]
    >>> list(nn.BatchNorm1d(2).state_dict())
    ['weight', 'bias', 'running_mean', 'running_var']
    """

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises the channels of a batch of images: x [N, C, H, W] -> the same shape.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.BatchNorm2d(16).running_mean.shape
    (16,)
    >>> nn.Sequential(nn.Conv2d(3, 16, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU())[1]
    BatchNorm2d(16, eps=1e-05, momentum=0.1, affine=True)
    """

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises the channels of a batch of volumes: x [N, C, D, H, W] -> the same shape.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.BatchNorm3d(16).running_mean.shape
    (16,)
    """

    _ranks = (5,)


class LocalResponseNorm(Layer):
    """Divides by the size of neighbouring channels: x [N, C, ...] -> the same shape.

    y = x / (k + alpha / size * sum of x^2 over `size` neighbouring channels)^beta. Source: Krizhevsky
    et al. 2012, section 3.3, with PyTorch's alpha / size in the place of alpha.

    Parameters
    ----------
    size : int
        How many channels are summed, the one itself among them.
    alpha, beta, k : float
        The constants of the formula.

    Raises
    ------
    ArgumentError
        Where size is no int of at least 1.
    ShapeError
        When called on x without a channel dimension.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.LocalResponseNorm(1, 3.0, 0.5), (1, 2, 1))([[[0], [1]]]).ravel().round(2))
    [0.  0.5]
    """

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
    """Normalises groups of channels of each item: x [N, C, ...] -> the same shape.

    y = (x - mean) / sqrt(variance + eps) * weight + bias. Mean and variance are those of each group of
    C / num_groups channels, in training as well; the variance divides by the number of elements. Source: Wu
    and He 2018.

    Parameters
    ----------
    num_groups : int
        Divides num_channels.
    num_channels : int
        The number of channels C. weight and bias are [C], float32.
    eps : float
        Added to the variance.
    affine : bool
        False has neither weight nor bias: 1 and 0.

    Raises
    ------
    ArgumentError
        For numbers below 1, and where num_groups does not divide num_channels.
    ShapeError
        When called on x of other channels.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.GroupNorm(2, 4), (1, 4, 1))([[[1], [3], [10], [20]]]).ravel().round(2))
    [-1.  1. -1.  1.]
    """

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
    """y = (x - mean) / sqrt(variance + eps), with affine also * weight + bias. Mean and variance are those of
    each channel of each item, in training as well; the variance divides by the number of elements. Source:
    Ulyanov et al. 2016.

    Parameters
    ----------
    num_features : int
        The number of channels C.
    eps : float
        Added to the variance.
    momentum : float or None
        Accepted for compatibility, changes nothing.
    affine : bool
        True has weight and bias, [C], float32.
    track_running_stats : bool
        Has to be False.

    Raises
    ------
    ArgumentError
        Where num_features is no int of at least 1.
    ShapeError
        When called on x of another rank or of other channels.
    UnsupportedError
        For track_running_stats=True.
    """

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
    """Normalises each channel of each sequence: x [N, C, W] -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.InstanceNorm1d(1), (1, 1, 4))([[[1, 1, 3, 3]]]).round(2))
    [[[-1. -1.  1.  1.]]]
    """

    _rank = 3


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image: x [N, C, H, W] -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.InstanceNorm2d(1), (1, 1, 2, 2))([[[[1, 1], [3, 3]]]])[0, 0].round(2))
    [[-1. -1.]
     [ 1.  1.]]
    >>> nn.InstanceNorm2d(8, affine=True).weight.shape
    (8,)
    """

    _rank = 4


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each volume: x [N, C, D, H, W] -> the same shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.InstanceNorm3d(1), (1, 1, 1, 2, 2))([[[[[1, 1], [3, 3]]]]])[0, 0].round(2))
    [[[-1. -1.]
      [ 1.  1.]]]
    >>> nn.InstanceNorm3d(8, affine=True).weight.shape
    (8,)
    """

    _rank = 5


class _OverLast(Layer):
    # A norm over the last dimensions, which have normalized_shape.

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
    """Normalises over the last dimensions: x [..., *normalized_shape] -> the same shape.

    y = (x - mean) / sqrt(variance + eps) * weight + bias, where the variance divides by the number of
    elements. Source: Ba et al. 2016.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last dimensions, and the shape of weight and bias (float32). One int: the last one.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        False has neither weight nor bias: 1 and 0.
    bias : bool
        False has no bias.

    Raises
    ------
    ArgumentError
        Where a size is no int of at least 1.
    ShapeError
        When called on x that does not end in normalized_shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.LayerNorm(4), (1, 4))([[1, 1, 3, 3]]).round(2))
    [[-1. -1.  1.  1.]]
    >>> nn.LayerNorm((2, 3)).weight.shape
    (2, 3)
    """

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
    """Divides by the root mean square over the last dimensions: x [..., *normalized_shape] -> the same shape.

    y = x / sqrt(mean(x^2) + eps) * weight. Source: Zhang and Sennrich 2019.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of the last dimensions, and the shape of weight (float32). One int: the last dimension.
    eps : float or None
        Added to the mean square. None: float32's 1.19e-7.
    elementwise_affine : bool
        False has no weight: 1.

    Raises
    ------
    ArgumentError
        Where a size is no int of at least 1.
    ShapeError
        When called on x that does not end in normalized_shape.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> print(clcnn.compile(nn.RMSNorm(4), (1, 4))([[3, 3, 4, 4]]).round(2))
    [[0.85 0.85 1.13 1.13]]
    """

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
