"""A network run by clcnn under some options, and a verdict on what comes out."""

from __future__ import annotations

import random
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import clcnn
import clcnn.onnx
from clcnn.onnx import verify
from fuzz import oracle
from fuzz.oracle import MORE_DRAWS, Oracle

Array = NDArray[Any]
Arrays = Mapping[str, Array]


@dataclass(frozen=True)
class Options:
    """How a network is run. route: "compile", "session" (InferenceSession), "saved" and "exported" (through a
    model file, or an ONNX file, of our own). way: "call", "clone" or "map" of the plan. force: a seed of
    algorithms to take instead of those that the rules choose, 0 for these."""

    route: str = "compile"
    way: str = "call"
    precision: str = "highest"
    fuse: bool = True
    chain: bool | None = None
    batch_part: int = 0
    tune: str = "table"
    guard: bool = False
    workspace_limit: int = 64 << 20
    force: int = 0

    def __str__(self) -> str:
        given = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return ", ".join(f"{name}={value!r}" for name, value in given) or "defaults"

    def compiled(self) -> dict[str, Any]:
        """The keywords of clcnn.compile()."""
        ours = ("route", "way", "force")
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ours}


def some_options(rng: random.Random, batch: int) -> Options:
    """Random ones; chains seldom, since PoCL compiles each set of steps anew."""
    return Options(
        route=rng.choice(["compile"] * 7 + ["session", "saved", "exported"]),
        way=rng.choice(["call"] * 5 + ["clone", "map"]),
        precision=rng.choice(["highest", "highest", "strict", "high", "medium"]),
        fuse=rng.random() < 0.7,
        chain=True if rng.random() < 0.12 else rng.choice([None, False]),
        batch_part=rng.choice([0, 0, 1, 2, batch]),
        tune=rng.choice(["table", "off"]),
        guard=rng.random() < 0.25,
        workspace_limit=64 << 20 if rng.random() < 0.8 else 0,
        force=rng.randint(1, 10**6) if rng.random() < 0.3 else 0,
    )


@dataclass(frozen=True)
class Case:
    """A model, the inputs of one or more runs, and how it is run."""

    model: onnx.ModelProto
    feeds: Sequence[Arrays]
    options: Options


@dataclass(frozen=True)
class Verdict:
    """kind: "agrees", "no oracle" (onnxruntime refuses it), "not offered", "excused" (onnxruntime is alone
    against the definition), "differs", "raises" or "bits". what: in words."""

    kind: str
    what: str = ""
    sure: bool = False  # agreed without asking how much noise explains

    @property
    def finding(self) -> bool:
        return self.kind in ("differs", "raises", "bits")

    @property
    def symptom(self) -> str:
        """What stays the same while a finding is made small."""
        return self.kind if self.kind != "raises" else nameless(self.what)


def nameless(text: str) -> str:
    """An error's words without names and numbers."""
    text = re.sub(r"'[^']*'|\S*[/:_]\S*\d\S*|/\S*|node\d+\S*|\S+_\d\S*", "", text)
    return " ".join(re.sub(r"[\d.,()\[\]]+", "", text).split())[:100]


# Refusals that are known and said in the documents, by their words.
NOT_OFFERED = (
    "has no equivalent in ONNX",
    "workspace above the limit",
    "at most 3 are supported",  # dimensions of a Resize
    "more than the padded input of",  # a window that onnxruntime cuts: PyTorch exports one after ceil_mode
    "the size of its input depends on data",  # what follows a non-max suppression, as its export does
)


class Unequal(Exception):
    """Two runs that must give the same bits do not."""


class Declined(Exception):
    """Algorithms that were forced do not go together."""


REACHED: Counter[str] = Counter()  # algorithms, by operator
CHOSEN: list[tuple[str, str]] = []  # layers and their algorithms, since it was cleared


# ---- running -----------------------------------------------------------------------------------------------


def run(case: Case, device: Any) -> list[dict[str, Array]]:
    """The outputs of each run. Raises what clcnn raises, and Unequal where bits change from run to run."""
    data, options = case.model.SerializeToString(), case.options
    if options.route == "session":
        return _by_session(data, case, device)
    loaded = clcnn.onnx.load(data)
    results = []
    for feed in case.feeds:
        values = {name: feed[name] for name in loaded.value_inputs}
        program = loaded.specialise({name: a.shape for name, a in feed.items()}, values)
        made: Mapping[str, Array] = {}
        if program.graph is not None:
            made = _by_plan(program.graph, program.feed(feed), options, device)
        results.append(program.collect(made))
    return results


