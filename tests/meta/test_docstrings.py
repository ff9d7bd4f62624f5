"""Docstrings of what is public: examples run, and those that people call have numpydoc's sections."""

from __future__ import annotations

import doctest
import enum
import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import DEVICE
from test_docs import PUBLIC_MODULES, is_exception, members, public_names

import clcnn
from helpers import none_missing

# Beyond clcnn.__all__: modules of which every name is described so, and some names of others.
WHOLE = (
    "clcnn.nn",
    "clcnn.nn.functional",
    "clcnn.nn.init",
    "clcnn.image",
    "clcnn.plot",
    "clcnn.weights",
    "clcnn.optim",
    "clcnn.optim.lr_scheduler",
    "clcnn.train",
    "clcnn.zoo",
    "clcnn.model_io",
    "clcnn.onnx",
    "clcnn.onnx.backend",
    "clcnn.onnx.verify",
    "clcnn.ort_values",
    "clcnn.plan_group",
    "clcnn.report",
    "clcnn.session",
    "clcnn.state",
    "clcnn.wisdom",
    "clcnn.wisdom.measure",
    "clcnn.wisdom.profile",
)
ALSO = {
    "clcnn.classify": ["Classifier", "class_name", "packaged_weights", "sample_photos", "softmax"],
    "clcnn.calibration": ["calibrate"],
    "clcnn.graph": ["trace"],
    "clcnn.ray": ["Predictor"],
    "clcnn.zeros": ["LayerZeros", "Zeros"],
}
# Functions that onnxruntime's programs call and that do nothing or take nothing.
PLAIN = {name for name in clcnn.__all__ if re.match(r"(get|set|enable|disable|preload)_", name)}
# What compile() and load() make, not people.
MADE = {"clcnn.Plan", "clcnn.model_io.GraphModel"}
# Classes of which every method that takes arguments has a section for them, for what it gives, and examples.
METHODS = (
    "Device",
    "Graph",
    "InferenceSession",
    "Plan",
    "PlanGroup",
    "Profile",
    "State",
    "Tensor",
    "Value",
    "Zeros",
)
METHODS += ("classify.Classifier", "image.Preset", "nn.Module", "onnx.Model", "train.Trainer")
# Methods whose example is that of another one, or of the class.
ELSEWHERE = {"Module.forward", "PlanGroup.profile", "Trainer.restore"}
ELSEWHERE |= {
    f"Module.{name}" for name in ("build", "constant", "register_parameter", "requires_grad_", "train")
}
# Methods in C that give nothing, which their signatures cannot tell.
NOTHING = {"State.write", "Tensor.write"}
# Methods that only refuse, or that the package alone calls.
INNER = {"InferenceSession.prepared", "PlanGroup.step"}


def described() -> Iterator[tuple[str, Any]]:
    """What has to have an example, and a section for its arguments."""
    for name in clcnn.__all__:
        thing = getattr(clcnn, name)
        kind = inspect.isclass(thing) or inspect.isfunction(thing)
        if not kind or name in PLAIN or is_exception(thing):
            continue
        if not (inspect.isclass(thing) and issubclass(thing, enum.Enum)):
            yield f"clcnn.{name}", thing
    for module in WHOLE:
        for name, thing in public_names(importlib.import_module(module)):
            if (inspect.isclass(thing) or inspect.isroutine(thing)) and not is_exception(thing):
                yield f"{module}.{name}", thing
    for module, names in ALSO.items():
        for name in names:
            yield f"{module}.{name}", getattr(importlib.import_module(module), name)


def lacks(thing: Any, *titles: str) -> bool:
    """Whether a docstring has none of these sections."""
    text = inspect.getdoc(thing) or ""
    return not any(f"{title}\n{'-' * len(title)}\n" in text for title in titles)


def takes(thing: Any) -> list[str]:
    """The arguments of a function, a method or a class."""
    return [p for p in inspect.signature(thing).parameters if p not in ("self", "args", "kwargs")]


def test_what_people_call_has_sections() -> None:
    missing = []
    for name, thing in described():
        text = inspect.getdoc(thing) or ""
        for title in re.findall(r"^(\w[\w ]*)\n-{3,}$", text, re.MULTILINE):
            rule = text.partition(f"{title}\n")[2].splitlines()[0]
            assert len(rule) == len(title), f"{name}: the rule below {title}"
        facts = ["Attributes"] if inspect.isclass(thing) else []  # of rows, and of what compile() gives
        if takes(thing) and name not in MADE and lacks(thing, "Parameters", *facts):
            missing.append(f"{name}: Parameters")
        if lacks(thing, "Examples"):
            missing.append(f"{name}: Examples")
    none_missing(missing, "the docstring", "python -m pytest tests/meta/test_docstrings.py")


def test_methods_that_take_something_have_sections() -> None:
    missing = []
    for path in METHODS:
        module, _, name = f"clcnn.{path}".rpartition(".")
        kind = getattr(importlib.import_module(module), name)
        for method in members(kind):
            thing, called = getattr(kind, method), f"{name}.{method}"
            ours = inspect.isfunction(thing) or inspect.ismethod(thing) or inspect.ismethoddescriptor(thing)
            if not ours or not takes(thing) or called in INNER:
                continue
            needed = [("Parameters",)]
            if called not in NOTHING and inspect.signature(thing).return_annotation not in ("None", None):
                needed.append(("Returns", "Yields"))
            if called not in ELSEWHERE:
                needed.append(("Examples",))
            missing += [f"{called}: {' or '.join(titles)}" for titles in needed if lacks(thing, *titles)]
    none_missing(missing, "the docstring", "python -m pytest tests/meta/test_docstrings.py")


def test_exceptions_have_an_example() -> None:
    found = {
        thing.__name__: thing
        for module in PUBLIC_MODULES
        for _, thing in public_names(importlib.import_module(module))
        if is_exception(thing)
    }
    missing = [f"{name}: Examples" for name, thing in found.items() if lacks(thing, "Examples")]
    none_missing(missing, "the docstring", "python -m pytest tests/meta/test_docstrings.py")


def examples() -> Iterator[doctest.DocTest]:
    """The examples of everything public, and of their methods, those of bases in this package too, each
    once."""
    finder, seen = doctest.DocTestFinder(exclude_empty=True), set()
    for name in PUBLIC_MODULES:
        module = importlib.import_module(name)
        found = finder.find(module.__doc__ or "", name)
        for path, thing in public_names(module):
            if inspect.ismodule(thing):
                continue
            bases = thing.__mro__[1:] if inspect.isclass(thing) else ()
            ours = [base for base in bases if base.__module__.startswith("clcnn.")]
            for kind, label in [(thing, f"{name}.{path}"), *((base, base.__qualname__) for base in ours)]:
                home = importlib.import_module(getattr(kind, "__module__", name))
                found += finder.find(kind, label, home)
        for test in found:
            text = test.docstring or ""
            if test.examples and text not in seen:
                seen.add(text)
                yield test


@pytest.mark.parametrize("test", [pytest.param(test, id=test.name) for test in examples()])
def test_examples_run(test: doctest.DocTest, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLCNN_DEVICE", DEVICE)
    if "onnx" in test.docstring:
        pytest.importorskip("onnx")
    test.globs = {"__name__": "example"}
    told: list[str] = []
    done = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert not done.failed, "".join(told)


def test_there_are_examples() -> None:
    assert len(list(examples())) >= 20
