"""Inside a folder of the core files form a stack: a file calls what lies below it, never in a circle."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CSRC = ROOT / "csrc"
FOLDERS = sorted(path.name for path in CSRC.iterdir() if path.is_dir())
TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)
# A function that other files can call: it begins its line, and its body the next one.
DEFINITION = re.compile(r"^(?!static\b|typedef\b)[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\n\{", re.MULTILINE)

Calls = Mapping[str, Mapping[str, list[str]]]  # caller: {called file: functions}


def calls_between(sources: Mapping[str, str]) -> Calls:
    """Which file names which functions of another. Tables of functions count: they are there to be called."""
    code = {name: TEXT.sub(" ", text) for name, text in sources.items()}
    home = {function: name for name, text in code.items() for function in DEFINITION.findall(text)}
    calls: dict[str, dict[str, list[str]]] = {name: {} for name in code}
    for name, text in code.items():
        for word in sorted(set(re.findall(r"\w+", text)) & home.keys()):
            if home[word] != name:
                calls[name].setdefault(home[word], []).append(word)
    return calls


def circles(calls: Calls) -> list[list[str]]:
    """Groups of files that reach each other."""
    reached: dict[str, set[str]] = {}
    for start in calls:
        seen: set[str] = set()
        todo = list(calls[start])
        while todo:
            name = todo.pop()
            if name not in seen:
                seen.add(name)
                todo += calls[name]
        reached[start] = seen
    groups = {tuple(sorted(n for n in seen if a in reached[n])) for a, seen in reached.items() if a in seen}
    return [list(group) for group in sorted(groups)]


def told(group: list[str], calls: Calls) -> str:
    lines = [
        f"  {a} calls {b}: {', '.join(calls[a][b])}" for a in group for b in sorted(calls[a]) if b in group
    ]
    return "\n".join([f"{', '.join(group)} call each other in a circle:", *lines])


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_of_a_folder_are_a_stack(folder):
    sources = {p.relative_to(CSRC).as_posix(): p.read_text() for p in sorted((CSRC / folder).rglob("*.c"))}
    calls = calls_between(sources)
    found = circles(calls)
    assert not found, "\n".join(
        [
            *(told(group, calls) for group in found),
            "move what both sides need into a file below them (docs/architecture.md, The stacks)",
        ]
    )


def test_a_circle_is_found_and_named():
    """Two files in a circle, one above them, and one that speaks of another in comments and strings only."""
    sources = {
        "top.c": "int top(void)\n{\n    return left(1);\n}\n",
        "left.c": "int left(int a)\n{\n    return right(a);\n}\n",
        "right.c": "static int go(int a)\n{\n    left(a);\n}\n\nint right(\n    int a)\n{\n    go(a);\n}\n",
        "low.c": '/* right() */\nint low(void)\n{\n    return say("left(");\n}\n',
    }
    calls = calls_between(sources)
    assert calls["low.c"] == {}
    assert circles(calls) == [["left.c", "right.c"]]
    text = told(["left.c", "right.c"], calls)
    assert "left.c calls right.c: right" in text and "right.c calls left.c: left" in text
    assert "top.c" not in text


def test_functions_of_the_core_are_found():
    """The walk cannot pass because it sees nothing: most files of the planner offer something to others."""
    sources = {p.name: p.read_text() for p in (CSRC / "plan").rglob("*.c")}
    offered = {name for called in calls_between(sources).values() for name in called}
    assert len(offered) >= len(sources) - 3, sorted(sources.keys() - offered)
