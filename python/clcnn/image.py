"""Photos to network input: decode, resize, centre crop, scale and normalise, as torchvision's transforms do.

    x = clcnn.image.preprocess(["cat.jpg", "dog.png"])       # float32 [2, 3, 224, 224]

Images are uint8 arrays [H, W, 3] (RGB, row 0 at the top) between the steps. Decoding and resampling are
Pillow's, which torchvision uses for PIL images too. So on the same Pillow, `load`, `resize` (antialias=True
or "nearest") and `center_crop` give the bytes of torchvision's `Resize` and `CenterCrop` on
`Image.open(f).convert("RGB")`, and `preprocess` then gives the floats of `ToTensor` and `Normalize`: they
are the same float32 operations in the same order. Two things differ from `convert("RGB")` on purpose: the
EXIF orientation is applied, and 16-bit greyscale is scaled to 8 bits instead of clipped.

torchvision's *tensor* transforms resample by other code. From theirs on uint8 tensors, antialiased, ours is
at most one grey level (1/255 before normalisation) away with "bilinear" and two with "bicubic". On float
tensors "bicubic" also overshoots at saturated edges where Pillow clips between its two passes; elsewhere,
and with "bilinear", the bound is one grey level. "nearest" rounds positions in another way there.

Pillow is imported at the first use.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from clcnn import _arguments
from clcnn.errors import ArgumentError, DtypeError, Error

if TYPE_CHECKING:
    from PIL import Image

__all__ = [
    "IMAGENET_MEAN",
    "IMAGENET_STD",
    "PRESETS",
    "FoldedConv",
    "ImageError",
    "Preset",
    "center_crop",
    "fold_normalization",
    "load",
    "normalize",
    "pad_channels",
    "preprocess",
    "resize",
    "to_grey",
    "to_tensor",
]

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
MAX_PIXELS = 178_956_970  # what Pillow refuses to decode by default: a quarter of a GiB of RGB, twice over
CUBIC_TENSOR = -0.75  # torch's cubic coefficient without antialiasing; Pillow's, and torch's with it, is -0.5


class ImageError(Error, ValueError):
    """An input is no readable image or of no usable size: the message names the file and the rule."""


def load(source: Any) -> np.ndarray:
    """Decode one image to uint8 [H, W, 3].

    source: a path, the bytes of an image file, a PIL image, or an array: uint8 [H, W], [H, W, 1], [H, W, 3]
    or [H, W, 4] (alpha is dropped, as `convert("RGB")` does).

    The EXIF orientation of files and PIL images is applied. Palette, greyscale, CMYK and alpha images are
    converted by Pillow; 16-bit greyscale is divided by 257. Of several frames the first is taken.
    Raises ImageError, OSError when the file cannot be opened, ImportError without Pillow.
    """
    if isinstance(source, np.ndarray):
        return from_array(source)
    pil = import_pillow()
    if isinstance(source, pil.Image):
        return decode(source, "PIL image")
    if isinstance(source, (str, os.PathLike)):
        with open(_arguments.path(source, "image"), "rb") as stream:
            return decode(stream, os.fspath(source))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return decode(io.BytesIO(source), f"<{len(source)} bytes>")
    raise DtypeError(f"an image is a path, bytes, a PIL image or a uint8 array, not {type(source).__name__}")


def import_pillow() -> Any:
    """Pillow's `Image` module."""
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images need the package pillow: pip install pillow") from error
    return Image


def from_array(array: np.ndarray) -> np.ndarray:
    """A uint8 image array as [H, W, 3]."""
    _arguments.plain(array, "image")
    channels = array.shape[2] if array.ndim == 3 else 1
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or channels not in (1, 3, 4) or 0 in array.shape:
        raise ImageError(
            "an image array is uint8 [H, W], [H, W, 1], [H, W, 3] or [H, W, 4], "
            f"not {array.dtype} {list(array.shape)}"
        )
    if channels == 1:
        return np.repeat(array.reshape(*array.shape[:2], 1), 3, axis=2)
    return np.ascontiguousarray(array[:, :, :3])