def _by_session(data: bytes, case: Case, device: Any) -> list[dict[str, Array]]:
    options = clcnn.SessionOptions()
    if not case.options.fuse:
        options.graph_optimization_level = clcnn.GraphOptimizationLevel.ORT_DISABLE_ALL
    names = [o.name for o in case.model.graph.output]
    with clcnn.InferenceSession(data, options, device=device, precision=case.options.precision) as session:
        return [dict(zip(names, session.run(names, feed))) for feed in case.feeds]


def _by_plan(graph: Any, feed: Arrays, options: Options, device: Any) -> dict[str, Array]:
    model, shapes = graph, None
    if options.route in ("saved", "exported"):
        model, shapes = _through_file(graph, options.route)
    with _compiled(model, shapes, options, device) as plan:
        REACHED.update(f"{row['op']}:{row['algo']}" for row in plan.layers)
        CHOSEN.extend((row["layer"], row["algo"]) for row in plan.layers)
        first = _called(plan, feed, options.way)
        if options.guard:
            plan.check_guards()
        again = plan.run(feed)
    _same(first, again, "a second run")
    return first


def _compiled(model: Any, shapes: Any, options: Options, device: Any) -> Any:
    plan = clcnn.compile(model, shapes, device, **options.compiled())
    if not options.force:
        return plan
    with plan:
        algorithms = some_algorithms(plan.layers, options.force)
    try:
        return clcnn.compile(model, shapes, device, algorithms=algorithms, **options.compiled())
    except (clcnn.UnsupportedError, clcnn.ArgumentError) as error:
        raise Declined(str(error)) from error


def some_algorithms(layers: Sequence[Any], seed: int) -> dict[str, str]:
    """For each layer that has a choice, one of the algorithms that can compute it. A layer's choice hangs on
    the seed and its name alone, so that it stays as other layers go."""
    chosen = {}
    for row in layers:
        able = [c["algo"] for c in row["candidates"] if c["verdict"] != "rejected"]
        if len(able) > 1 and row["op"] != "reorder":
            chosen[row["layer"]] = random.Random(f"{seed} {row['layer']}").choice(able)
    return chosen


