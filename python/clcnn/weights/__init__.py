"""Weights from and to files: safetensors, NumPy's npz, and PyTorch's `.pth` without torch or its code.

    state = clcnn.weights.load("model.pth")                  # name -> array, whatever the format
    clcnn.weights.save_safetensors("model.safetensors", state)

The format is recognised by content. A file is data from strangers: every size in it is checked before memory
is allocated, which stays within a small multiple of the file's size; each violation raises `WeightsError`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import BinaryIO, Union

import numpy as np

from clcnn import _arguments

from . import npz, safetensors_file, torch_pth
from .archive import open_archive
from .errors import WeightsError, shown
from .source import Source, open_source

__all__ = ["WeightsError", "load", "match", "save_npz", "save_safetensors"]

PathLike = Union[str, "os.PathLike[str]"]
HEAD_BYTES = 32
MAX_LISTED = 10
COUNTER = (
    "num_batches_tracked"  # PyTorch's batch norms keep it; inference and our training have no use for it
)


def load(
    source: PathLike | bytes | bytearray | memoryview | BinaryIO, *, strip_prefix: str = "module."
) -> dict[str, np.ndarray]:
    """Reads a state dict: name -> C-contiguous array in native byte order, in the file's order.

    Formats: safetensors; `.npz`; PyTorch's `.pth`/`.pt` state dicts, both the zip and the older stream,
    also nested under "state_dict", "model_state_dict" or "model". Dtypes stay as in the file, but bfloat16,
    which NumPy lacks, is widened to float32. Tensors that share a storage in a `.pth` share memory here.

    Parameters
    ----------
    source : path, bytes, or binary file object
        A file object is read to its end.
    strip_prefix : str
        Removed from the names when all have it, as after `DataParallel`; "" removes nothing.

    Returns
    -------
    dict of arrays by name

    Raises
    ------
    WeightsError
        File, tensor and rule in the message.
    OSError
        The file cannot be opened.
    ImportError
        The `safetensors` package is needed and missing.

    Examples
    --------
    >>> import os, tempfile
    >>> import clcnn
    >>> path = os.path.join(tempfile.mkdtemp(), "lenet5.npz")
    >>> clcnn.weights.save_npz(path, clcnn.zoo.lenet5().state_dict())
    >>> list(clcnn.weights.load(path))[:2]
    ['features.0.weight', 'features.0.bias']
    """
    with open_source(source) as opened:
        try:
            state = read(opened)
        except WeightsError as error:
            raise WeightsError(f"{opened.name}: {error}") from error
    if strip_prefix and state and all(name.startswith(strip_prefix) for name in state):
        return {name[len(strip_prefix) :]: array for name, array in state.items()}
    return state


def read(source: Source) -> dict[str, np.ndarray]:
    """Recognise the format by the first bytes, and read it."""
    head = source.stream.read(HEAD_BYTES)
    source.stream.seek(0)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        with open_archive(source) as archive:
            names = archive.namelist()
            if torch_pth.is_archive(names):
                return torch_pth.read_archive(archive, source.size)
            if all(name.endswith(".npy") for name in names):
                return npz.read(archive, source.size)
            raise WeightsError("a zip archive that is neither an npz nor a PyTorch checkpoint")
    if torch_pth.is_stream(head):
        return torch_pth.read_stream(source)
    if safetensors_file.is_safetensors(head):
        return safetensors_file.read(source)
    raise WeightsError(
        f"neither safetensors, nor npz, nor a PyTorch checkpoint; it begins with {shown(head[:16])}"
    )


def save_safetensors(
    path: PathLike, state: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None
) -> None:
    """Write a state dict as safetensors. The file appears complete or not at all.

    Parameters
    ----------
    path : path
        Of the file, which is replaced if there is one.
    state : mapping of str to array
        Booleans, integers, floats or complex numbers; saved in C order and native byte order.
    metadata : mapping of str to str, optional
        Text to keep in the header.

    Raises
    ------
    WeightsError
        A name is no str, or an array is not of plain numbers that safetensors has a dtype for.
    DtypeError
        path is no path, or an array is masked.
    ArgumentError
        path has a NUL character.
    OSError
        The file cannot be written.
    ImportError
        The `safetensors` package is missing.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.weights.save_safetensors("net.safetensors", {"bias": np.zeros(2, np.float32)})
    >>> clcnn.weights.load("net.safetensors")["bias"]
    array([0., 0.], dtype=float32)
    """
    arrays = checked(state)
    with replacing(path) as temporary:
        safetensors_file.write(temporary, arrays, metadata)


def save_npz(path: PathLike, state: Mapping[str, np.ndarray]) -> None:
    """Write a state dict as an uncompressed npz. The file appears complete or not at all.

    Parameters
    ----------
    path : path
        Of the file, which is replaced if there is one. No ".npz" is added to it. numpy.load() reads it, too.
    state : mapping of str to array
        Booleans, integers, floats or complex numbers of any size but long double; saved in C order and native
        byte order.

    Raises
    ------
    WeightsError
        A name is no str, or an array is not of plain numbers.
    DtypeError
        path is no path, or an array is masked.
    ArgumentError
        path has a NUL character.
    OSError
        The file cannot be written.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.weights.save_npz("net.npz", {"bias": np.zeros(2, np.float32)})
    >>> clcnn.weights.load("net.npz")["bias"]
    array([0., 0.], dtype=float32)
    """
    arrays = checked(state)
    with replacing(path) as temporary:
        npz.write(temporary, arrays)


def checked(state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays in C order and native byte order; WeightsError for what no format here can hold."""
    arrays = {}
    for name, value in state.items():
        array = np.asarray(_arguments.plain(value, f"tensor {shown(name)}"), order="C")
        if not isinstance(name, str) or not npz.is_plain(array.dtype):
            raise WeightsError(
                f"tensor {shown(name)}: only arrays of numbers with str names are saved, not {array.dtype}"
            )
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return arrays


