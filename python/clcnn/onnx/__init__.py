"""ONNX files. Needs the package onnx (extra clcnn[onnx]).

    model = clcnn.onnx.load("net.onnx")
    plan = clcnn.compile(model, (1, 3, 224, 224), device="cpu")
    y = plan(x)

load() reads and checks a model; Model.specialise() makes a graph of it for given shapes. clcnn.onnx.backend
is the interface onnx.backend.base.Backend.
"""

from __future__ import annotations

try:
    import onnx as _onnx
except ImportError as error:
    raise ImportError("clcnn.onnx needs the package onnx: pip install 'clcnn[onnx]'") from error

from clcnn.onnx.model import Model, ValueInfo, load
from clcnn.onnx.program import Program

__all__ = ["Model", "Program", "ValueInfo", "load"]
