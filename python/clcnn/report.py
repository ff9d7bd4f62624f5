"""Tables for people: summaries, explanations and profiles, as text, HTML and Chrome traces. Pure Python."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Profile", "StepTime"]

MS = 1e-6  # of a nanosecond


def size(count: float) -> str:
    """Bytes with a unit: 1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as their cells; numbers to the right, text to the left."""
    body = [[_cell(x) for x in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *body]) for i in range(len(head))]
    right = [bool(body) and all(row[i][:1].isdigit() or not row[i] for row in body) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        aligned = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True))
        return "  ".join(aligned).rstrip()

    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return "\n".join([line(head), rule, *map(line, body)])


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """The same as an HTML table; every cell is escaped."""
    cells = "".join(f"<th>{html.escape(str(x))}</th>" for x in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(x))}</td>" for x in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _cell(x: Any) -> str:
    if isinstance(x, (tuple, list)):
        return "x".join(map(str, x)) or "scalar"
    if isinstance(x, int) and not isinstance(x, bool):
        return f"{x:,}"
    return str(x)


# ---- summary ----


@dataclass(frozen=True, slots=True)
class LayerRow:
    """A layer as it was written: a row of Graph.rows().

    Attributes
    ----------
    name, op : str
    shape : tuple of int
        Of its first output.
    parameters : int
        How many elements its parameters have.
    macs : float
        Multiply-adds.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    parameters: int
    macs: float


def summary_cells(
    rows: list[LayerRow], layers: Sequence[Any] | None = None
) -> tuple[list[str], list[list[Any]]]:
    """Head and rows; `layers` (of a plan) adds algorithm and workspace. A layer that a rewrite merged into
    another one has no algorithm of its own; what several became together stands in the row of the first."""
    head = ["layer", "op", "output", "parameters", "MACs"]
    cells: list[list[Any]] = [[r.name, r.op, r.shape, r.parameters, round(r.macs)] for r in rows]
    if layers is not None:
        chosen: dict[str, Any] = {}
        for layer in layers:  # the parts of a split layer have its name and come after it
            chosen.setdefault(layer["layer"], layer)
            chosen.setdefault(layer["layer"].partition("+")[0], layer)
        head += ["algorithm", "workspace"]
        for row in cells:
            layer = chosen.get(row[0])
            row += [layer["algo"], size(layer["workspace_bytes"])] if layer else ["(merged)", ""]
    return head, cells


def summary_text(rows: list[LayerRow], layers: Sequence[Any] | None = None) -> str:
    """The table and its totals."""
    parameters, macs = sum(r.parameters for r in rows), sum(r.macs for r in rows)
    total = f"{len(rows)} layers, {parameters:,} parameters, {macs:,.0f} multiply-adds"
    return f"{text_table(*summary_cells(rows, layers))}\n{total}"


# ---- explain ----

# What roundings of an algorithm's own add to its bound (docs/precision.md).
ROUNDING = {"none": "", "tf32_parts": " + 2^-19", "24_bits": " + 2^-20 to 2^-16", "bf16_parts": " + 2^-126"}


def _zeros(shares: Sequence[float] | None) -> str:
    """What is known of the zeros in a layer's input (clcnn.LayerZeros)."""
    if shares is None:
        return ""
    element, *others = (f"{100 * share:.0f}" for share in shares)
    names = ("channels", "blocks", "windows", "tiles")
    return f", {element} % zeros ({', '.join(f'{n} {o}' for n, o in zip(names, others, strict=True))})"


NEAR = 2.0  # times the least time expected: what took no more might have been chosen


def _near_misses(layer: Any) -> list[Any]:
    """The candidate chosen, the one that would be taken next, and those expected to be nearly as fast."""
    least = min((c["effort"] for c in layer["candidates"] if c["effort"]), default=0)
    usable = [c for c in layer["candidates"] if c["verdict"] != "rejected"]
    following = [c["algo"] for c in usable if c["verdict"] == "not needed"][:1]
    wanted = {layer["algo"], *following, *(c["algo"] for c in usable if 0 < c["effort"] <= NEAR * least)}
    return [c for c in usable if c["algo"] in wanted]


def explain_text(layers: Sequence[Any], rewrites: Sequence[str], verbose: bool = True) -> str:
    """What was decided for each layer of a plan, and why; without `verbose` only near misses beside what was
    chosen. Expected: the time over the least of the layer's candidates, where the rules have one for
    several."""
    lines = []
    left_out = 0
    for layer in layers:
        fused = f", fused {layer['fused']}" if layer["fused"] else ""
        shapes = f"{_cell(layer['input'])} -> {_cell(layer['output'])}"
        error = f"error class {layer['error_class']}, {layer['error_bound']}"
        rounding = ROUNDING[layer["error_rounding"]]
        about = f"{shapes}{fused}{_zeros(layer['zeros'])}, {error}{rounding}"
        lines.append(f"{layer['layer']}: {layer['op']} {about}")
        efforts = [c["effort"] for c in layer["candidates"] if c["effort"]]
        shown = layer["candidates"] if verbose else _near_misses(layer)
        left_out += len(layer["candidates"]) - len(shown)
        for c in shown:
            mark = "*" if c["algo"] == layer["algo"] else " "
            reason = f": {c['reason']}" if c["reason"] else ""
            facts = [f"workspace {size(c['workspace_bytes'])}"] if c["workspace_bytes"] else []
            if c["effort"] and len(efforts) > 1:
                facts.append(f"expected {c['effort'] / min(efforts):.2f}")
            told = f" ({', '.join(facts)})" if facts else ""
            lines.append(f"  {mark} {c['algo']:<10} {c['verdict']}{reason}{told}")
    if rewrites:
        lines += ["rewrites:", *(f"  {note}" for note in rewrites)]
    if left_out:
        lines.append(f"{left_out} candidates further off are left out: explain(verbose=True)")
    return "\n".join(lines)


