"""Reads the tables of measured constants, csrc/algos/cost/*.def, for their page and their test."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "csrc" / "algos" / "cost"
FAMILIES = tuple(path.stem.removesuffix("_cost") for path in sorted(FOLDER.glob("*_cost.def")))
TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[(),]|[^"(),]+')


@dataclass(frozen=True)
class Row:
    """COST or COST_TABLE; `type` is empty in the latter, and `value` names the file of the table."""

    family: str
    type: str
    name: str
    value: str
    unit: str
    meaning: str
    device: str
    benchmark: str
    decision: str


def arguments(text: str) -> tuple[list[str], int]:
    """The arguments of a macro whose `(` is before the text, strings without quotes; and where they end."""
    found, depth, at = [""], 0, 0
    for match in TOKEN.finditer(text):
        token, at = match[0], match.end()
        if token == ")" and depth == 0:
            return [" ".join(argument.split()).strip('"') for argument in found], at
        depth += (token == "(") - (token == ")")
        if token == "," and depth == 0:
            found.append("")
        else:
            found[-1] += token
    raise ValueError(f"no closing parenthesis: {text[:60]}")


def rows(family: str, text: str | None = None) -> list[Row]:
    """The rows of a family in their order. Raises ValueError for one that has not all its fields."""
    text = text if text is not None else (FOLDER / f"{family}_cost.def").read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = []
    while match := re.search(r"\b(COST|COST_TABLE)\(", text):
        fields, end = arguments(text[match.end() :])
        text = text[match.end() + end :]
        if match[1] == "COST_TABLE":
            fields = ["", *fields[1:2], *fields[:1], *fields[2:]]
        if len(fields) != 8:
            raise ValueError(f"{family}_cost.def: {match[0]}{', '.join(fields)}): wants 8 arguments, or 7")
        found.append(Row(family, *fields))
    return found
