"""Measured constants of the algorithm selection stand in csrc/algos/cost, and each says what it is worth.

The rule for the rest of csrc/algos: no floating constant but small whole numbers, which count bytes and
products, and halves; no define or enumerator that is one, or whose name ends in a unit of cost; no table of
tiles with times that no COST_TABLE row tells of.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import costs
from clcnn import zoo
from helpers import none_missing

ROOT = Path(__file__).resolve().parents[2]
ALGOS = sorted(path for path in (ROOT / "csrc" / "algos").rglob("*.[ch]") if path.parent != costs.FOLDER)
ROWS = [row for family in costs.FAMILIES for row in costs.rows(family)]
NUMBER = re.compile(r"(?<![\w.])(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?f?\b")
HARMLESS = {0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 1e-9}  # the last ends a continued fraction
UNITS = "NS|US|MS|MACS|COST|BYTES|FLOATS|RATIO|SHARE|PRICE"
NO_COST = {"DECISION_BYTES"}  # the size of a struct
ADVICE = "a row of csrc/algos/cost/<family>_cost.def (docs/adding.md, An algorithm)"


def code_of(text: str) -> str:
    """Without comments and without what strings say."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def without_table(code: str, name: str) -> str:
    """The code without the initialiser of a table. Raises ValueError where there is none."""
    start = re.search(rf"\b{name}\s*(?:\[[^\]]*\]\s*)*=\s*\{{", code)
    if not start:
        raise ValueError(f"there is no table {name}")
    depth, at = 1, start.end()
    while depth:
        depth += {"{": 1, "}": -1}.get(code[at], 0)
        at += 1
    return code[: start.end()] + code[at:]


def constants_left(text: str, tables: list[str]) -> list[str]:
    """What should stand in a table of costs: numbers, and names that define some."""
    code = code_of(text)
    for name in tables:
        code = without_table(code, name)
    numbers = [word for word in NUMBER.findall(code) if float(word.rstrip("f")) not in HARMLESS]
    defines = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([^\n]*\d[^\n]*)$", code, re.MULTILINE)
    floating = [name for name, value in defines if NUMBER.search(value)]
    named = [name for name, value in defines if re.fullmatch(rf"\w+_({UNITS})", name) and '"' not in value]
    for body in re.findall(r"\benum\s*\w*\s*\{([^}]*)\}", code):
        named += re.findall(rf"\b(\w+_(?:{UNITS}))\s*=\s*[^,]*\d", body)
    return [*numbers, *floating, *(name for name in named if name not in NO_COST)]


# ---- rows --------------------------------------------------------------------------------------------------


def test_there_is_a_table_for_each_family():
    assert costs.FAMILIES == ("cpu", "nvidia", "portable")
    header = (costs.FOLDER / "cost.h").read_text("utf-8")
    for family in costs.FAMILIES:
        assert f'#include "algos/cost/{family}_cost.def"' in header
        assert len(costs.rows(family)) > 5
    assert len({row.name for row in ROWS if row.type}) == len([row for row in ROWS if row.type])


def options_of(script: Path) -> set[str]:
    texts = [script.read_text("utf-8"), (ROOT / "benchmarks" / "common.py").read_text("utf-8")]
    return set(re.findall(r'"(--[a-z]+)"', "".join(texts)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_says_what_it_is(row):
    table = f"csrc/algos/cost/{row.family}_cost.def"
    empty = [field for field in ("unit", "meaning", "device", "benchmark") if not getattr(row, field)]
    none_missing([f"{field} of {row.name}" for field in empty], table, "make docs")
    assert re.fullmatch(r"D-\d{3}", row.decision)
    assert list((ROOT / "docs" / "decisions").glob(f"{row.decision[2:]}-*.md")), f"there is no {row.decision}"
    if row.type:
        ends = (row.unit.replace(" ", "_").upper(), row.unit.split()[0].upper())
        assert row.name.endswith(tuple(f"_{end}" for end in ends)), f"the name ends in its unit, {row.unit}"
        assert row.type in ("int", "float", "double")
        assert bool(NUMBER.search(row.value)) == (row.type != "int"), "an int is a whole number"
        assert row.value.endswith("f") == (row.type == "float"), "a float ends in f"


@pytest.mark.parametrize("command", sorted({row.benchmark for row in ROWS}))
def test_the_command_of_a_row_can_be_run(command):
    python, name, *words = shlex.split(command)
    script = ROOT / name
    assert python == "python" and script.parent.name == "benchmarks" and script.is_file()
    assert {word for word in words if word.startswith("-")} <= options_of(script)
    given = dict(zip(words, words[1:], strict=False))
    assert given.get("--net", "resnet50") in zoo.NETS
    cases = given.get("--cases")
    folders = [ROOT / folder / "cases" for folder in ("tests", "benchmarks")]
    files = [path for folder in folders for path in folder.glob(f"{cases}.txt")]
    text = files[0].read_text("utf-8") if cases else ""
    assert given.get("--match", "") in text
    assert "--algorithms" not in words or cases, "layers.py takes --algorithms with --cases"


def test_every_constant_is_used():
    code = "".join(code_of(path.read_text("utf-8")) for path in (ROOT / "csrc").rglob("*.[ch]"))
    unused = [row.name for row in ROWS if row.type and not re.search(rf"\b{row.name}\b", code)]
    assert unused == [], "edit: csrc/algos/cost"


def test_a_row_that_lacks_a_field_is_refused():
    with pytest.raises(ValueError, match="wants 8"):
        costs.rows("cpu", 'COST(int, A_BYTES, 1 << (2), "bytes", "of (a), b",\n     "H200", "python x.py")')
    row = costs.rows("cpu", 'COST(int, A_BYTES, f(1, 2), "bytes", "of (a), b", "H200", "x.py", "D-001")')[0]
    assert (row.value, row.meaning, row.decision) == ("f(1, 2)", "of (a), b", "D-001")


# ---- the rest of csrc/algos --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ALGOS, ids=lambda path: path.name)
def test_no_cost_stands_outside_of_the_tables(path):
    name = path.relative_to(ROOT).as_posix()
    tables = [row.name for row in ROWS if not row.type and row.value == name]
    assert constants_left(path.read_text("utf-8"), tables) == [], f"each is {ADVICE}"


def test_tables_that_are_told_of_are_in_their_files():
    files = {path.relative_to(ROOT).as_posix() for path in ALGOS}
    assert {row.value for row in ROWS if not row.type} <= files


@pytest.mark.parametrize(
    "code",
    [
        "#define START 6500.0f /* of a launch */",
        "#define MOVED 40.0f",
        "#define LAUNCH 1e6f",
        "#define FREE_BYTES ((size_t)1 << 20)",
        "enum { A = 1, SLICE_BYTES = 4 * 1024 };",
        "products /= 0.78;",
        "static const struct tile tiles[] = {{14, 2, 1.05}, {7, 2, 1.0}};",
    ],
)
def test_a_cost_outside_is_found(code):
    assert constants_left(code, []) != []


def test_shapes_and_counts_are_no_costs():
    code = "enum { GROUP = 512 };\n#define UNIT 16 /* 0.5 of it */\nstep_cost(s, 0.0, 4.0 * bytes);\n"
    assert constants_left(code + '#define TEXT "0.7 of them"\n', []) == []
    table = "static const struct tile {\n    double cost;\n} tiles[] = {{1.05}, {7.5}}, other = {1.0};\n"
    assert constants_left(table, ["tiles"]) == []
    assert constants_left(table.replace("other = {1.0}", "other = {1.1}"), ["tiles"]) == ["1.1"]
