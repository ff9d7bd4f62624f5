"""What the commands for ONNX files share: shapes for open dimensions, and inputs from files or at random."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clcnn import image
from clcnn._session.model import dtype_of
from clcnn.cli import options
from clcnn.errors import ArgumentError

if TYPE_CHECKING:
    from clcnn.onnx import Model, ValueInfo

Sizes = Mapping[str, tuple[int, ...]]
ARRAYS = (".npy", ".npz")


def add_model(parser: argparse.ArgumentParser) -> None:
    """An ONNX file, and sizes for what it leaves open."""
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX file")
    add_shape(parser)


def add_shape(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shape",
        action="append",
        type=named_sizes,
        default=[],
        metavar="NAME=N[,N...]",
        help="the size of a symbol in an ONNX model's shapes (n=4), or the whole shape of an input "
        "(x=4,3,224,224); may be repeated. A batch that is left open is 1",
    )


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Files for the inputs, and how images become numbers."""
    parser.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="an .npy file, an .npz file of arrays by input name, or an image; repeat it for several inputs",
    )
    parser.add_argument(
        "--mean", type=numbers, default=None, metavar="M[,M...]", help="taken off pixels of 0 to 1 (0)"
    )
    parser.add_argument(
        "--std",
        type=numbers,
        default=None,
        metavar="S[,S...]",
        help="what pixels are divided by after it (1)",
    )


def named_sizes(text: str) -> tuple[str, tuple[int, ...]]:
    """ "n=4" or "x=1,3,8,8", for argparse."""
    name, equals, sizes = text.rpartition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=N or NAME=N,N,...")
    return name, options.shape(sizes)


def numbers(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, for argparse."""
    return tuple(float(part) for part in text.split(","))


def load(path: str) -> Model:
    """An ONNX file. Raises ModelError, UnsupportedError, OSError, MissingExtraError."""
    from clcnn import onnx

    return onnx.load(path)


# ---- shapes ----


def shapes_of(model: Model, given: Sequence[tuple[str, tuple[int, ...]]], batch: int = 1) -> Sizes:
    """A shape for every input of the model: declared sizes, those given, and `batch` for a first dimension
    that is open. Raises ArgumentError for a name that the model has not, and for what stays open."""
    sizes = sizes_of(model, given)
    return {info.name: _shape_of(info, sizes, batch) for info in model.inputs}


def sizes_of(model: Model, given: Sequence[tuple[str, tuple[int, ...]]]) -> Sizes:
    """What --shape says, by symbol or input. Raises ArgumentError for a name that the model has not."""
    sizes = dict(given)
    symbols = {n for info in model.inputs for n in info.shape or () if isinstance(n, str)}
    names = {info.name for info in model.inputs}
    for name, size in sizes.items():
        if name not in names | symbols:
            raise ArgumentError(
                f"--shape {name}: the model has no such symbol or input; its symbols are "
                f"{sorted(symbols)}, its inputs {sorted(names)}"
            )
        if name not in names and len(size) != 1:
            raise ArgumentError(f"--shape {name}: a symbol has one size, got {size}")
    return sizes


def _shape_of(info: ValueInfo, sizes: Sizes, batch: int) -> tuple[int, ...]:
    if info.name in sizes:
        return sizes[info.name]
    if info.shape is None:
        raise ArgumentError(f"input {info.name!r} declares no shape: give --shape {info.name}=N,N,...")
    shape = []
    for at, n in enumerate(info.shape):
        if isinstance(n, str) and n in sizes:
            shape.append(sizes[n][0])
        elif isinstance(n, int):
            shape.append(n)
        elif at == 0:
            shape.append(batch)
        else:
            words = ", ".join("?" if m is None else str(m) for m in info.shape)
            hint = f"--shape {n}=N or " if n else ""
            raise ArgumentError(
                f"input {info.name!r} has the open shape ({words}): give {hint}--shape {info.name}=N,N,..."
            )
    return tuple(shape)


# ---- arrays ----


def random_inputs(model: Model, shapes: Sizes, seed: int = 0) -> dict[str, NDArray[Any]]:
    """Normal numbers for floats, zeros and ones for integers and booleans. Raises ArgumentError for inputs
    whose values decide shapes."""
    if model.value_inputs:
        raise ArgumentError(
            f"the values of {list(model.value_inputs)} decide shapes in this model: give them with --input"
        )
    rng = np.random.default_rng(seed)
    made = {}
    for info in model.inputs:
        dtype, shape = dtype_of(info), shapes[info.name]
        floats = dtype.kind == "f"
        made[info.name] = (rng.standard_normal(shape) if floats else rng.integers(0, 2, shape)).astype(dtype)
    return made


def read_inputs(args: argparse.Namespace, model: Model) -> dict[str, NDArray[Any]]:
    """The arrays of the files that `--input` names, by input. Raises ArgumentError, ImageError, OSError."""
    found: dict[str, NDArray[Any]] = {}
    infos = {info.name: info for info in model.inputs}
    for text in args.input:
        name, file = _named_file(text, infos, found)
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
        elif file.suffix == ".npy":
            arrays = {name: np.load(file, allow_pickle=False)}
        else:
            arrays = {name: _photo(file, infos[name], args)}
        for key, array in arrays.items():
            if key not in infos or key in found:
                raise ArgumentError(
                    f"{file}: {key!r} is no input of the model, or given twice; it has {list(infos)}"
                )
            found[key] = array
    return found


def _named_file(text: str, infos: Mapping[str, Any], found: Mapping[str, Any]) -> tuple[str, Path]:
    """The input that a file is for: the one named, or the first that has none yet."""
    name, equals, rest = text.partition("=")
    if equals and name in infos:
        return name, Path(rest)
    left = [known for known in infos if known not in found]
    if not left:
        raise ArgumentError(f"--input {text}: all inputs of the model, {list(infos)}, have their file")
    return left[0], Path(text)


def _photo(file: Path, info: ValueInfo, args: argparse.Namespace) -> NDArray[Any]:
    """An image as the input wants it: resized to its height and width, RGB or grey, channels first or last,
    pixels 0 to 1 less mean over std, repeated through the batch."""
    sizes, declared = dict(args.shape), info.shape or (None,) * 4
    if len(declared) != 4:
        raise ArgumentError(
            f"{file}: input {info.name!r} has {len(declared)} dimensions, an image needs four"
        )
    shape = sizes.get(info.name) or [
        sizes[n][0] if isinstance(n, str) and n in sizes else n for n in declared
    ]
    last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    batch, channels = shape[0], shape[3 if last else 1]
    height, width = shape[1:3] if last else shape[2:]
    pixels = image.load(file)
    pixels = image.resize(
        pixels,
        (
            height if isinstance(height, int) else pixels.shape[0],
            width if isinstance(width, int) else pixels.shape[1],
        ),
    )
    if channels == 1:
        pixels = image.to_grey(pixels)
    x = image.to_tensor(pixels)
    count = x.shape[0]
    x = image.normalize(x, _spread(args.mean or (0.0,), count), _spread(args.std or (1.0,), count))
    if last:
        x = np.ascontiguousarray(x.transpose(1, 2, 0))
    return np.repeat(x[None], batch if isinstance(batch, int) else 1, axis=0)


def _spread(values: Sequence[float], count: int) -> Sequence[float]:
    return tuple(values) * count if len(values) == 1 else values
