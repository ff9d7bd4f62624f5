"""ONNX files, read and written. Needs the package onnx (extra clcnn[onnx]).

    model = clcnn.onnx.load("net.onnx")
    plan = clcnn.compile(model, (1, 3, 224, 224), device="cpu")
    y = plan(x)
    clcnn.onnx.save(net, "other.onnx", (1, 3, 224, 224))

load() reads and checks a model; Model.specialise() makes a graph of it for given shapes. save() writes nets,
modules and graphs. clcnn.InferenceSession runs a file as onnxruntime does. clcnn.onnx.verify compares a
model node by node with a reference; clcnn.onnx.backend is the interface onnx.backend.base.Backend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import onnx as _onnx
except ImportError as error:
    from clcnn.classify import MissingExtraError

    raise MissingExtraError(
        "ONNX files need the package onnx, which is not installed: pip install 'clcnn[onnx]'"
    ) from error

from clcnn.onnx.model import Model, ValueInfo, load
from clcnn.onnx.program import Program

if TYPE_CHECKING:
    from clcnn.onnx.export import save, to_model

__all__ = ["Model", "Program", "ValueInfo", "load", "save", "to_model"]


def __getattr__(name: str) -> Any:
    """What writes files, imported when it is asked for: most programs only read them."""
    if name not in ("save", "to_model"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from clcnn.onnx import export

    return getattr(export, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
