"""Rules of the source that no compiler checks: who sees whom, sizes, state, and how kernel files look."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cl_build import Compiler, paste
from clcnn import _core
from helpers import none_missing

ROOT = Path(__file__).resolve().parents[2]
CORE = sorted(path for path in (ROOT / "csrc").rglob("*") if path.suffix in (".c", ".h", ".def"))
KERNELS = sorted((ROOT / "kernels").rglob("*.cl"))
HEADERS = sorted(path for path in (ROOT / "kernels").rglob("*") if path.suffix in (".clh", ".h"))
ALGOS = sorted((ROOT / "csrc" / "algos").rglob("*.[ch]"))
MAX_LINES = 500
MAX_FILES = 40  # of a folder

# What the files of a folder of the core may include beside their own folder's. Argument blocks, which are
# shared with the kernels, have paths below kernels/.
BLOCKS = tuple(f"{path.name}/" for path in (ROOT / "kernels").iterdir() if path.is_dir())
MAY_INCLUDE = {
    "base": ("clcnn.h",),
    "ops": ("base/", "ops.def"),
    "graph": ("base/", "ops/"),
    "grad": ("base/", "ops/", "graph/"),
    "algos": ("base/", "ops/", "ops.def", "plan/step.h", "plan/emit.h", *BLOCKS),
    "runtime": ("base/", "plan/step.h", "chain/"),
    "plan": ("base/", "ops/", "graph/", "algos/", "runtime/"),
    "py": ("clcnn.h", "py.h"),
}
# State outside of handles, and why it is there.
STATE = {
    ("alloc.c", "lock"),  # failures that tests ask for
    ("alloc.c", "seen"),
    ("alloc.c", "calls"),
    ("fault.c", "lock"),
    ("fault.c", "armed"),
    ("fault.c", "fault"),
    ("cl.c", "once"),  # the loader's functions, written once
    ("cl.c", "table"),
    ("cl.c", "table_reason"),
    ("cl.c", "table_pid"),
    ("cl.c", "table_done"),
    ("driver_offer.c", "lock"),  # the driver that pip installed, written before and with that table
    ("driver_offer.c", "offered"),
    ("driver_offer.c", "list_platforms"),
    ("driver_offer.c", "failure"),
}
# Tables that CPython and NumPy take, or fill, without const.
PYTHON_STATE = re.compile(r"keys|\w+_(methods|getset|slots|spec)|py_module|PyArray_(API|RUNTIME_VERSION)")
# Kernels that belong to no single algorithm, with the file that emits them.
SHARED_KERNELS = {
    "byte_conv_pack": "byte_common.c",
    "byte_max_pool": "byte_pool.c",
    "byte_lookup": "byte_moves.c",
    "byte_mean": "byte_pool.c",
    "byte_scale": "byte_pool.c",
    "byte_pad": "byte_common.c",
    "conv_filter_grad_cores": "conv_filter_grad_wgmma.c",
    "conv_filter_grad_halves": "conv_filter_grad_scaled.c",
    "conv_filter_grad_join": "conv_filter_grad_scaled.c",
    "conv_filter_grad_rows": "conv_filter_grad_wgmma.c",
    "conv_filter_sizes": "conv_mma_common.c",
    "conv_halves": "conv_wgmma_halves.c",
    "conv_mma_pack": "conv_mma_common.c",
    "conv_pack": "conv_common.c",
    "conv_sum_parts": "conv_common.c",
    "conv_transpose_mma_pack": "conv_mma_common.c",
    "conv_transpose_pack": "conv_common.c",
    "conv_wgmma": "conv_mma_common.c",
    "conv_wgmma_pack": "conv_mma_common.c",
    "conv_wgmma_scaled_pack": "scaled_filters.c",
    "conv_wgmma_window_pack": "conv_wgmma_window.c",
    "from_bytes": "byte_moves.c",
    "gemm_finish": "gemm_clblast_common.c",
    "gemm_ref": "gemm_common.c",
    "gemm_sum_parts": "gemm_tiled.c",
    "linear_gemv_pack": "linear_gemv.c",
    "to_bytes": "byte_moves.c",
}


def code_of(path: Path) -> str:
    """The text without comments and without what strings say."""
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.DOTALL)
    return re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', text)


def in_core(path: Path) -> str:
    return path.relative_to(ROOT / "csrc").as_posix()


def test_decisions_are_kept_before_preferences():
    """What is passed over may be forced, and then workspace() and emit() take up what it has decided."""
    found = []
    for path in (p for p in ALGOS if p.suffix == ".c"):
        code = code_of(path)
        assert ("DECIDED(" in code) == ("DECIDE(" in code), path.name
        for body in code.split("\n}\n"):
            kept = [body.find(word) for word in ("DECIDE(", "mma_decide(") if word in body]
            found += kept
            assert not kept or "PREFER(" not in body[: min(kept)].rstrip().removesuffix("PREFER(why,"), (
                path.name
            )
    assert len(found) > 10


def test_algorithms_in_wide_vectors_say_so():
    """In a field, which tests read: one on channel blocks by its layouts, any other by .vectors."""
    told = 0
    for path in (p for p in ALGOS if p.suffix == ".c" and "const struct algo_def" in p.read_text()):
        code = code_of(path)
        by_layout = re.search(r"LAYOUT_(BLOCKED|FOLLOWS)", code)
        needed = "REQUIRE(why, p->block > 0" in code and not by_layout
        assert needed == (".vectors = true" in code), f"{path.name}: edit: .vectors of its struct algo_def"
        told += needed
    assert told


def test_files_are_short():
    """But for ops.pyi, which the operator tables write."""
    folders = [ROOT / name for name in ("csrc", "kernels", "python", "tests", "benchmarks")]
    kinds = (".c", ".h", ".cl", ".clh", ".py", ".pyi")
    files = [p for f in folders for p in f.rglob("*") if p.suffix in kinds and p.name != "ops.pyi"]
    assert len(files) > 100
    assert {p.name: n for p in files if (n := len(p.read_text().splitlines())) > MAX_LINES} == {}


def test_names_of_files_are_unique():
    """Steps name a kernel file, and messages a core file, without the folder."""
    for files in (CORE, [*KERNELS, *HEADERS]):
        names = Counter(path.name for path in files)
        assert [name for name, count in names.items() if count > 1] == []


def test_folders_are_small():
    folders = Counter(path.parent for path in [*CORE, *KERNELS, *HEADERS])
    assert {folder: n for folder, n in folders.items() if n > MAX_FILES} == {}


def test_every_argument_block_is_held_to_have_no_padding():
    blocks = {f"{path.parent.name}/{path.name}" for path in HEADERS if path.name.endswith("_args.h")}
    checked = ROOT / "csrc" / "algos" / "common" / "args_check.c"
    included = set(re.findall(r'#include "(.+_args\.h)"', checked.read_text()))
    none_missing(blocks ^ included, "csrc/algos/common/args_check.c (an #include)", "make setup")


@pytest.mark.parametrize("path", CORE, ids=in_core)
def test_folders_of_the_core_keep_to_themselves(path):
    """A folder includes those that it may know. OpenCL is called in runtime/ alone, Python in py/ alone."""
    folder, code, text = in_core(path).split("/")[0], code_of(path), path.read_text()
    for name in re.findall(r'#include "([^"]+)"', text):
        known = MAY_INCLUDE.get(folder, ("base/", "ops", "algos/"))
        assert name.startswith((*known, f"{folder}/")), f"{folder}/ must not know {name}"
    if folder != "runtime":
        assert re.findall(r"\bcl[A-Z]\w+\s*\(", code) == []
        assert not re.search(r"#include <CL/", text)
    if folder != "py":
        assert not re.search(r"#include <(Python.h|numpy/)", text)
        assert re.findall(r"\bPy[A-Z_]\w+\s*\(", code) == []


def test_no_state_outside_of_handles():
    """What the linker has put where it can be written to, by the file that it comes from."""
    if shutil.which("objdump") is None:
        pytest.skip("objdump (binutils) is not installed")
    listing = subprocess.run(["objdump", "-t", _core.__file__], capture_output=True, text=True, check=True)
    file, found = "", set()
    for line in listing.stdout.splitlines():
        words = line.split()
        if " df " in line:
            file = words[-1]
        elif re.search(r" O \.(data|bss)\s", line) and not words[-1].startswith(("__", "completed.")):
            found.add((file, words[-1].partition(".")[0]))
    if not any(name == "py_module" for _, name in found):
        pytest.skip("the module is stripped")
    assert {row for row in found if not PYTHON_STATE.fullmatch(row[1])} == STATE


@pytest.mark.parametrize("path", CORE, ids=in_core)
def test_the_library_neither_prints_nor_exits(path):
    calls = set(re.findall(r"\b(abort|exit|_exit|printf|puts|perror|assert|system)\s*\(", code_of(path)))
    # A step with more operands than there is room for is a mistake in an algorithm's file, on every input.
    assert calls <= ({"abort"} if in_core(path) == "plan/emit.c" else set())


@pytest.mark.parametrize("path", [*CORE, *KERNELS, *HEADERS], ids=lambda path: path.name)
def test_sources_are_finished(path):
    text = path.read_text()
    assert re.findall(r"\b(TODO|FIXME|XXX|HACK)\b", text) == []
    assert text.startswith("/*"), "a file says what it is for"


# ---- algorithms --------------------------------------------------------------------------------------------


def _emitted() -> dict[str, set[str]]:
    """Kernel file -> algorithm files whose text names it."""
    found: dict[str, set[str]] = {path.stem: set() for path in KERNELS}
    for path in ALGOS:
        for name in re.findall(r'"(\w+)"', path.read_text()):
            if name in found:
                found[name].add(path.name)
    return found


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernels_have_a_host_side_of_the_same_name(path):
    users = _emitted()[path.stem]
    file = f"csrc/algos/{path.parent.name}/{path.stem}.c"  # the same folder on both sides
    assert users, f"no algorithm emits {path.stem}\n    edit: {file}"
    if path.stem in SHARED_KERNELS:
        assert users == {SHARED_KERNELS[path.stem]}, "edit: SHARED_KERNELS in tests/meta/test_lint.py"
    else:
        edit = f"{file}, or SHARED_KERNELS in tests/meta/test_lint.py if another file emits {path.stem}"
        none_missing([] if (ROOT / file).exists() else [file], edit, "make setup")


def test_every_line_of_the_registry_is_defined_once():
    rows = re.findall(r"^ALGO\((\w+), (\w+)\)", (ROOT / "csrc" / "ops.def").read_text(), re.MULTILINE)
    names, text = {path.name for path in ALGOS}, "".join(path.read_text() for path in ALGOS)
    operators = re.findall(r"^OP\((\w+)\)", (ROOT / "csrc" / "ops.def").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows)) > 40
    alone = {op for op, _ in rows} ^ set(operators)
    none_missing(alone, "csrc/ops.def (an OP and an ALGO line)", "make setup")
    for op, algo in rows:
        own = f"{op}_{algo}.c"
        edit = f"csrc/algos/<family>/{own} (struct algo_def algo_{op}_{algo})"
        defined = own in names or re.search(rf"\b(algo_{op}_{algo}|{op})\b", text)
        none_missing([] if defined else [f"ALGO({op}, {algo})"], edit, "make setup")


# ---- kernel files ------------------------------------------------------------------------------------------


def _definitions(code: str) -> list[str]:
    """Names of functions defined at file scope, as written."""
    return re.findall(r"^(?!#)(?:[\w*]+[ \t]+)+\**(FN\(\w+\)|\w+)\s*\(", code, re.MULTILINE)


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernel_files_have_the_common_form(path):
    text, code = path.read_text(), code_of(path)
    head = text[: text.index("*/")]
    for part in ("Work-group:", "Local memory:", "Defines:"):
        assert part in head, f"the opening comment lacks {part!r}"
    assert '#include "common/clcnn.clh"' in text
    assert head.startswith(f"/* {path.name}: ")
    assert f"#ifndef FN\n#define FN(x) {path.stem}_##x\n#endif" in text
    names = _definitions(code)
    assert any("body" in name for name in names)
    assert [name for name in names if not name.startswith("FN")] == []
    assert re.search(r"^KERNEL FN\(\w+\)\(", code, re.MULTILINE)
    assert not re.search(r"\b(inline|half(?! \*)|double|ctz|printf)\b", code)
    assert not re.search(r"\bkernel\b", code), "entries are opened with KERNEL"


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_bodies_can_be_chained(path):
    """A body takes its group index, knows no other, never returns early; local memory is float4 scratch."""
    code = code_of(path)
    bodies = re.findall(r"^void FN\((\w*body)\)\(ulong group,", code, re.MULTILINE)
    entries = re.findall(r"^KERNEL FN\((\w+)\)\(", code, re.MULTILINE)
    assert len(bodies) == len(entries) - ("PHASES" in code)  # conv_mma: an entry each for two argument blocks
    for match in re.finditer(r"^KERNEL [^{;]*\{(.*?)^\}", code, re.MULTILINE | re.DOTALL):
        assert re.findall(r"^ +local (?!float4 scratch\[).*", match[1], re.MULTILINE) == []
    for match in re.finditer(r"^(void FN\(\w*body\)\([^{]*\{.*?^\})", code, re.MULTILINE | re.DOTALL):
        body = match[1]
        assert not re.search(r"\breturn\b", body)
        assert not re.search(r"\bget_(group_id|global_id|num_groups)\b", body)


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    opened = Compiler()
    yield opened
    opened.close()


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_kernel_files_compile_alone(compiler, path):
    """With every tuning define at its default; a required one must say so in words."""
    code, log = compiler.build(paste(path))
    required = re.findall(r'#error "([^"]+)"', paste(path))
    if code != 0 and any(text in log for text in required):
        return
    assert code == 0, log
    harmless = ("not unrolled", "changes the ABI")  # the latter where a default V is wider than the device's
    found = [line for line in log.splitlines() if "warning" in line]
    assert [line for line in found if not any(text in line for text in harmless)] == []
