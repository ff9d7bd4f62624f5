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
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arguments
from clcnn._image.normalisation import (
    IMAGENET_MEAN,
    IMAGENET_STD,
    FoldedConv,
    fold_normalization,
    normalize,
    pad_channels,
)
from clcnn._image.resampling import output_size, pair_of_sizes, resample_axis
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

MAX_PIXELS = 178_956_970  # what Pillow refuses to decode by default: a quarter of a GiB of RGB, twice over


class ImageError(Error, ValueError):
    """An input is no readable image or of no usable size: the message names the file and the rule.

    Examples
    --------
    >>> import clcnn
    >>> try:
    ...     clcnn.image.load(b"no image")
    ... except clcnn.image.ImageError as error:
    ...     print(str(error)[:31])
    <8 bytes>: not a readable image
    """


def load(source: Any) -> np.ndarray:
    """Decode one image to uint8 [H, W, 3], RGB, row 0 at the top.

    The EXIF orientation of files and PIL images is applied. Palette, greyscale, CMYK and alpha images are
    converted by Pillow; 16-bit greyscale is divided by 257. Of several frames the first is taken.

    Parameters
    ----------
    source : path, bytes, PIL image, or array
        bytes are those of an image file. An array is uint8 [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]; alpha
        is dropped, as `convert("RGB")` does.

    Returns
    -------
    uint8 array [H, W, 3]

    Raises
    ------
    ImageError
        The content is no readable image, or an array is of another kind; the message names the file.
    OSError
        The file cannot be opened.
    ArgumentError, DtypeError
        source is none of these kinds, or the path has a NUL character.
    ImportError
        Pillow is needed and missing.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.load(np.zeros((2, 5), np.uint8)).shape
    (2, 5, 3)
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

    Parameters
    ----------
    image : uint8 array [H, W, 3]
    size : int or (height, width)
        One int is the new shorter side; the longer becomes int(size * longer / shorter).
    interpolation : {"bilinear", "bicubic", "nearest"}
        Default "bilinear".
    antialias : bool
        Widen the filter when shrinking, as Pillow always does and torchvision does by default. False is
        torchvision's antialias=False on tensors: 2 or 4 taps whatever the scale. "nearest" has no filter.
        Default True.

    Returns
    -------
    uint8 array [height, width, 3]

    Raises
    ------
    ImageError
        image is no uint8 image, or the result would be over 179 megapixels.
    ArgumentError
        For size and interpolation.
    ImportError
        Pillow is needed (antialias=True or "nearest") and missing.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.resize(np.zeros((30, 40, 3), np.uint8), 15, antialias=False).shape
    (15, 20, 3)
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


def center_crop(image: np.ndarray, size: int | Sequence[int]) -> np.ndarray:
    """Cut the middle out of an image: [H, W, 3] -> [height, width, 3]. A smaller image gets black edges.

    The corner is rounded half to even; the odd row or column of padding goes to the end, as in torchvision.

    Parameters
    ----------
    image : array [H, W, channels] or [H, W]
    size : int or (height, width)
        One int is both.

    Returns
    -------
    array [height, width, channels] or [height, width]
        Of the image's dtype. A view of the image where no edges are added.

    Raises
    ------
    ImageError
        The crop is over 179 megapixels.
    ArgumentError
        For size.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.center_crop(np.zeros((30, 40, 3), np.uint8), 24).shape
    (24, 24, 3)
    """
    height, width = pair_of_sizes(size, same=True)
    if height * width > MAX_PIXELS:
        raise ImageError(f"a crop of {width}x{height} is over {MAX_PIXELS} pixels")
    short = [max(new - old, 0) for new, old in zip((height, width), image.shape, strict=False)]
    if any(short):
        image = np.pad(image, [(n // 2, n - n // 2) for n in short] + [(0, 0)] * (image.ndim - 2))
    top = round((image.shape[0] - height) / 2)
    left = round((image.shape[1] - width) / 2)
    return image[top : top + height, left : left + width]


def to_tensor(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] -> float32 [3, H, W]: x / 255, divided in float32, as torchvision's `ToTensor`.

    Parameters
    ----------
    image : uint8 array [H, W, channels]

    Returns
    -------
    float32 array [channels, H, W]
        Values from 0 to 1, C-contiguous.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.to_tensor(np.array([[[0, 51, 255]]], np.uint8)).ravel()
    array([0. , 0.2, 1. ], dtype=float32)
    """
    return np.ascontiguousarray(image.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def to_grey(image: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] -> luma, uint8 [H, W, 1]: 0.299 R + 0.587 G + 0.114 B.

    The weights are those of ITU-R BT.601, in 16-bit fixed point, and rounded as by Pillow's `convert("L")`.

    Parameters
    ----------
    image : uint8 array [H, W, 3]

    Returns
    -------
    uint8 array [H, W, 1]

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.to_grey(np.array([[[255, 0, 0], [0, 255, 0], [0, 0, 255]]], np.uint8)).ravel().tolist()
    [76, 150, 29]
    """
    luma = image.astype(np.uint32) @ np.array([19595, 38470, 7471], np.uint32)
    return ((luma + 0x8000) >> 16).astype(np.uint8)[:, :, None]


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
    """How a pretrained network wants its input: the steps of `preprocess`, to be applied to any images.

    `clcnn.image.PRESETS` has those of the nets in clcnn.zoo, by `Net.preset`.

    Parameters
    ----------
    resize : int, (height, width), or None
        The shorter side before the crop; None for no resizing. Default 256.
    crop : int or (height, width)
        Size of the centre crop. Default 224.
    interpolation : {"bilinear", "bicubic", "nearest"}
        Default "bilinear".
    mean, std : sequence of float, or None
        A value a channel, on pixels of 0..1; None leaves values in 0..1. Default those of ImageNet.
    grey : bool
        One channel, of `to_grey`, instead of three. Default False.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.image.Preset(resize=None, crop=32).apply(np.zeros((40, 50, 3), np.uint8)).shape
    (1, 3, 32, 32)
    """

    resize: int | Sequence[int] | None = 256
    crop: int | Sequence[int] = 224
    interpolation: str = "bilinear"
    mean: Sequence[float] | None = IMAGENET_MEAN
    std: Sequence[float] | None = IMAGENET_STD
    grey: bool = False

    def apply(self, images: Any) -> np.ndarray:
        """Images as the network takes them.

        Parameters
        ----------
        images : image, or iterable of images
            Each is what `load` takes; an array [N, H, W, 3] is N images.

        Returns
        -------
        float32 array [N, 3, height, width]
            Of the size of `crop`; one channel where `grey`.

        Raises
        ------
        ImageError
            Naming the file.
        ArgumentError
            No image was given, or a field has no such value.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.image.PRESETS["digits"].apply([np.zeros((40, 50, 3), np.uint8)] * 2).shape
        (2, 1, 28, 28)
        """
        tensors = [self.apply_one(image) for image in each_image(images)]
        if not tensors:
            raise ArgumentError("no image was given")
        return np.stack(tensors)

    def apply_one(self, source: Any) -> np.ndarray:
        """One image as the network takes it, without the dimension of the batch.

        Parameters
        ----------
        source : image
            What `load` takes.

        Returns
        -------
        float32 array [3, height, width]
            Of the size of `crop`; one channel where `grey`.

        Raises
        ------
        ImageError, ArgumentError
            As of apply().

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> clcnn.image.Preset(crop=32).apply_one(np.zeros((40, 50, 3), np.uint8)).shape
        (3, 32, 32)
        """
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
