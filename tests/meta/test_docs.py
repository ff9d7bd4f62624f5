"""The documents say what is so: examples run, tables agree with the code, everything public is described."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from conftest import DEVICE, ROOT

import clcnn
import docgen
from clcnn import _core, cli
from clcnn.classify import MissingExtraError
from helpers import none_missing

DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PUBLIC_MODULES = (
    "clcnn",
    "clcnn.capi",
    "clcnn.classify",
    "clcnn.errors",
    "clcnn.image",
    "clcnn.model_io",
    "clcnn.nn",
    "clcnn.nn.functional",
    "clcnn.nn.init",
    "clcnn.onnx",
    "clcnn.onnx.backend",
    "clcnn.onnx.verify",
    "clcnn.ops",
    "clcnn.optim",
    "clcnn.optim.lr_scheduler",
    "clcnn.ort_values",
    "clcnn.plan_group",
    "clcnn.plot",
    "clcnn.ray",
    "clcnn.train",
    "clcnn.report",
    "clcnn.session",
    "clcnn.session_options",
    "clcnn.state",
    "clcnn.weights",
    "clcnn.wisdom",
    "clcnn.wisdom.measure",
    "clcnn.wisdom.profile",
    "clcnn.zoo",
)


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def blocks(language: str, text: str) -> list[str]:
    """The fenced blocks of a language, those in lists too."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```$", text, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


def test_precision_names_the_algorithms_whose_rounding_adds_to_their_bound():
    paragraphs = read("docs/precision.md").split("\n\n")
    for rounding, words in {
        "tf32_parts": "add 2^-19",
        "24_bits": "adds 2^-20",
        "bf16_parts": "parts of operands are normal numbers",
    }.items():
        (text,) = [paragraph for paragraph in paragraphs if words in paragraph]
        known = {
            name
            for op in _core.ops().values()
            for name, facts in op["algos"].items()
            if facts["error_rounding"] == rounding
        }
        assert set(re.findall(r"`(\w+)`", text)) == known, f"docs/precision.md: {rounding} is of {known}"


EXAMPLES = [
    pytest.param(code, id=f"{path.relative_to(ROOT).as_posix()}-{i}")
    for path in DOCUMENTS
    for i, code in enumerate(blocks("python", path.read_text("utf-8")))
]


# ---- what can be run ----


