"""Formats the kernels: clang-format by kernels/.clang-format, then comments of at most 120 columns.

    python tests/lib/kernel_format.py            write
    python tests/lib/kernel_format.py --check    only say which files would change

Only white space and the place of comments may change: a file whose tokens would differ is left as it is.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing.pool import ThreadPool
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 120
COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/', re.DOTALL)
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\.?\d(?:[eEpP][+-]|[\w.])*|\w+|[^\w\s]')
# clang-format sees no name in FN(name) and a cast in (name) - 1: it is shown names of the same width.
MASKS = (
    (re.compile(r"\bFN\((\w+)\)"), r"FNØ\1Ø"),
    (re.compile(r"(?<![\w)])\(([A-Za-z_]\w*)\)(?= [-+*&] )"), r"Ø\1Ø"),
)
MASKED = re.compile(r"Ø(\w+?)Ø")

BEHIND_CODE = re.compile(r"(?P<code>(?P<indent> *)[^ /].*?) *(?P<comment>/\*(?:(?!\*/).)*\*/)")
OPENING = re.compile(r"(?P<indent> *)(?P<mark>/\*|\*|)(?P<gap> *)")
ROW = re.compile(r"\S+(?: \S+){0,3} {2,}(?=\S)")


def tokens(text: str) -> list[str]:
    """What a compiler sees: each directive on a line of its own, no comments, no white space."""
    text = COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else " ", text).replace("\\\n", " ")
    found: list[str] = []
    for line in text.split("\n"):
        words = TOKEN.findall(line)
        found += ["\n", *words, "\n"] if words[:1] == ["#"] else words
    return found


def masked(line: str) -> str:
    if line.lstrip().startswith("#define FN("):
        return line
    for pattern, name in MASKS:
        line = pattern.sub(name, line)
    return line


def by_clang_format(text: str) -> str:
    shown = "\n".join(masked(line) for line in text.split("\n"))
    tool = str(Path(sys.executable).parent / "clang-format")
    style = f"--style=file:{ROOT / 'kernels' / '.clang-format'}"
    command = [tool, style, "--assume-filename=kernel.c"]
    done = subprocess.run(command, input=shown, capture_output=True, text=True, check=True)
    return MASKED.sub(r"(\1)", done.stdout)


def lifted(text: str) -> str:
    """Comments that make a line of code too long stand above it; below, where a block ends and one begins."""
    lines: list[str] = []
    for line in text.split("\n"):
        match = BEHIND_CODE.fullmatch(line)
        if len(line) <= COLUMNS or not match or (lines and lines[-1].endswith("\\")):
            lines.append(line)
        elif line.lstrip().startswith("}"):
            lines += [match["code"], f"{match['indent']}    {match['comment']}"]
        else:
            lines += [match["indent"] + match["comment"], match["code"]]
    return "\n".join(lines)


def comment_lines(lines: Sequence[str]) -> set[int]:
    """Numbers of the lines that are nothing but comment."""
    found, inside = set(), False
    for i, line in enumerate(lines):
        if inside or line.lstrip().startswith("/*"):
            rest = line if inside else line.lstrip()[2:]
            inside = "*/" not in rest
            if inside or rest.rstrip().endswith("*/") and rest.count("*/") == 1:
                found.add(i)
    return found


def head_of(line: str) -> str:
    """What stands before the words of a comment's line that goes on from another one."""
    match = OPENING.match(line)
    assert match
    return match["indent"] + (" * " if match["mark"] == "/*" else match["mark"] + match["gap"])


def goes_on(line: str, below: str) -> tuple[str, bool]:
    """What the words that are too much in `line` begin with, and whether they go to the front of the line
    below. A row of a table has a column for its text."""
    head, under = head_of(line), head_of(below) if below else ""
    row = ROW.match(line[len(head) :])
    if row:
        indented = under.startswith(head + " ")
        head = under if indented else head + " " * row.end()
    words = below[len(under) :]
    plain = under == head and words and not ROW.match(words) and not words.startswith("*/")
    return head, bool(plain) and not line.endswith((".", "*/"))


def wrapped(text: str) -> str:
    """Comments of at most COLUMNS columns. What is too much goes to the next line, to its front where a
    sentence goes on there; so a line that says something of its own still begins with it."""
    lines = text.split("\n")
    i = 0
    while i < len(lines):
        line, comments = lines[i], comment_lines(lines)
        at = line.removesuffix(" */").rfind(" ", 0, COLUMNS + 1)
        below = lines[i + 1] if i + 1 in comments else ""
        if len(line) > COLUMNS and i in comments and at > len(head_of(line)):
            head, joined = goes_on(line, below)
            rest = head + line[at + 1 :]
            lines[i] = line[:at].rstrip()
            lines[i + 1 : i + 1 + joined] = [f"{rest} {below[len(head) :]}" if joined else rest]
        i += 1
    return "\n".join(lines)


def formatted(text: str) -> str:
    """Once more as long as something changes: a comment that has moved lets a line of code be joined."""
    for _ in range(4):
        before, text = text, wrapped(lifted(by_clang_format(lifted(text))))
        if text == before:
            break
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description="Formats the kernels.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file would change")
    check = parser.parse_args().check
    kernels = sorted(p for p in (ROOT / "kernels").rglob("*") if p.suffix in (".cl", ".clh", ".h"))
    with ThreadPool() as pool:
        results = pool.map(lambda path: formatted(path.read_text("utf-8")), kernels)
    wrong = []
    for path, new in zip(kernels, results, strict=True):
        old, name = path.read_text("utf-8"), path.relative_to(ROOT)
        long = [i for i, line in enumerate(new.split("\n"), 1) if len(line) > COLUMNS]
        wrong += [f"{name}:{i}: more than {COLUMNS} columns" for i in long]
        if tokens(new) != tokens(old):
            wrong.append(f"{name}: formatting would change its tokens")
        elif new != old and check:
            wrong.append(f"{name}: not formatted; run make format")
        elif new != old:
            path.write_text(new, "utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
