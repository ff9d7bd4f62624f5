"""Element types that devices here do not have, computed in one that they have.

Half and double precision are computed in float32 (double with a warning in the log: digits are lost). Narrow
and unsigned integers are held in wider ones, and only by operators that move, compare or convert them:
arithmetic would have to wrap around as theirs does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from clcnn._log import logger
from clcnn.onnx.call import HELD_IN, Operand, Refusal

_ALL = 1 << 30
# Operators that take integers held in wider ones, and how many of their outputs are of the same type.
_MOVES = {
    **dict.fromkeys(
        ("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND"), _ALL
    ),
    **dict.fromkeys(("Identity", "If", "Max", "Min", "ReduceMax", "ReduceMin", "Reshape", "Slice"), _ALL),
    **dict.fromkeys(("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where"), _ALL),
    **dict.fromkeys(
        ("ArgMax", "ArgMin", "Cast", "CastLike", "Equal", "Greater", "GreaterOrEqual", "Less"), 0
    ),
    **dict.fromkeys(("LessOrEqual", "Shape", "Size"), 0),
    "TopK": 1,
}


def wide_of(inputs: Sequence[Operand | None]) -> str:
    """The element type that a node's inputs are held for, "" when they are what they seem. Half precision is
    float32 from the start and does not count."""
    names = [x.logical for x in inputs if x is not None]
    return next((name for name in names if HELD_IN.get(name) and name not in ("float16", "bfloat16")), "")


def check(op: str, wide: str) -> None:
    """Raises Refusal where the operator would compute with narrow integers."""
    if wide == "float64":
        logger.warning("%s: double precision is computed in float32", op)
    elif op not in _MOVES:
        raise Refusal(
            f"it computes with elements of type {wide}, which are only moved, compared and converted"
        )


def marked(op: str, wide: str, made: Sequence[Operand | None]) -> list[Operand | None]:
    """The results of a node whose inputs are held for `wide`: those of the same type are too."""
    count = _MOVES.get(op, _ALL)
    return [
        replace(x, wide=wide) if i < count and x is not None and _fits(x, wide) else x
        for i, x in enumerate(made)
    ]


def _fits(x: Operand, wide: str) -> bool:
    return x.value is not None and not x.wide and x.dtype.name == HELD_IN[wide]
