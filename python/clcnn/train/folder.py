"""Images in a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments
from clcnn.errors import ArgumentError
from clcnn.image import IMAGENET_MEAN, IMAGENET_STD, ImageError, load, resize
from clcnn.train.data import Augment, Split, ordered_batches
from clcnn.train.pixels import Pixels

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp", ".gif")
MOST_KEPT = 2 << 30  # bytes of images that are kept in memory


class ImageFolder:
    """Images of `root`/<class>/..., as torchvision.datasets.ImageFolder finds them.

    Classes are numbered in the order of their names, and folders below them are searched too. All images are
    read once when the data set is made, which is how unreadable ones are found; they are kept as bytes where
    they take 2 GiB together at most, and are read anew for each batch otherwise.

    Parameters
    ----------
    root : path
    size : int or (height, width)
        To which each image is resized (antialiased, its sides not kept in proportion).
    grey : bool
        One channel, the mean of three.
    mean, std : float, or sequence of float, optional
        Of each channel, for (image / 255 - mean) / std; ImageNet's without them, or for grey ones 0 and 1.
    seed : int
        Of the order of samples and of what augmentation draws.
    skip_unreadable : bool
        Leaves out images that cannot be read, and keeps their names in `skipped`.

    Attributes
    ----------
    classes : list of str
        Names of the classes.
    files : list of Path
        One for each sample, in the order of the classes.
    y : int64 array
        Their labels.
    skipped : list of Path
        What could not be read.
    epoch : int
        Counts the walks in random order; set it to repeat or skip some.

    Raises
    ------
    ArgumentError, DtypeError
        No such folder, fewer than two classes, a class without images; what is wrong with an argument.
    ImageError
        An image that cannot be read, with its name.
    ImportError
        Pillow is not installed.

    Examples
    --------
    >>> import os
    >>> import numpy as np
    >>> from PIL import Image
    >>> from clcnn import train
    >>> for name in ("cat", "dog"):
    ...     os.makedirs(f"pets/{name}")
    ...     Image.fromarray(np.zeros((9, 9, 3), np.uint8)).save(f"pets/{name}/1.png")
    >>> data = train.ImageFolder("pets", size=8)
    >>> data.classes, data.y.tolist()
    (['cat', 'dog'], [0, 1])
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        size: int | tuple[int, int] = 224,
        *,
        grey: bool = False,
        mean: Any = None,
        std: Any = None,
        seed: int = 0,
        skip_unreadable: bool = False,
    ) -> None:
        self.root = Path(_arguments.path(root, "ImageFolder: root"))
        self.classes, found = find_images(self.root)
        pair = (size, size) if isinstance(size, int) else tuple(size)
        if len(pair) != 2:
            raise ArgumentError(f"ImageFolder: size must be a number or (height, width), got {size!r}")
        self.size = tuple(_arguments.whole(n, "ImageFolder: size", 1) for n in pair)
        self.grey, self.seed, self.epoch = bool(grey), int(seed), 0
        usual = ((0.0,), (1.0,)) if grey else (IMAGENET_MEAN, IMAGENET_STD)
        shape = (1 if grey else 3, 1, 1)
        self._mean, self._std = (
            np.broadcast_to(
                np.asarray(usual[i] if given is None else given, np.float32).reshape(-1, 1, 1), shape
            )
            for i, given in enumerate((mean, std))
        )
        self.files: list[Path] = []
        self.skipped: list[Path] = []
        labels = []
        kept: list[NDArray[np.uint8]] | None = []
        if sum(map(len, found)) * self.size[0] * self.size[1] * shape[0] > MOST_KEPT:
            kept = None
        for label, files in enumerate(found):
            for file in files:
                try:
                    image = self._read(file)
                except ImageError:
                    if not skip_unreadable:
                        raise
                    self.skipped.append(file)
                    continue
                self.files.append(file)
                labels.append(label)
                if kept is not None:
                    kept.append(image)
        self.y = np.array(labels, np.int64)
        self._kept = kept
        self._check_classes()

    def _check_classes(self) -> None:
        counts = np.bincount(self.y, minlength=len(self.classes))
        for name, count in zip(self.classes, counts, strict=True):
            if not count:
                skipped = f" that can be read ({len(self.skipped)} cannot)" if self.skipped else ""
                raise ArgumentError(f"ImageFolder: class {name!r} of {self.root} has no image{skipped}")

    def _read(self, file: Path) -> NDArray[np.uint8]:
        """One image as bytes (C, H, W)."""
        image = resize(load(file), self.size)
        if self.grey:
            image = np.rint(image.mean(axis=2, keepdims=True)).astype(np.uint8)
        return np.ascontiguousarray(image.transpose(2, 0, 1))

    def __len__(self) -> int:
        return len(self.files)

    def pixels(self, at: NDArray[Any]) -> Pixels:
        """Samples as bytes.

        Parameters
        ----------
        at : int array
            Their numbers.

        Returns
        -------
        Pixels
            uint8 [n, C, H, W], and what makes float32 of them.
        """
        numbers = np.atleast_1d(at)
        kept = self._kept
        images = np.stack([self._read(self.files[i]) if kept is None else kept[i] for i in numbers])
        return Pixels(images, tuple(self._mean.ravel().tolist()), tuple(self._std.ravel().tolist()))

    def __getitem__(self, at: NDArray[Any]) -> NDArray[np.float32]:
        """The samples of these numbers, as a net takes them: float32 (N, C, H, W)."""
        return np.asarray(self.pixels(at))

    def batches(
        self,
        size: int,
        *,
        shuffle: bool = True,
        augment: Augment | None = None,
        drop_last: bool = False,
        as_bytes: bool = False,
    ) -> Iterator[tuple[Any, NDArray[Any]]]:
        """All samples once, in batches, as of Arrays.batches().

        Parameters
        ----------
        size, shuffle, augment, drop_last
            As there.
        as_bytes : bool
            x is Pixels, for a device to make float32 of; not where `augment` changes it. Default False.

        Returns
        -------
        iterator of (x, y)
            float32 [n, C, H, W], and labels [n].

        Raises
        ------
        ArgumentError, DtypeError
            size is below 1, or no whole number.
        """
        samples = _Bytes(self) if as_bytes and augment is None else self
        return ordered_batches(self, samples, size, shuffle, augment, drop_last)

    def subset(self, numbers: Any) -> ImageFolder:
        """Some of the samples, with the same classes.

        Parameters
        ----------
        numbers : sequence of int
            Of the samples.

        Returns
        -------
        ImageFolder
        """
        at = np.asarray(numbers, np.int64)
        part = object.__new__(type(self))
        part.__dict__ |= self.__dict__
        part.files, part.y = [self.files[i] for i in at], self.y[at]
        part._kept = None if self._kept is None else [self._kept[i] for i in at]
        return part

    def split(self, share: float = 0.2, seed: int = 0) -> Split:
        """Two parts, for training and for testing.

        Parameters
        ----------
        share : float
            Of each class, for testing: at least one image. Default 0.2.
        seed : int
            Of which images. Default 0.

        Returns
        -------
        Split

        Raises
        ------
        ArgumentError
            A share outside 0 to 1, a class of one image.
        """
        if not 0 < share < 1:
            raise ArgumentError(f"split(): share must be between 0 and 1, got {share!r}")
        rng = np.random.default_rng(seed)
        for_test = np.zeros(len(self), bool)
        for label, name in enumerate(self.classes):
            own = rng.permutation(np.flatnonzero(self.y == label))
            if len(own) < 2:
                raise ArgumentError(f"split(): class {name!r} has one image, which cannot be in both parts")
            for_test[own[: min(max(round(len(own) * share), 1), len(own) - 1)]] = True
        return Split(self.subset(np.flatnonzero(~for_test)), self.subset(np.flatnonzero(for_test)))

    def __repr__(self) -> str:
        return f"<clcnn.train.ImageFolder {self.root}: {len(self)} images of {len(self.classes)} classes>"


class _Bytes:
    """The samples of a folder, as bytes."""

    def __init__(self, folder: ImageFolder) -> None:
        self._folder = folder

    def __getitem__(self, at: NDArray[Any]) -> Pixels:
        return self._folder.pixels(at)


def find_images(root: Path) -> tuple[list[str], list[list[Path]]]:
    """Names of the classes, and the files of each. Raises ArgumentError."""
    if not root.is_dir():
        raise ArgumentError(f"ImageFolder: there is no folder {root}")
    folders = sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if len(folders) < 2:
        names = f": {folders[0].name!r}" if folders else ""
        raise ArgumentError(
            f"ImageFolder: {root} must have a folder for each of two classes or more, it has "
            f"{len(folders)}{names}"
        )
    files = [
        sorted(p for p in folder.rglob("*") if p.suffix.lower() in EXTENSIONS and p.is_file())
        for folder in folders
    ]
    for folder, own in zip(folders, files, strict=True):
        if not own:
            raise ArgumentError(f"ImageFolder: class {folder.name!r} of {root} has no image")
    return [folder.name for folder in folders], files
