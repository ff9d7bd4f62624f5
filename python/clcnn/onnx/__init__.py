"""ONNX files: save() writes them. Needs the package onnx (extra clcnn[onnx]).

    clcnn.onnx.save(net, "net.onnx", (1, 3, 224, 224))
"""

from __future__ import annotations

try:
    import onnx as _onnx
except ImportError as error:
    from clcnn.classify import MissingExtraError

    raise MissingExtraError(
        "ONNX files need the package onnx, which is not installed: pip install 'clcnn[onnx]'"
    ) from error

from clcnn.onnx.export import save, to_model

__all__ = ["save", "to_model"]
