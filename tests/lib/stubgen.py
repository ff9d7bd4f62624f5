"""Writes python/clcnn/ops.pyi, the types of the functions that ops.py generates: `make docs`.

A test compares the file with text(), so that it cannot fall behind the operator tables.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from clcnn import ops

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "python" / "clcnn" / "ops.pyi"
HEAD = '''"""Written by `make docs` from the operator tables; do not edit."""

from collections.abc import Sequence
from typing import Any, Literal

from numpy.typing import NDArray

from clcnn.graph import Value

Operand = Value | NDArray[Any] | float
MANY_OUTPUTS: tuple[str, ...]
ON_BYTES: tuple[str, ...]
MADE_BY_REWRITES: tuple[str, ...]
MADE_BY_LAYOUT: tuple[str, ...]
'''


def text() -> str:
    """The stub, a function for each operator in order of name."""
    names = "".join(f'    "{op}",\n' for op in ops.__all__)
    parts = [HEAD, f"\n__all__ = [\n{names}]\n\n"]
    for op in ops.__all__:
        signature = inspect.signature(getattr(ops, op))
        lines, keyword_only = [], False
        for p in signature.parameters.values():
            if p.kind is p.KEYWORD_ONLY and not keyword_only:
                keyword_only = True
                if not any(q.kind is q.VAR_POSITIONAL for q in signature.parameters.values()):
                    lines.append("    *,")
            star = "*" if p.kind is p.VAR_POSITIONAL else ""
            default = "" if p.default is p.empty else f" = {_literal(p.default)}"
            lines.append(f"    {star}{p.name}: {str(p.annotation).replace(chr(39), chr(34))}{default},")
        parts.append(f"def {op}(\n" + "\n".join(lines) + f"\n) -> {signature.return_annotation}: ...\n")
    return "".join(parts)


def _literal(value: object) -> str:
    """A default as a stub may show it: infinities and empty lists have no literal."""
    return "..." if value == () or repr(value) in ("inf", "-inf") else repr(value).replace("'", '"')


if __name__ == "__main__":
    PATH.write_text(text(), "utf-8")
    print(f"wrote {PATH.relative_to(ROOT)}")