@pytest.mark.parametrize("code", EXAMPLES)
def test_examples_run_as_printed(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLCNN_DEVICE", DEVICE)
    names: dict[str, object] = {"__name__": "example"}
    try:
        exec(compile(code, "example", "exec"), names)
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert ("print(" in code) == bool(capsys.readouterr().out)
    plan = names.get("plan")
    if isinstance(plan, clcnn.Plan):
        plan.close()


def test_first_example_is_short_and_says_what_it_gives(monkeypatch):
    code = blocks("python", read("README.md"))[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    monkeypatch.setenv("CLCNN_DEVICE", DEVICE)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    shape = re.search(r"shape \(([\d, ]+)\)", code)
    assert shape is not None
    assert names["y"].shape == tuple(map(int, shape.group(1).split(",")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_commands_are_understood(path):
    lines = "".join(blocks("sh", path.read_text("utf-8"))).splitlines()
    words = [found for line in lines if (found := shlex.split(line, comments=True))]
    ours = [w[3:] for w in words if w[:3] == ["python", "-m", "clcnn"]]
    assert {w[0] for w in ours} <= set(cli.COMMANDS)
    for arguments in ours:
        cli.parser().parse_args(arguments)
    targets = re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE)
    assert {w[1] for w in words if w[0] == "make"} <= set(targets)
    scripts = [w[1] for w in words if w[0] == "python" and w[1] != "-m"]
    assert [name for name in scripts if not (ROOT / name).is_file()] == []
    assert [w[0] for w in words if w[0] not in ("make", "pip", "python")] == []


# ---- tables ----


@pytest.mark.parametrize("document", docgen.BLOCKS)
def test_generated_tables_are_up_to_date(document):
    assert docgen.updated(document) == read(document), f"{document} is old: run make docs"


@pytest.mark.parametrize("missing", ["begin", "end"])
def test_a_missing_marker_is_named(missing, tmp_path, monkeypatch):
    text = read("docs/errors.md").replace(f"<!-- errors:{missing} -->", "")
    (tmp_path / "errors.md").write_text(text, "utf-8")
    monkeypatch.setattr(docgen, "ROOT", tmp_path)
    monkeypatch.setitem(docgen.BLOCKS, "errors.md", {"errors": lambda: ""})
    with pytest.raises(ValueError, match=f"errors:{missing}"):
        docgen.updated("errors.md")


def test_every_kernel_file_is_listed_and_launched():
    text = read("docs/reference/kernels.md")
    rows = {cells[1].strip("` "): cells for line in text.splitlines() if len(cells := line.split("|")) > 4}
    for path in (ROOT / "kernels").rglob("*"):
        if path.suffix in (".cl", ".clh", ".h"):
            name = path.relative_to(ROOT).as_posix()
            none_missing({name} - set(rows), "docs/reference/kernels.md", "make docs")
            edit = f"the opening comment of {name}, or csrc/algos/, where nothing launches it"
            whole = all(cell.strip() for cell in rows[name][1:-1])
            assert whole, f"{name} has no text or no user\n    edit: {edit}"


def test_every_operator_is_in_the_table():
    listed = re.findall(r"`(\w+)`", read("docs/reference/operators.md"))
    none_missing(set(clcnn._core.ops()) - set(listed), "docs/reference/operators.md", "make docs")


def test_every_exception_is_in_the_table():
    found = set()
    for name in PUBLIC_MODULES:
        found |= {o.__name__ for _, o in public_names(importlib.import_module(name)) if is_exception(o)}
    listed = set(re.findall(r"^\| `[\w.]+\.(\w+)`", read("docs/errors.md"), re.MULTILINE))
    none_missing((found - {"Error"}) ^ listed, "exceptions() in tests/lib/docgen.py", "make docs")


def test_version_has_an_entry_in_the_changelog():
    text = read("CHANGELOG.md")
    assert re.search(rf"^## \[(?:Unreleased\] \()?{re.escape(clcnn.__version__)}[\])]", text, re.MULTILINE)


# ---- environment variables ----

VARIABLE = r"[A-Z][A-Z0-9_]*[A-Z0-9]"


def variables_of_c(text: str) -> set[str]:
    """Names given to getenv(), and those in tables that a getenv() walks over."""
    if "getenv(" not in text:
        return set()
    return set(re.findall(rf'getenv\("({VARIABLE})"\)', text)) | set(
        re.findall(rf'"((?:CLCNN|OCL|OPENCL)_{VARIABLE})"', text)
    )


def variables_of_python(text: str) -> set[str]:
    """Names read from os.environ, and those that setup.py makes of its variants."""
    found = set(re.findall(rf'(?:environ\.\w+|getenv)\(\s*"({VARIABLE})"', text))
    found |= set(re.findall(rf'environ\["({VARIABLE})"\](?! = )', text))
    variants = re.search(r"^VARIANTS = (\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    if variants and 'f"CLCNN_{name}"' in text:
        found |= {f"CLCNN_{name}" for name in ast.literal_eval(variants.group(1))}
    return found


def variables_of_make(text: str) -> set[str]:
    """Names with a default from the environment: NAME ?= in the Makefile, ${NAME:-} in scripts."""
    return {a or b for a, b in re.findall(rf"\b({VARIABLE}) \?=|\$\{{({VARIABLE}):-", text)}


# What the benchmarks tell other libraries, not something to be set for ours.
OF_OTHERS = {"DEV", "POCL_CACHE_DIR", "OPENCV_DNN_OPENCL_ALLOW_ALL_DEVICES", "OPENCV_FORCE_DNN_ENGINE"}


def variables_read() -> set[str]:
    """Every environment variable that the project reads, but for those that tests only pass on."""
    readers = [(path, variables_of_c) for path in (ROOT / "csrc").rglob("*.c")]
    for folder in ("python", "benchmarks", "tests"):
        readers += [(path, variables_of_python) for path in (ROOT / folder).rglob("*.py")]
    readers += [(ROOT / "setup.py", variables_of_python)]
    readers += [(ROOT / "Makefile", variables_of_make), (ROOT / ".ci" / "system", variables_of_make)]
    read = set().union(*(reader(path.read_text("utf-8")) for path, reader in readers))
    return read - {"PYTHONPATH", "LD_PRELOAD", *OF_OTHERS}  # Python's own, the dynamic linker's


def test_environment_table_agrees_with_the_code():
    rows = re.findall(r"^\| (`[^|]+) \|", read("docs/environment.md"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(listed) == len(set(listed))
    assert set(listed) == variables_read()


def test_test_hooks_are_apart_from_the_users_variables():
    parts = re.split(r"\n## .*\n", read("docs/environment.md"))[1:]
    section_of = dict(zip(("use", "build", "test"), parts, strict=True))
    for name in ("CLCNN_FAULT", "CLCNN_FAIL_ALLOC", "CLCNN_TEST_DEVICE"):
        assert [kind for kind, text in section_of.items() if name in text] == ["test"]


# ---- docstrings ----


def is_exception(thing: object) -> bool:
    return inspect.isclass(thing) and issubclass(thing, clcnn.Error)


def public_names(module: ModuleType) -> list[tuple[str, object]]:
    """What `__all__` names, else what the module itself defines without an underscore."""
    if hasattr(module, "__all__"):
        return [(name, getattr(module, name)) for name in module.__all__]
    return [
        (name, thing)
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__
    ]


def members(kind: type) -> list[str]:
    """Public methods and properties that a class or its bases in this package define."""
    ours = [base for base in kind.__mro__ if base.__module__.startswith("clcnn")]
    methods = (staticmethod, classmethod, property)
    return sorted(
        {
            name
            for base in ours
            for name, thing in vars(base).items()
            if not name.startswith("_") and (inspect.isroutine(thing) or isinstance(thing, methods))
        }
    )


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_everything_public_has_a_docstring(name):
    module = importlib.import_module(name)
    silent = [] if inspect.getdoc(module) else [name]
    for path, thing in public_names(module):
        if not (inspect.isclass(thing) or inspect.isroutine(thing)):
            continue
        if not thing.__doc__:
            silent.append(path)
        if inspect.isclass(thing):
            silent += [f"{path}.{m}" for m in members(thing) if not inspect.getdoc(getattr(thing, m))]
    assert silent == []


def test_public_modules_are_all_of_them():
    """A new module is either public, and then described above, or one of those that only serve the others."""
    inner = {"calibration", "cli", "compiler", "device", "gradients", "graph"}
    inner |= {"mlserver", "plan", "selftest", "sources", "tensor", "value", "zeros"}
    folder = Path(clcnn.__file__).parent
    found = {p.stem if p.is_file() else p.name for p in folder.iterdir() if p.suffix == ".py" or p.is_dir()}
    public = {name.split(".")[1] for name in PUBLIC_MODULES if "." in name}
    assert {name for name in found if not name.startswith("_")} == public | inner
