"""What compile() takes for a model besides its own kinds: files, bytes of ONNX, modules of PyTorch."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clcnn import _arguments, _arrays
from clcnn._log import logger
from clcnn.errors import ArgumentError, UnsupportedError


def opened(model: Any, given: Any) -> tuple[Any, Any]:
    """A model that graphs are made of, and its input shape.

    model: a path of an ONNX file or of one that clcnn.save() wrote, the bytes of an ONNX file, a
    torch.nn.Module; anything else is passed on as it is. given: the input shape, or for PyTorch example
    inputs. Raises what loading raises, ArgumentError, UnsupportedError.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        from clcnn import onnx

        return onnx.load(model), given
    if isinstance(model, (str, os.PathLike)):
        return _of_file(_arguments.path(model, "model"), given)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_torch(torch, model, given), None
    if given is not None and _is_example(given):
        raise ArgumentError("input_shape: example inputs are for modules of PyTorch; pass x.shape")
    return model, given


def _of_file(path: str, given: Any) -> tuple[Any, Any]:
    if path.endswith(".onnx"):
        from clcnn import onnx

        return onnx.load(path), given
    from clcnn import model_io

    if not os.path.exists(path):
        raise ArgumentError(
            f"model: {_arguments.shown(path)} is no file; nets of the zoo are made by clcnn.zoo.get(name)"
        ) from None
    model = model_io.load(path)
    return model, model.input_shapes if given is None else given


# ---- PyTorch ----


def _of_torch(torch: Any, module: Any, given: Any) -> Any:
    """The module as an ONNX model, written by torch's own exporter from a run on example inputs."""
    from clcnn import onnx

    if given is None:
        raise ArgumentError("a module of PyTorch needs example inputs: clcnn.compile(module, x)")
    examples = _examples(torch, given)
    with _as_at_inference(module), torch.no_grad():
        return onnx.load(_exported(torch, module, examples))


def _is_example(given: Any) -> bool:
    """Whether this is an array, or several, and no shape."""
    if isinstance(given, (list, tuple)):
        return bool(given) and any(_is_example(x) for x in given)
    return _arrays.speaks(given) and not isinstance(given, np.generic)


def _examples(torch: Any, given: Any) -> tuple[Any, ...]:
    """Tensors: those given, arrays as tensors, or zeros of the shapes given."""
    if not _is_example(given):
        shapes = given if given and isinstance(given[0], Sequence) else [given]
        return tuple(torch.zeros(tuple(shape)) for shape in shapes)
    rows = given if isinstance(given, (list, tuple)) else [given]
    return tuple(x if isinstance(x, torch.Tensor) else torch.as_tensor(np.asarray(x)) for x in rows)


@contextlib.contextmanager
def _as_at_inference(module: Any) -> Iterator[None]:
    """eval() for a while: plans compute what inference does."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True


def _exported(torch: Any, module: Any, examples: tuple[Any, ...]) -> bytes:
    """The bytes of an ONNX file. Raises UnsupportedError with what the exporter says."""
    newer = importlib.util.find_spec("onnxscript") is not None  # what the exporter over torch.export needs
    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporter about itself
            if newer:
                program = torch.onnx.export(module, examples, dynamo=True, verbose=False)
                program.save(file)
            else:
                torch.onnx.export(module, examples, file, dynamo=False)
    except Exception as error:  # whatever tracing a stranger's code raises
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        raise UnsupportedError(
            f"{type(module).__name__}: torch's exporter to ONNX could not write this module: "
            f"{type(cause).__name__}: {_arguments.shown(str(cause), 300)}"
        ) from error
    logger.info("%s: exported by torch to %d bytes of ONNX", type(module).__name__, file.tell())
    return file.getvalue()