def decode(source: Any, name: str) -> np.ndarray:
    """Decode an open file or PIL image; whatever Pillow raises on the way becomes ImageError."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        image = source if isinstance(source, Image.Image) else Image.open(source)
        image = ImageOps.exif_transpose(image)
        return np.array(to_rgb(image))
    except ImageError as error:
        raise ImageError(f"{name}: {error}") from error
    except UnidentifiedImageError as error:
        raise ImageError(f"{name}: not a readable image: no format that Pillow knows") from error
    except Exception as error:  # its decoders raise what their parsers meet, from OSError to struct.error
        raise ImageError(f"{name}: not a readable image: {error}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """The image in RGB with 8 bits a channel."""
    from PIL import Image

    if not image.mode.startswith("I"):
        return image.convert("RGB")
    # convert() would clip the 16-bit modes "I;16*", and "I" as which older Pillows open 16-bit files.
    grey = np.asarray(image)
    if grey.size and (grey.min() < 0 or grey.max() > 65535):
        raise ImageError(f"values from {grey.min()} to {grey.max()} are no 16-bit greyscale")
    return Image.fromarray(((grey.astype(np.uint32) + 128) // 257).astype(np.uint8)).convert("RGB")


def resize(
    image: np.ndarray, size: int | Sequence[int], interpolation: str = "bilinear", antialias: bool = True
) -> np.ndarray:
    """Resample uint8 [H, W, 3] to a new size by torchvision's rules.

    size: one int = the new shorter side, the longer becomes int(size * longer / shorter); or (height, width).
    interpolation: "bilinear", "bicubic" or "nearest".
    antialias: widen the filter when shrinking, as Pillow always does and torchvision does by default. False
    is torchvision's antialias=False on tensors (2 or 4 taps whatever the scale); "nearest" has no filter.
    Raises ImageError for a result over 179 megapixels, ArgumentError for other arguments.
    """
    if interpolation not in ("bilinear", "bicubic", "nearest"):
        raise ArgumentError(f'interpolation is "bilinear", "bicubic" or "nearest", not {interpolation!r}')
    image = from_array(image)
    height, width = output_size(image.shape[:2], size)
    if (height, width) == image.shape[:2]:
        return image
    if height * width > MAX_PIXELS:
        raise ImageError(
            f"{image.shape[1]}x{image.shape[0]} would become {width}x{height}, over {MAX_PIXELS} pixels"
        )
    if not antialias and interpolation != "nearest":
        rows = resample_axis(image.astype(np.float64), height, 0, interpolation == "bicubic")
        both = resample_axis(rows, width, 1, interpolation == "bicubic")
        return np.asarray(np.rint(both).clip(0, 255), np.uint8)
    pil = import_pillow()
    resized = pil.fromarray(image).resize((width, height), pil.Resampling[interpolation.upper()])
    return np.array(resized)


def output_size(old: Sequence[int], size: int | Sequence[int]) -> tuple[int, int]:
    """(height, width) that `Resize(size)` gives an image of `old` (height, width)."""
    sizes = pair_of_sizes(size, same=False)
    if len(sizes) == 2:
        return sizes[0], sizes[1]
    short, long = sorted(old)
    new = (sizes[0], int(sizes[0] * long / short))
    return new if old[0] <= old[1] else new[::-1]


def pair_of_sizes(size: int | Sequence[int], same: bool) -> tuple[int, ...]:
    """The one or two positive sizes of an argument; with `same`, one counts for both."""
    try:
        given = (size,) if isinstance(size, (int, np.integer)) else tuple(size)
        sizes = tuple(int(n) for n in given)
        good = len(sizes) in (1, 2) and sizes == given and min(sizes) >= 1
    except (TypeError, ValueError, OverflowError):  # no numbers
        good = False
    if not good:
        raise ArgumentError(f"a size is a positive int or (height, width), not {_arguments.shown(size)}")
    return sizes * 2 if same and len(sizes) == 1 else sizes


def resample_axis(image: np.ndarray, length: int, axis: int, cubic: bool) -> np.ndarray:
    """Interpolate along one axis at half-pixel centres with 2 or 4 taps, edges repeated."""
    old = image.shape[axis]
    position = (np.arange(length) + 0.5) * (old / length) - 0.5
    first = np.floor(position).astype(int)
    offsets = np.arange(-1, 3) if cubic else np.arange(2)
    distance = np.abs(position - first - offsets[:, None])
    taps = cubic_filter(distance) if cubic else 1 - distance
    shape = [-1 if i == axis else 1 for i in range(image.ndim)]
    result: np.ndarray = np.zeros_like(np.take(image, np.zeros(length, int), axis))
    for offset, weight in zip(offsets, taps, strict=True):
        result += weight.reshape(shape) * np.take(image, np.clip(first + offset, 0, old - 1), axis)
    return result


def cubic_filter(distance: np.ndarray) -> np.ndarray:
    """Keys' cubic convolution (1981) at distances 0..2."""
    a = CUBIC_TENSOR
    near: np.ndarray = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far: np.ndarray = a * (((distance - 5) * distance + 8) * distance - 4)
    return np.asarray(np.where(distance <= 1, near, far))


