"""Normalisation of a net's input: as a step of its own, or folded into the first convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clcnn.errors import ArgumentError

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def normalize(
    tensor: np.ndarray, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> np.ndarray:
    """(x - mean) / std for each channel of [..., C, H, W], as torchvision's `Normalize`.

    Parameters
    ----------
    tensor : float32 array [..., C, H, W]
        As of `to_tensor`: values from 0 to 1. float64 is computed and returned as such.
    mean, std : sequence of float
        A value a channel, rounded to float32. Default those of ImageNet.

    Returns
    -------
    float32 array [..., C, H, W]

    Raises
    ------
    ArgumentError
        There is not one mean and one non-zero std for each channel.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.normalize(np.ones((1, 1, 2), np.float32), [0.5], [0.25]).tolist()
    [[[2.0, 2.0]]]
    """
    shift, scale = (np.asarray(values, np.float32).reshape(-1, 1, 1) for values in (mean, std))
    if tensor.ndim < 3 or not len(shift) == len(scale) == tensor.shape[-3] or not np.all(scale):
        raise ArgumentError(
            f"{tensor.shape} needs a mean and a non-zero std for each channel, got {mean} and {std}"
        )
    return (tensor - shift) / scale


class FoldedConv(NamedTuple):
    """A first convolution that takes unnormalised input, as `fold_normalization` gives it.

    Parameters
    ----------
    weight : array [K, C, ...]
    bias : array [K]
    pad_value : array [C]
        What to pad the input with, by channel, where the convolution pads: see `pad_channels`.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.fold_normalization(np.ones((8, 3, 3, 3), np.float32), None).bias.shape
    (8,)
    """

    weight: np.ndarray
    bias: np.ndarray
    pad_value: np.ndarray


def fold_normalization(
    weight: np.ndarray,
    bias: np.ndarray | None,
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    scale: float = 1 / 255,
) -> FoldedConv:
    """Absorb y = (x * scale - mean) / std into the convolution that follows it.

    conv(y, weight, bias) == conv(x, folded.weight, folded.bias) wherever the window lies inside of the image.
    Zeros with which the convolution pads y stand for x = mean / scale, not for x = 0. So with padding the
    fold is exact only when x is padded with `pad_value` = mean / scale by channel, and the convolution pads
    nothing:

        padded = pad_channels(x, p, folded.pad_value)
        conv(y, weight, bias, padding=p) == conv(padded, folded.weight, folded.bias)

    Padding x with zeros instead changes the outputs whose window crosses the border.

    Parameters
    ----------
    weight : array [K, C, ...]
        With one input channel for each mean.
    bias : array [K], or None
    mean, std : sequence of float
        A value a channel. Default those of ImageNet.
    scale : float
        1/255 for x in 0..255, so that bytes can be fed; 1 for x in 0..1. Default 1/255.

    Returns
    -------
    FoldedConv
        weight [K, C, ...], bias [K] and pad_value [C], computed in float64, in weight's dtype.

    Raises
    ------
    ArgumentError
        There is not one mean and one non-zero std for each input channel, scale is 0, or bias has another
        length.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> folded = clcnn.image.fold_normalization(np.ones((1, 1, 1, 1)), None, [0.5], [0.25], scale=1)
    >>> folded.weight.item(), folded.bias.item(), folded.pad_value.item()  # (x - 0.5) / 0.25 = 4 x - 2
    (4.0, -2.0, 0.5)
    """
    shift, spread = np.asarray(mean, np.float64), np.asarray(std, np.float64)
    if (
        weight.ndim < 2
        or not shift.shape == spread.shape == (weight.shape[1],)
        or not scale
        or not np.all(spread)
    ):
        raise ArgumentError(
            f"weight {weight.shape} needs a mean and a non-zero std for each of its input channels"
        )
    if bias is not None and np.shape(bias) != (len(weight),):
        raise ArgumentError(f"weight {weight.shape} needs a bias of {len(weight)}, not of {np.shape(bias)}")
    by_channel = (1, -1) + (1,) * (weight.ndim - 2)
    wide = weight.astype(np.float64) / spread.reshape(by_channel)
    offset = (wide * shift.reshape(by_channel)).reshape(len(weight), -1).sum(axis=1)
    new_bias = (0 if bias is None else np.asarray(bias, np.float64)) - offset
    return FoldedConv(
        (wide * scale).astype(weight.dtype),
        new_bias.astype(weight.dtype),
        (shift / scale).astype(weight.dtype),
    )


def pad_channels(
    x: np.ndarray, padding: int | Sequence[int], value: Sequence[float] | np.ndarray
) -> np.ndarray:
    """Pad the spatial axes of [N, C, *spatial] with a value for each channel.

    Parameters
    ----------
    x : array [N, C, *spatial]
    padding : int or sequence of int
        One int, one for each spatial axis, or begins then ends, as the convolution's.
    value : array or sequence of float, [C]
        As `FoldedConv.pad_value`.

    Returns
    -------
    array [N, C, *padded]
        In the common dtype of x and value.

    Raises
    ------
    ArgumentError
        padding or value does not fit x, or padding is negative.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.pad_channels(np.zeros((1, 1, 1, 2)), (1, 0), [7])[0, 0].tolist()
    [[7.0, 7.0], [0.0, 0.0], [7.0, 7.0]]
    """
    axes = x.ndim - 2
    amounts = (padding,) * axes if isinstance(padding, int) else tuple(padding)
    begins, ends = (amounts, amounts) if len(amounts) == axes else (amounts[:axes], amounts[axes:])
    fill = np.asarray(value)
    if len(ends) != axes or fill.shape != (x.shape[1],) or min(amounts, default=0) < 0:
        raise ArgumentError(f"padding {padding!r} with {fill.shape} values does not fit {x.shape}")
    spatial = [begin + n + end for begin, n, end in zip(begins, x.shape[2:], ends, strict=True)]
    result = np.empty((*x.shape[:2], *spatial), np.result_type(x, fill))
    result[...] = fill.reshape(1, -1, *(1,) * axes)
    inside = tuple(slice(begin, begin + n) for begin, n in zip(begins, x.shape[2:], strict=True))
    result[(slice(None), slice(None), *inside)] = x
    return result
