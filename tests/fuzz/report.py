"""Findings, each kind once, and the numbers at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from fuzz.runner import Case, Options, Verdict

SHOW_EVERY = 60.0  # seconds


def kind_of(case: Case, verdict: Verdict) -> str:
    """What findings of one cause have in common: the error's words without names and numbers, or the
    operators that are left, and the options that it takes."""
    ops = "+".join(sorted({node.op_type for node in case.model.graph.node} - {"Constant", "Identity"}))
    what = verdict.symptom if verdict.kind == "raises" else ops
    return f"{verdict.kind} | {what} | {case.options}"


def write(folder: Path, seed: int, number: int, case: Case, verdict: Verdict) -> Path:
    """The reproducer: a model, what to feed it, and how it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"seed{seed}_{number}"
    onnx.save(case.model, f"{stem}.onnx")
    arrays = {f"{i}:{name}": a for i, feed in enumerate(case.feeds) for name, a in feed.items()}
    np.savez(f"{stem}.npz", **arrays)
    options = {name: getattr(case.options, name) for name in Options.__dataclass_fields__}
    note = {"seed": seed, "options": options, "kind": verdict.kind, "what": verdict.what}
    stem.with_suffix(".json").write_text(json.dumps(note, indent=1) + "\n")
    return Path(f"{stem}.onnx")


def read(path: Path) -> Case:
    """The case that write() wrote."""
    arrays = np.load(path.with_suffix(".npz"))
    feeds: dict[int, dict[str, Any]] = {}
    for key in arrays.files:
        number, _, name = key.partition(":")
        feeds.setdefault(int(number), {})[name] = arrays[key]
    note = json.loads(path.with_suffix(".json").read_text())
    return Case(onnx.load(path), [feeds[i] for i in sorted(feeds)] or [{}], Options(**note["options"]))


def words(case: Case) -> str:
    """A model in a few lines."""
    lines = [f"  {i.name} {case.feeds[0][i.name].shape}" for i in case.model.graph.input]
    for node in (n for n in case.model.graph.node if n.op_type != "Constant"):
        attrs = ", ".join(f"{a.name}={onnx.helper.get_attribute_value(a)}" for a in node.attribute)
        lines.append(f"  {', '.join(node.output)} = {node.op_type}({', '.join(node.input)}) {attrs}"[:300])
    return "\n".join(lines)


class Numbers:
    """What a session of fuzzing did."""

    def __init__(self) -> None:
        self.start = self.shown = time.monotonic()
        self.counts: Counter[str] = Counter()
        self.ops: Counter[str] = Counter()
        self.algorithms: Counter[str] = Counter()
        self.excused: Counter[str] = Counter()
        self.kinds: Counter[str] = Counter()

    def add(self, row: dict[str, Any]) -> None:
        """What a worker tells of one network."""
        self.counts["networks"] += 1
        self.counts.update(row["verdicts"])
        self.ops.update(row["ops"])
        self.excused.update(row["notes"])
        self.algorithms.update(row["algorithms"])
        self.counts["exported from PyTorch"] += row["torch"]

    def show(self) -> None:
        """A line every now and then."""
        if time.monotonic() - self.shown >= SHOW_EVERY:
            self.shown = time.monotonic()
            print(self.line(), flush=True)

    def line(self) -> str:
        seconds = time.monotonic() - self.start
        nets = self.counts["networks"]
        rest = ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items()) if what != "networks")
        return f"{nets} networks in {seconds:.0f} s ({nets / max(seconds, 1e-9):.2f}/s): {rest}"

    def text(self) -> str:
        """At the end."""
        rows = [self.line(), f"{len(self.ops)} operators and {len(self.algorithms)} algorithms reached"]
        chosen = [f"{name} {n}" for name, n in sorted(self.algorithms.items()) if not name.endswith(":ref")]
        rows.append("  " + ", ".join(chosen))
        rows += [f"  {n} x {what}" for what, n in self.excused.most_common(20)]
        rows += [f"FINDING {n} x {kind}" for kind, n in self.kinds.most_common()]
        return "\n".join(rows if self.kinds else [*rows, "no finding"])
