"""What compile() and save() take for a model: files, bytes of ONNX, modules of PyTorch, graphs."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from clcnn import _arguments, _arrays
from clcnn._log import logger
from clcnn._onnx_file import OnnxFile
from clcnn.errors import ArgumentError, ShapeError, UnsupportedError
from clcnn.graph import Graph, trace


def opened(model: Any, given: Any, *, kept: bool = False) -> tuple[Any, Any]:
    """A model that graphs are made of, and its input shape.

    model: a path of an ONNX file or of one that clcnn.save() wrote, the bytes of an ONNX file, a
    torch.nn.Module; anything else is passed on as it is. given: the input shape, or for PyTorch example
    inputs. kept: an OnnxFile will do, whose graph may be in the cache folder. Raises what loading raises,
    ArgumentError, UnsupportedError.
    """
    if isinstance(model, (bytes, bytearray, memoryview)):
        from clcnn import onnx

        return onnx.load(model), given
    if isinstance(model, (str, os.PathLike)):
        return _of_file(_arguments.path(model, "model"), given, kept)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        return _of_torch(torch, model, given), None
    if given is not None and _is_example(given):
        raise ArgumentError("input_shape: example inputs are for modules of PyTorch; pass x.shape")
    return model, given


def _of_file(path: str, given: Any, kept: bool) -> tuple[Any, Any]:
    if path.endswith(".onnx") and kept:
        return OnnxFile(path), given
    if path.endswith(".onnx"):
        from clcnn import onnx

        return onnx.load(path), given
    from clcnn import model_io

    if not os.path.exists(path):
        raise ArgumentError(
            f"model: {_arguments.shown(path)} is no file; nets of the zoo are made by clcnn.zoo.get(name)"
        ) from None
    return model_io.load(path), given


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


# ---- graphs ----


def graph_of(model: Any, input_shape: Any) -> Graph:
    """The graph of what opened() gave: a Graph, a model of clcnn.onnx, a module, anything with build().

    input_shape: as compile() takes it; None where the model says its own (`input_shapes`).
    """
    if isinstance(model, OnnxFile):
        return model.graph(input_shape)
    if hasattr(model, "specialise"):  # clcnn.onnx.Model, without importing onnx here
        return _specialised(model, input_shape)
    if not isinstance(model, Graph):
        shape = getattr(model, "input_shapes", None) if input_shape is None else input_shape
        if shape is None:
            raise ArgumentError(f"input_shape is needed: a {type(model).__name__} has none of its own")
        return trace(model, shape)
    if not any(r.kind == "node" for r in model.records):
        raise ArgumentError("the graph is empty: it has no node")
    if input_shape is not None:
        have = [value.shape for value in model.inputs.values()]
        if _shapes(input_shape) != have:
            raise ShapeError(
                f"input_shape {input_shape} does not fit the graph, whose inputs have shapes {have}"
            )
    return model


def _shapes(given: Any) -> list[tuple[int, ...]]:
    """One shape, several, or a dict of them, as a list."""
    expected = "a shape, a sequence of shapes or a dict of them by name"
    rows = given.values() if isinstance(given, Mapping) else given
    shapes = _arguments.items(rows, "input_shape", expected)
    if all(isinstance(n, (int, np.integer)) for n in shapes):
        shapes = [shapes]
    return [tuple(_arguments.items(shape, "input_shape", expected)) for shape in shapes]


def _specialised(model: Any, input_shape: Any) -> Graph:
    """The graph of an ONNX model; shapes in a sequence are for its inputs in order."""
    if input_shape is None or isinstance(input_shape, Mapping):
        shapes = input_shape
    else:
        given = _shapes(input_shape)
        names = [info.name for info in model.inputs]
        if len(given) != len(names):
            raise ShapeError(f"input_shape: {len(given)} shapes for {len(names)} inputs, {names}")
        shapes = dict(zip(names, given))
    graph: Graph = model.graph(shapes)
    return graph