def _through_file(graph: Any, route: str) -> tuple[Any, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        if route == "exported":
            clcnn.onnx.save(graph, path)
            return clcnn.onnx.load(path).graph(), None
        clcnn.save(graph, path)
        loaded = clcnn.load(path)
    return loaded, loaded.input_shapes


def _called(plan: Any, feed: Arrays, way: str) -> dict[str, Array]:
    if way == "clone":
        with plan.clone() as clone:
            return dict(clone.run(feed))
    if way == "map":
        ordered = [feed[name] for name in plan.inputs]
        rows = [r if isinstance(r, tuple) else (r,) for r in plan.map([ordered] * 3)]
        made = [dict(zip(plan.outputs, row, strict=True)) for row in rows]
        _same(made[0], made[-1], "map()")
        return made[0]
    return dict(plan.run(feed))


def _same(first: Arrays, other: Arrays, what: str) -> None:
    for name, array in first.items():
        if array.tobytes() != other[name].tobytes():
            raise Unequal(f"{what} gives other bits in {name!r}")


# ---- judging -----------------------------------------------------------------------------------------------


def judge(case: Case, device: Any) -> Verdict:
    """Runs a case and compares it with onnxruntime."""
    try:
        expected = [Oracle(case.model, feed) for feed in case.feeds]
    except Exception as error:
        return Verdict("no oracle", str(error)[:200])
    if any(0 in a.shape for o in expected for a in o.values.values()):
        return Verdict("no oracle", "a value without elements")
    return judged_by(case, expected, device)


def judged_by(case: Case, expected: Sequence[Oracle], device: Any) -> Verdict:
    """judge() with what onnxruntime said."""
    try:
        results = run(case, device)
    except Unequal as error:
        return Verdict("bits", str(error))
    except Exception as error:
        return raised(error)
    sure = True
    for made, oracle_ in zip(results, expected):
        sure &= all(oracle.surely(made[n], oracle_.expected[n]) for n in oracle_.outputs)
        note = oracle_.compare(made, case.options.precision)
        note = note and oracle_.compare(made, case.options.precision, MORE_DRAWS)
        if note:
            why = _excused(case, oracle_, made, device)
            return Verdict("excused" if why else "differs", why or note)
    return Verdict("agrees", sure=sure)


def raised(error: Exception) -> Verdict:
    """A finding, or a refusal that is known."""
    text = f"{type(error).__name__}: {error}"
    kinds = (clcnn.UnsupportedError, clcnn.ShapeError)
    known = isinstance(error, kinds) and any(words in text for words in NOT_OFFERED)
    return Verdict("not offered" if known or isinstance(error, Declined) else "raises", text)


def _excused(case: Case, expected: Oracle, made: Arrays, device: Any) -> str:
    """Why the difference is onnxruntime's: with its rewriting it gives the same as we do; or each node by
    itself agrees with its definition, the plan as people run it with the nodes, and these results with that
    plan. "" where it is ours."""
    try:
        if not expected.compare(made, case.options.precision, MORE_DRAWS, expected.optimised()):
            return "onnxruntime agrees with its rewriting, and not without"
        model = clcnn.onnx.load(case.model.SerializeToString())
        checks = verify.verify(model, dict(expected.feed), device, against=("reference",))
        plain = replace(case, feeds=[expected.feed], options=Options())
        usual = run(plain, device)[0]
    except Exception:
        return ""
    if any(c.verdict != "agrees" and "constant" not in c.note for c in checks):
        return ""
    if any(verify.difference(made[n], usual[n], _slack(case.options.precision)).note for n in usual):
        return ""
    both = verify.verify(model, dict(expected.feed), device, against=("onnxruntime",))
    apart = sorted({c.op for c in both if c.verdict == "departs"})
    return f"onnxruntime departs from the definition of {', '.join(apart) or 'some operator'}"


def _slack(precision: str) -> float:
    """How many times the bounds of "highest" a precision may be off."""
    return 10.0 * oracle.OF_RMS[precision] / oracle.OF_RMS["highest"]


def _with_algorithms(case: Case, device: Any) -> tuple[list[dict[str, Array]], list[tuple[str, str]]]:
    CHOSEN.clear()
    return run(case, device), CHOSEN.copy()


def judge_bits(case: Case, device: Any) -> Verdict:
    """Whether chains and batch slices change bits. Slices may where algorithms differ, which are chosen for
    the items of a slice; so may algorithms for GPUs, which a CPU takes when forced: they split sums by how
    many images there are."""
    case = replace(case, options=replace(case.options, route="compile", way="call"))
    launched = replace(case, options=replace(case.options, chain=False))
    whole = replace(case, options=replace(launched.options, batch_part=0))
    try:
        first, chosen = _with_algorithms(case, device)
        for a, b in zip(first, run(launched, device)):
            _same(a, b, f"chain={case.options.chain}")
        all_at_once, chosen_for_all = _with_algorithms(whole, device)
        if chosen == chosen_for_all and not case.options.force:
            for a, b in zip(first, all_at_once):
                _same(a, b, f"batch_part={case.options.batch_part}")
    except Unequal as error:
        return Verdict("bits", str(error))
    except Exception as error:
        return raised(error)
    return Verdict("agrees")


def other_batches(model: onnx.ModelProto, feed: Arrays, batches: Sequence[int]) -> Case | None:
    """The model with its batch left open, run at these batch sizes by one session; None where its inputs do
    not all begin with the batch, or where onnxruntime does not look whether a constant has as many items."""
    first = next(iter(feed.values()), None)
    if first is None or not all(a.ndim and a.shape[0] == first.shape[0] for a in feed.values()):
        return None
    gathers = [node for node in model.graph.node if node.op_type == "GatherND"]
    if any(a.name == "batch_dims" for node in gathers for a in node.attribute):
        return None
    made = onnx.ModelProto()
    made.CopyFrom(model)
    made.graph.ClearField("value_info")
    for info in made.graph.input:
        info.type.tensor_type.shape.dim[0].dim_param = "n"
    for info in made.graph.output:
        info.type.tensor_type.ClearField("shape")
    feeds = [{name: np.resize(a, (n, *a.shape[1:])) for name, a in feed.items()} for n in batches]
    return Case(made, feeds, Options(route="session"))