@contextmanager
def replacing(path: PathLike) -> Iterator[str]:
    """A temporary file's path beside `path`, which takes its place when the block ends well."""
    folder, name = os.path.split(_arguments.path(path, "path"))
    # Not tempfile's: its files are private to the user, and a saved model need not be.
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def match(
    state: Mapping[str, np.ndarray], expected: Mapping[str, Sequence[int]], *, strict: bool = True
) -> dict[str, np.ndarray]:
    """The arrays of a state dict that a network asks for, in its order, with their shapes checked.

    Names that end in `num_batches_tracked` are ignored on both sides.

    Parameters
    ----------
    state : mapping of str to array
    expected : mapping of str to shape
    strict : bool
        Whether names missing and left over are errors. With False only wrong shapes are, and the result lacks
        what is missing. Default True.

    Returns
    -------
    dict of arrays by name

    Raises
    ------
    WeightsError
        Lists all names missing, left over and of another shape: the first 10 of each kind, and how many
        there are.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> state = {"bias": np.zeros(2), "head.bias": np.zeros(9)}
    >>> list(clcnn.weights.match(state, {"bias": (2,), "scale": (2,)}, strict=False))
    ['bias']
    """
    wanted = {name: tuple(shape) for name, shape in expected.items() if not is_counter(name)}
    wrong = [
        f"{name}: {tuple(state[name].shape)} instead of {shape}"
        for name, shape in wanted.items()
        if name in state and tuple(state[name].shape) != shape
    ]
    complaints = {"of another shape": wrong}
    if strict:
        complaints["missing"] = [name for name in wanted if name not in state]
        complaints["left over"] = [name for name in state if name not in wanted and not is_counter(name)]
    parts = [f"{len(names)} {what} ({listed(names)})" for what, names in complaints.items() if names]
    if parts:
        raise WeightsError(
            f"the weights do not fit the network's {len(wanted)} parameters: {'; '.join(parts)}"
        )
    return {name: state[name] for name in wanted if name in state}


def is_counter(name: str) -> bool:
    return name.rpartition(".")[2] == COUNTER


def listed(names: list[str]) -> str:
    more = [f"and {len(names) - MAX_LISTED} more"] if len(names) > MAX_LISTED else []
    return ", ".join(names[:MAX_LISTED] + more)
