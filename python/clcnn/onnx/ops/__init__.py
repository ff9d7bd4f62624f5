"""The operators of ONNX that can be read, and how those of clcnn are written: a file for each family.

Importing this package fills the table of readers. A reader is a function of a Call, which knows a node's
operands and attributes, and builds that part of the graph. A writer is a function of a Step, which knows a
clcnn node's operands by their ONNX names, its attributes (defaults filled in) and the shapes around it, and
adds ONNX nodes that make `step.outputs`. Most writers add one node; the others say in a comment why not.
Everything is written in opset 21.
"""

from __future__ import annotations

from clcnn.onnx.export_step import Emit
from clcnn.onnx.ops import (
    attention,
    conv,
    detect,
    einsum,
    eltwise,
    index,
    norm,
    pool,
    quantise,
    recurrent,
    reduce,
    resize,
    scatter,
    shape,
)
from clcnn.onnx.table import ROWS, Row, find

__all__ = ["ROWS", "WRITE", "Row", "find"]

# The others are written as the operators that they are read as.
_FAMILIES = (attention, conv, pool, norm, recurrent, reduce, shape, resize, eltwise, index, detect)
WRITE: dict[str, Emit] = {op: emit for family in _FAMILIES for op, emit in family.WRITE.items()}