def center_crop(image: np.ndarray, size: int | Sequence[int]) -> np.ndarray:
    """Cut `size` (int or (height, width)) out of the middle of [H, W, 3]; a smaller image gets black edges.

    The corner is rounded half to even; the odd row or column of padding goes to the end, as in torchvision.
    """
    height, width = pair_of_sizes(size, same=True)
    if height * width > MAX_PIXELS:
        raise ImageError(f"a crop of {width}x{height} is over {MAX_PIXELS} pixels")
    short = [max(new - old, 0) for new, old in zip((height, width), image.shape, strict=False)]
    if any(short):
        image = np.pad(image, [(n // 2, n - n // 2) for n in short] + [(0, 0)])
    top = round((image.shape[0] - height) / 2)
    left = round((image.shape[1] - width) / 2)
    return image[top : top + height, left : left + width]


def to_tensor(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] to float32 [3, H, W] in 0..1: divided by 255 in float32, as `ToTensor`."""
    return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def to_grey(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] to the luma of ITU-R BT.601, uint8 [H, W, 1], rounded as Pillow's `convert("L")`."""
    luma = image.astype(np.uint32) @ np.array([19595, 38470, 7471], np.uint32)
    return ((luma + 0x8000) >> 16).astype(np.uint8)[:, :, None]


def normalize(
    tensor: np.ndarray, mean: Sequence[float] = IMAGENET_MEAN, std: Sequence[float] = IMAGENET_STD
) -> np.ndarray:
    """(x - mean) / std for each channel of float32 [..., C, H, W], in float32, as `Normalize`."""
    shift, scale = (np.asarray(values, np.float32).reshape(-1, 1, 1) for values in (mean, std))
    if tensor.ndim < 3 or not len(shift) == len(scale) == tensor.shape[-3] or not np.all(scale):
        raise ArgumentError(
            f"{tensor.shape} needs a mean and a non-zero std for each channel, got {mean} and {std}"
        )
    return (tensor - shift) / scale


def preprocess(
    images: Any,
    size: int | Sequence[int] = 224,
    resize: int | Sequence[int] | None = 256,
    interpolation: str = "bilinear",
    mean: Sequence[float] = IMAGENET_MEAN,
    std: Sequence[float] = IMAGENET_STD,
    normalize: bool = True,
) -> np.ndarray:
    """Images of any size to network input, float32 [N, 3, height, width].

    Parameters
    ----------
    images : image, iterable of images, or array [N, H, W, 3]
        Each is what load() takes.
    size : int or (height, width)
        Of the centre crop.
    resize : int, (height, width), or None
        The shorter side before it; None for none.
    interpolation : {"bilinear", "bicubic", "nearest"}
    mean, std : sequences of float
        A value a channel, on pixels of 0..1.
    normalize : bool
        False leaves values in 0..1 and ignores mean and std.

    Returns
    -------
    array

    Raises
    ------
    ImageError
        Naming the file.
    ArgumentError
        For the arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.preprocess(np.zeros((300, 400, 3), np.uint8)).shape
    (1, 3, 224, 224)
    """
    preset = Preset(resize, size, interpolation, mean if normalize else None, std if normalize else None)
    return preset.apply(images)


def each_image(images: Any) -> Iterable[Any]:
    """The images in the argument of `preprocess`: an array counts as one unless it has four dimensions."""
    if isinstance(images, np.ndarray):
        return images if images.ndim == 4 else [images]
    if isinstance(images, (str, bytes, bytearray, memoryview, os.PathLike)) or not hasattr(
        images, "__iter__"
    ):
        return [images]
    return list(images)


@dataclass(frozen=True)
class Preset:
    """How a pretrained network wants its input: `preprocess`'s arguments; mean=None for no normalising,
    grey=True for one channel."""

    resize: int | Sequence[int] | None = 256
    crop: int | Sequence[int] = 224
    interpolation: str = "bilinear"
    mean: Sequence[float] | None = IMAGENET_MEAN
    std: Sequence[float] | None = IMAGENET_STD
    grey: bool = False

    def apply(self, images: Any) -> np.ndarray:
        """float32 [N, 3, crop, crop] (1 channel when grey); images and errors as of `preprocess`."""
        tensors = [self.apply_one(image) for image in each_image(images)]
        if not tensors:
            raise ArgumentError("no image was given")
        return np.stack(tensors)

    def apply_one(self, source: Any) -> np.ndarray:
        """float32 [3, crop, crop] of one image; 1 channel when grey."""
        image = load(source)
        try:
            if self.resize is not None:
                image = resize(image, self.resize, self.interpolation)
            cropped = center_crop(image, self.crop)
            tensor = to_tensor(to_grey(cropped) if self.grey else cropped)
        except ImageError as error:
            raise ImageError(
                f"{source if isinstance(source, (str, os.PathLike)) else 'image'}: {error}"
            ) from error
        if self.mean is None or self.std is None:
            return tensor
        return normalize(tensor, self.mean, self.std)


# By the names in clcnn.zoo.NETS; the crop there is the net's own input size.
PRESETS: dict[str, Preset] = {
    "imagenet": Preset(),
    # timm's settings for tf_efficientnet_lite0; mean and std of 0.5 make pixel / 127.5 - 1
    "efficientnet_lite": Preset(interpolation="bicubic", mean=(0.5,) * 3, std=(0.5,) * 3),
    "digits": Preset(resize=28, crop=28, mean=(0.1307,), std=(0.3081,), grey=True),  # mean and std of MNIST
}


class FoldedConv(NamedTuple):
    """A first convolution that takes unnormalised input: `weight`, `bias`, and what to pad its input with."""

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

    weight: [K, C, ...] with one input channel for each mean; bias: [K] or None. scale: 1/255 for x in 0..255
    (so that bytes can be fed), 1 for x in 0..1. Computed in float64, returned in weight's dtype:
    weight [K, C, ...], bias [K], pad_value [C].

    conv(y, weight, bias) == conv(x, folded.weight, folded.bias) wherever the window lies inside of the image.
    Zeros with which the convolution pads y stand for x = mean / scale, not for x = 0. So with padding the
    fold is exact only when x is padded with `pad_value` = mean / scale by channel, and the convolution pads
    nothing:

        padded = pad_channels(x, p, folded.pad_value)
        conv(y, weight, bias, padding=p) == conv(padded, folded.weight, folded.bias)

    Padding x with zeros instead changes the outputs whose window crosses the border.
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
    """Pad the spatial axes of [N, C, *spatial] with a value a channel, in the common dtype of both.

    padding: one int, one for each spatial axis, or begins then ends, as the convolution's.
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
