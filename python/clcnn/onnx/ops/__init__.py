"""The operators that can be imported: importing this package fills the table."""

from __future__ import annotations

from clcnn.onnx.ops import conv, detect, eltwise, index, norm, pool, reduce, resize, shape
from clcnn.onnx.table import ROWS, Row, find

__all__ = ["ROWS", "Row", "find"]
