"""The documents hold their limits, and what they point at is there: links, anchors, paths, decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

FOLDERS = ("benchmarks", "csrc", "docs", "kernels", "notebooks", "python", "tests")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.md"))])
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
PAGES = [p for p in DOCUMENTS if p.is_relative_to(ROOT / "docs") and p.name != "README.md"]
SOURCES = (".c", ".h", ".def", ".cl", ".clh", ".py")
MOST_LINES = {"README.md": 200, "docs/architecture.md": 150}
RECORD_LINES, RECORD_COLUMNS = 40, 120
PARTS = ("Context", "Decision", "Evidence", "Rejected", "Code")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """The text without fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


# ---- limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MOST_LINES)
def test_pages_that_people_read_first_are_short(name):
    assert len((ROOT / name).read_text("utf-8").splitlines()) <= MOST_LINES[name]


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_records_are_short_and_have_all_parts(path):
    text = path.read_text("utf-8")
    lines = text.splitlines()
    assert len(lines) <= RECORD_LINES, "split it, or leave out what the code says"
    assert max(map(len, lines)) <= RECORD_COLUMNS
    assert lines[0].startswith(f"# D-{path.name[:3]}: "), "the first line is '# D-<number>: <title>'"
    status = re.fullmatch(r"Status: \w.* · \d{4}-\d\d-\d\d", lines[2])
    assert status, "the third line is 'Status: ... · <date>'"
    assert tuple(re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE)) == PARTS


def test_records_are_numbered_and_in_the_index():
    assert [path.name[:3] for path in RECORDS] == [f"{i + 1:03d}" for i in range(len(RECORDS))]
    index = (ROOT / "docs" / "decisions" / "README.md").read_text("utf-8")
    for path in RECORDS:
        number, title = path.read_text("utf-8").splitlines()[0].removeprefix("# ").split(": ", 1)
        assert f"| [{number}]({path.name}) | {title} |" in index, "add its row to docs/decisions/README.md"


def test_decisions_that_are_cited_exist():
    files = [p for name in FOLDERS for p in (ROOT / name).rglob("*") if p.suffix in (".md", *SOURCES)]
    known = {path.name[:3] for path in RECORDS}
    for path in [*DOCUMENTS, *files]:
        cited = set(re.findall(r"\bD-(\d{3})\b", path.read_text("utf-8")))
        assert cited <= known, f"{name_of(path)} cites D-{min(cited - known)}, which does not exist"


# ---- links and paths ---------------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """What a link may name after `#`: headings in lower case, spaces as hyphens, without punctuation."""
    headings = re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken(path: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
        if re.match(r"\w+:", target):
            continue  # of the web
        file, _, anchor = target.partition("#")
        place = (path.parent / file).resolve() if file else path
        if not place.exists() or (anchor and anchor not in anchors(place)):
            yield target


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_no_link_is_dead(path):
    assert list(broken(path)) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One page\n[a](page.md) [b](#one-page) [c](none.md) [d](page.md#two) [e](https://x.org)\n"
    )
    assert list(broken(page)) == ["none.md", "page.md#two"]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_files_that_are_named_exist(path):
    """Paths from the root within backticks, those of commands too; `*` stands for any name."""
    code = " ".join(re.findall(r"`([^`]+)`", prose(path)))
    named = re.findall(rf"(?<![\w./])(?:{'|'.join(FOLDERS)})/[\w./*-]*", code)
    assert [name for name in named if not any(ROOT.glob(name.rstrip("/")))] == []


@pytest.mark.parametrize("path", [p for p in DOCUMENTS if p.parts[-2] != "benchmarks"], ids=name_of)
def test_sources_are_named_by_their_path(path):
    """A bare name is hard to find, and goes stale unseen when the file moves."""
    assert re.findall(r"`[\w-]+\.(?:c|h|def|cl|clh|py)`", prose(path)) == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_page_of_docs_is_in_an_index(path):
    """Of docs/README.md, or of docs/decisions/README.md."""
    index = path.parent / "README.md"
    index = index if index.exists() else ROOT / "docs" / "README.md"
    assert path.relative_to(index.parent).as_posix() in index.read_text("utf-8")