# ---- profile ----


@dataclass(frozen=True, slots=True)
class StepTime:
    """One kernel launch of a profiled run: a row of Profile.rows.

    Attributes
    ----------
    layer, op : str
        The layer's name and its operator.
    algo, kernel, entry : str
        The algorithm, the kernel's file and the function in it.
    start_ns, end_ns : int
        Nanoseconds from the start of the first step.
    macs : float
        Multiply-adds.
    bytes : float
        Bytes that must be read and written.
    ms, gflops, gbytes : float
        Milliseconds that it took; GFLOP/s (two operations for each multiply-add) and GB/s in them.

    Examples
    --------
    >>> from clcnn.report import StepTime
    >>> row = StepTime("fc", "linear", "gemv", "gemv", "main", 0, 2_000_000, macs=1e9, bytes=4e6)
    >>> row.ms, row.gflops, row.gbytes
    (2.0, 1000.0, 2.0)
    """

    layer: str
    op: str
    algo: str
    kernel: str
    entry: str
    start_ns: int
    end_ns: int
    macs: float
    bytes: float

    @property
    def ms(self) -> float:
        """Duration in milliseconds."""
        return (self.end_ns - self.start_ns) * MS

    @property
    def gflops(self) -> float:
        """Two operations for each multiply-add, over the step's time."""
        return 2 * self.macs / max(self.end_ns - self.start_ns, 1)

    @property
    def gbytes(self) -> float:
        """GB/s over the step's time."""
        return self.bytes / max(self.end_ns - self.start_ns, 1)


class Profile:
    """Times of one run by device events: what Plan.profile() returns. Prints as a table, and shows as one in
    notebooks.

    Parameters
    ----------
    device : str
        The device's name.
    rows : list of StepTime
        A row for each step, in order.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
    ...     profile = plan.profile(np.zeros((2, 3), np.float32))
    >>> [row.op for row in profile.rows]
    ['relu']
    >>> profile.total_ms > 0
    True
    """

    def __init__(self, device: str, rows: list[StepTime]) -> None:
        self.device = device
        self.rows = rows

    @property
    def total_ms(self) -> float:
        """Milliseconds from the start of the first step to the end of the last one."""
        return max((row.end_ns for row in self.rows), default=0) * MS

    def _cells(self) -> tuple[list[str], list[list[Any]]]:
        busy = sum(row.ms for row in self.rows) or 1.0
        head = ["layer", "op", "algorithm", "kernel", "ms", "%", "GFLOP/s", "GB/s"]
        rows: list[list[Any]] = []
        for r in self.rows:
            kernel, share = f"{r.kernel}:{r.entry}", 100 * r.ms / busy
            figures = [f"{r.ms:.3f}", f"{share:.1f}", f"{r.gflops:.1f}", f"{r.gbytes:.1f}"]
            rows.append([r.layer, r.op, r.algo, kernel, *figures])
        return head, rows

    def __str__(self) -> str:
        return (
            f"{text_table(*self._cells())}\n{len(self.rows)} steps, {self.total_ms:.3f} ms on {self.device}"
        )

    def __repr__(self) -> str:
        return f"<clcnn.Profile: {len(self.rows)} steps, {self.total_ms:.3f} ms on {self.device}>"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())

    def to_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the Trace Event JSON that chrome://tracing and Perfetto open.

        Parameters
        ----------
        path : path
            A file, which is replaced.

        Raises
        ------
        OSError
            It cannot be written.

        Examples
        --------
        >>> import numpy as np
        >>> import clcnn
        >>> with clcnn.compile(clcnn.nn.ReLU(), (2, 3)) as plan:
        ...     plan.profile(np.zeros((2, 3), np.float32)).to_chrome_trace("run.json")
        """
        events: list[dict[str, Any]] = [
            {
                "name": "process_name",
                "ph": "M",
                "pid": 1,
                "tid": 1,
                "args": {"name": f"clcnn on {self.device}"},
            }
        ]
        for r in self.rows:
            args = {"algorithm": r.algo, "kernel": f"{r.kernel}:{r.entry}", "macs": r.macs, "bytes": r.bytes}
            events.append(
                {"name": r.layer, "cat": r.op, "ph": "X", "pid": 1, "tid": 1, "ts": r.start_ns / 1e3,
                 "dur": (r.end_ns - r.start_ns) / 1e3, "args": args}
            )  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), "utf-8")
