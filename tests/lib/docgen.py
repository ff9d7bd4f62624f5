"""Writes the generated blocks of the documents in docs/: `make docs`.

A block lies between `<!-- NAME:begin -->` and `<!-- NAME:end -->`. A test compares the files with updated(),
so that they cannot fall behind the operator tables, the command line, the exceptions, the tables of costs
and the kernels' own words. Part of it is read from csrc/ and kernels/.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import costs
from clcnn import _core, errors
from clcnn.classify import MissingExtraError
from clcnn.cli import COMMANDS
from clcnn.image import ImageError
from clcnn.model_io import ModelFileError
from clcnn.weights import WeightsError

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; bars in cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def codes(names: Iterable[str]) -> str:
    """`a`, `b` and so on."""
    return ", ".join(f"`{name}`" for name in names)


# ---- operators, algorithms, devices ----


def operators() -> str:
    """A row for each algorithm; operators with equal inputs and algorithms (element-wise ones) share rows."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for op, row in _core.ops().items():
        algos = tuple((name, algo["doc"], algo["devices"]) for name, algo in row["algos"].items())
        groups.setdefault((tuple(row["inputs"]), algos), []).append(op)
    rows = []
    for ops in groups.values():
        first = _core.ops()[ops[0]]
        left = [codes(ops), ", ".join(first["inputs"])]
        for name, algo in first["algos"].items():
            devices = algo["devices"] + (", with CLBlast" if algo["clblast"] else "")
            rows.append([*left, f"`{name}`", algo["doc"], devices])
            left = ["", ""]
    return table(["operator", "inputs", "algorithm", "how it computes", "devices"], rows)


# ---- commands and errors ----


def commands() -> str:
    """The commands of `python -m clcnn` and what each is for."""
    rows = ([f"`{name}`", module.HELP] for name, module in COMMANDS.items())
    return table(["command", "what it does"], rows)


def exceptions() -> str:
    """Every exception with the builtins that it also is, and when it is raised."""
    core = [getattr(errors, name) for name in errors.__all__ if name != "Error"]
    rows = []
    for kind in (*core, WeightsError, ModelFileError, ImageError, MissingExtraError):
        home = "clcnn" if kind in core else kind.__module__.removesuffix(".errors")
        doc = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")
        sentences = [s for s in re.split(r"(?<=\.) ", doc) if not re.match(r"Also an? |A \w+ and a ", s)]
        rows.append([f"`{home}.{kind.__name__}`", codes(builtin_bases(kind)), " ".join(sentences)])
    return table(["exception", "is also", "when"], rows)


def builtin_bases(kind: type) -> list[str]:
    """The most special builtins that an exception derives from."""
    found = [base for base in kind.__mro__ if base.__module__ == "builtins" and base is not Exception]
    return [b.__name__ for b in found if not any(c is not b and issubclass(c, b) for c in found)]


# ---- kernels ----


def first_sentence(path: Path) -> str:
    """What a kernel file computes: the first sentence of the comment that opens it, after the file's name."""
    paragraph = re.split(r"\n \*\s*\n|\*/", path.read_text("utf-8"), maxsplit=1)[0]
    text = " ".join(line.strip(" /*") for line in paragraph.splitlines())
    return re.split(r"[.;](?:\s|$)", text.removeprefix(f"{path.name}: "), maxsplit=1)[0].strip()


def path_of(path: Path) -> str:
    """From the repository's root, as documents name files."""
    return path.relative_to(ROOT).as_posix()


def users_of(path: Path) -> list[str]:
    """The files of csrc that name this kernel, or the kernels that include this header; of a header that only
    generated units include, the files of csrc that name it."""
    core, kernels = list((ROOT / "csrc").rglob("*.c")), list(KERNELS.rglob("*.[ch]*"))
    launched = path.suffix == ".cl"
    below = path.relative_to(KERNELS).as_posix()
    wanted = f'"{path.stem}"' if launched else f'#include "{below}"'
    users = [path_of(p) for p in (core if launched else kernels) if wanted in p.read_text("utf-8")]
    return sorted(users or [path_of(p) for p in core if f'"{below}"' in p.read_text("utf-8")])


def kernels() -> str:
    """Every kernel file, what it computes, and the file of csrc/algos that launches it."""
    files = sorted(KERNELS.rglob("*.cl"))
    rows = ([f"`{path_of(p)}`", first_sentence(p), codes(users_of(p))] for p in files)
    return table(["file", "computes", "launched by"], rows)


def headers() -> str:
    """Every header, and what it offers."""
    files = sorted(KERNELS.rglob("*.*h"))
    rows = ([f"`{path_of(p)}`", first_sentence(p), users_text(users_of(p))] for p in files)
    return table(["file", "offers", "included by"], rows)


def users_text(users: list[str], limit: int = 4) -> str:
    """A few names, or their number."""
    return codes(users) if len(users) <= limit else f"{len(users)} files"


# ---- measured constants ----


def costs_of(family: str) -> Callable[[], str]:
    """Makes the table of a family's constants (csrc/algos/cost/), in their order."""

    def cells(row: costs.Row) -> list[str]:
        (record,) = (path.name for path in (ROOT / "docs" / "decisions").glob(f"{row.decision[2:]}-*.md"))
        shown = [f"`{row.name}`", row.value] if row.type else [f"`{row.name}`", f"table in `{row.value}`"]
        decision = f"[{row.decision}](../decisions/{record})"
        return [*shown, row.unit, row.meaning, row.device, f"`{row.benchmark}`", decision]

    head = ["name", "value", "unit", "meaning", "measured on", "command", "decision"]
    return lambda: table(head, map(cells, costs.rows(family)))


# ---- files ----

BLOCKS: dict[str, dict[str, Callable[[], str]]] = {
    "docs/reference/operators.md": {"operators": operators},
    "docs/reference/commands.md": {"commands": commands},
    "docs/errors.md": {"errors": exceptions},
    "docs/reference/kernels.md": {"kernels": kernels, "headers": headers},
    "docs/reference/costs.md": {family: costs_of(family) for family in costs.FAMILIES},
}


def updated(name: str) -> str:
    """The text of a file of BLOCKS with its blocks written anew. Raises ValueError for a missing marker."""
    text = (ROOT / name).read_text("utf-8")
    for block, make in BLOCKS[name].items():
        begin, end = f"<!-- {block}:begin -->\n", f"\n<!-- {block}:end -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise ValueError(f"{name} needs {begin.strip()} and {end.strip()} once, on lines of their own")
        head, rest = text.split(begin)
        text = f"{head}{begin}{make()}{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    for name in BLOCKS:
        (ROOT / name).write_text(updated(name), "utf-8")
        print(f"wrote {name}")
