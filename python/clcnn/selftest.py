"""Checks every algorithm of every operator on a device: `clcnn selftest`, or `list(clcnn.selftest.run())`.

Each algorithm runs on the few small problems of its operator's row in `_reference`, by itself (no fusing),
between guard bands and from memory full of NaN. `ref` is held against the definition in float64, every other
algorithm against `ref`: equal where the data are small integers and the algorithm only multiplies and adds,
within a bound of rounding elsewhere. Fused kernels are then tried as a small network.

The quick check tries one problem of each operator, by the algorithm that the rules choose for it, against
the definition. Many operators share a plan, as drivers build one program of many kernels sooner than many
programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clcnn import _core
from clcnn import device as devices
from clcnn._reference import REFERENCE, SPECS, Use
from clcnn._reference.data import Input, draw
from clcnn.compiler import compile
from clcnn.device import DeviceInfo
from clcnn.errors import Error, UnsupportedError
from clcnn.graph import Graph, Value
from clcnn.ops import MADE_BY_LAYOUT, ON_BYTES

LAYER = "layer"
VIEW = "has no algorithm of its own"  # in the message of what has none to force
MOVES = ("concat", "split", "slice")
TOGETHER = 20  # operators of the quick check that share a plan; a chain has at most 24 kernels
ROUNDING = 5e-5  # largest error over the result's rms: the bound of the precision "highest"
SEED = 2024


@dataclass(slots=True)
class Check:
    """One algorithm of one operator: how many problems it ran, its kernels, and the largest error over the
    rms of the result. status: "pass", "FAIL" or "skip"; reason: why it failed, or why no problem could
    run."""

    op: str
    algorithm: str
    problems: int = 0
    kernels: list[str] = field(default_factory=list)
    error: float = 0.0
    status: str = "skip"
    reason: str = ""

    def fail(self, reason: str) -> None:
        self.status, self.reason = "FAIL", self.reason if self.status == "FAIL" else reason

    def passed(self, steps: Iterable[Mapping[str, Any]]) -> None:
        self.problems += 1
        self.status = self.status if self.status == "FAIL" else "pass"
        seen = [f"{step['kernel']}:{step['entry']}" for step in steps]
        self.kernels += [kernel for kernel in dict.fromkeys(seen) if kernel not in self.kernels]


def run(
    device: str | int | DeviceInfo | _core.Device | None = None,
    quick: bool = False,
    tell: Callable[[str, str], object] | None = None,
) -> Iterator[Check]:
    """A Check for every algorithm, as soon as its operator is done. quick: only the first problem of each
    operator, by the algorithm that is chosen for it. tell: called with operator and algorithm before each
    problem, which takes up to some seconds.

    Raises what opening the device raises; failures of kernels are in the checks.
    """
    target = devices.get(device)
    tried = {op: spec.tried for op, spec in SPECS.items() if spec.tried}
    if quick:
        problems = [problem_of(op, uses[0], 0) for op, uses in tried.items()]
        for start in range(0, len(problems), TOGETHER):
            yield from check_chosen(target, problems[start : start + TOGETHER], tell)
        return
    for op, uses in tried.items():
        yield from check_operator(target, op, uses, tell)
    yield from check_merged(target, "separable", "dw+pw", separable_pair())
    yield from check_merged(target, "inverted_residual", "expand+dw+pw", inverted_block())
    yield from check_merged(target, "conv_pool", "conv+pool", pooled_convolution())
    yield from check_merged(target, "squeeze_excite", "fc2", squeezed_map())
    yield from check_merged(target, "elementwise", "scale", scaled_sum())
    yield from check_reorder(target)
    yield from check_bytes(target)
    yield check_network(target)


def check_operator(
    device: _core.Device,
    op: str,
    uses: Sequence[Use],
    tell: Callable[[str, str], object] | None = None,
) -> list[Check]:
    """`ref` first, whose results the others are held against."""
    names = _core.ops()[op]["algos"]
    checks = {name: Check(op, name) for name in names}
    for number, use in enumerate(uses):
        problem = problem_of(op, use, number)
        trusted = problem.defined()
        for name in reversed(names):
            if tell is not None:
                tell(op, name)
            results = try_algorithm(device, problem, checks[name], trusted, {LAYER: name})
            if name == "ref" and results is not None:
                trusted = results
    return [checks[name] for name in names]


@dataclass(frozen=True, slots=True)
class Problem:
    """A use of an operator with its data, None for an input that is absent. whole: whether the data are small
    integers, so that every partial sum is exact in float32."""

    op: str
    use: Use
    data: list[np.ndarray | None]
    whole: bool

    def defined(self) -> list[np.ndarray]:
        """The results by definition, in float64."""
        return as_list(REFERENCE[self.op](*self.data, **self.use.attrs))

    def add_to(self, graph: Graph, layer: str) -> list[np.ndarray]:
        """Makes a layer of it, with inputs and outputs of its own; what to feed them."""
        fed = self.use.fed
        inputs = [
            None
            if x is None
            else graph.input(f"{layer} x{i}", x.shape, str(x.dtype))
            if i < fed
            else graph.constant(x, f"{layer} w{i}")
            for i, x in enumerate(self.data)
        ]
        for i, value in enumerate(graph.node(self.op, inputs, self.use.attrs, layer)):
            graph.output(value, f"{layer} y{i}")
        return [x for x in self.data[:fed] if x is not None]


def problem_of(op: str, use: Use, number: int) -> Problem:
    whole = SPECS[op].keeps_whole if use.whole is None else use.whole
    return Problem(op, use, inputs_of(op, use, whole, number), whole)


def inputs_of(op: str, use: Use, whole: bool, number: int) -> list[np.ndarray | None]:
    """The data of a use, the same every time."""
    roles = (*SPECS[op].roles, *["x"] * len(use.shapes))
    dtypes = (*use.dtypes, *["float32"] * len(use.shapes))
    given = {
        i: Input(f"x{i}", shape, i >= use.fed, roles[i] if i >= use.fed else "x", dtype=dtypes[i])
        for i, shape in enumerate(use.shapes)
        if shape is not None
    }
    arrays = draw("integer" if whole else "normal", op, list(given.values()), f"{op} {number}", use.attrs)
    drawn = dict(zip(given, arrays, strict=True))
    return [drawn.get(i) for i in range(len(use.shapes))]


def try_algorithm(
    device: _core.Device,
    problem: Problem,
    check: Check,
    want: list[np.ndarray],
    forced: dict[str, str],
) -> list[np.ndarray] | None:
    """Runs one problem and notes in `check` what came of it; the results if they are right."""
    graph = Graph()
    fed = problem.add_to(graph, LAYER)
    try:
        with compile(graph, None, device, algorithms=forced, fuse=False, guard=True) as plan:
            results = as_list(plan(*fed))
            plan.check_guards()
            exact = problem.whole and all(row["error_class"] != "highest" for row in plan.layers)
            if judge(check, results, want, exact):
                check.passed(plan.steps)
                return results
    except UnsupportedError as error:
        check.reason = check.reason or str(error).rpartition(": ")[2]
    except (Error, SystemError) as error:
        if forced and VIEW in str(error):
            return try_algorithm(device, problem, check, want, {})
        check.fail(str(error))
    return None


def check_chosen(
    device: _core.Device, problems: Sequence[Problem], tell: Callable[[str, str], object] | None = None
) -> list[Check]:
    """Problems of different operators in one plan; one by one if it cannot be made, which tells whose fault
    that is."""
    graph, fed = Graph(), []
    for problem in problems:
        fed += problem.add_to(graph, problem.op)
    if tell is not None:
        tell(", ".join(problem.op for problem in problems), "")
    try:
        with compile(graph, None, device, fuse=False, guard=True) as plan:
            results = iter(as_list(plan(*fed)))
            plan.check_guards()
            rows = {row["layer"]: row for row in plan.layers}
            steps = plan.steps
    except (Error, SystemError) as error:
        if len(problems) > 1:
            return [check for problem in problems for check in check_chosen(device, [problem], tell)]
        (check,) = [Check(problem.op, "") for problem in problems]
        if isinstance(error, UnsupportedError):
            check.reason = str(error).rpartition(": ")[2]
        else:
            check.fail(str(error))
        return [check]
    checks = []
    for problem in problems:
        row = rows.get(problem.op, {})
        check = Check(problem.op, row.get("algo", ""))
        want = problem.defined()
        exact = problem.whole and row.get("error_class") != "highest"
        if judge(check, [next(results) for _ in want], want, exact):
            check.passed(step for step in steps if step["layer"] == problem.op)
        checks.append(check)
    return checks


def judge(check: Check, results: list[np.ndarray], want: list[np.ndarray], exact: bool) -> bool:
    """Whether the results are those wanted; notes the largest error."""
    for got, right in zip(results, want, strict=True):
        if got.shape != right.shape:
            check.fail(f"shape {list(got.shape)} instead of {list(right.shape)}")
            return False
        difference = np.abs(got.astype(np.float64) - right)
        scale = np.sqrt(np.mean(np.square(right, dtype=np.float64))) or 1.0
        error = float(difference.max() / scale)
        check.error = max(check.error, error) if np.isfinite(error) else error
        if not (error == 0.0 if exact else error <= ROUNDING):  # NaN fails too
            at = np.unravel_index(np.nanargmax(np.where(np.isnan(difference), np.inf, difference)), got.shape)
            check.fail(f"{got[at]} instead of {right[at]} at {[int(i) for i in at]} of {list(got.shape)}")
            return False
    return True


def as_list(result: Any) -> list[np.ndarray]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---- kernels that no operator of a graph reaches ----


def check_merged(device: _core.Device, op: str, layer: str, graph: Graph) -> list[Check]:
    """An operator that rewriting makes, with each of its algorithms, against its parts by themselves. `graph`
    has one input, and becomes the one layer `layer`."""
    shape = next(iter(graph.inputs.values())).shape
    x = np.random.default_rng(SEED).integers(-4, 5, shape).astype(np.float32)
    want = run_plain(graph, device, x)
    checks = [Check(op, name) for name in _core.ops()[op]["algos"]]
    for check in checks:
        try_forced(device, graph, {layer: check.algorithm}, check, x, want)
    return checks


def check_reorder(device: _core.Device) -> list[Check]:
    """The steps that layout adds, on both sides of a pooling that changes nothing."""
    x = np.random.default_rng(SEED).standard_normal((2, 21, 5, 7)).astype(np.float32)
    graph = Graph()
    graph.output(graph.apply("max_pool", graph.input("x", x.shape), kernel_size=1, name=LAYER))
    checks = [Check("reorder", name) for name in _core.ops()["reorder"]["algos"]]
    for check in checks:
        try_forced(device, graph, {LAYER: "blocked"}, check, x, x)
    return checks


def try_forced(
    device: _core.Device,
    graph: Graph,
    forced: dict[str, str],
    check: Check,
    x: np.ndarray,
    want: np.ndarray,
) -> None:
    """Runs the graph for x with the algorithms forced and notes in `check` what came of it."""
    try:
        with compile(graph, None, device, algorithms=forced, guard=True) as plan:
            exact = all(row["error_class"] != "highest" for row in plan.layers)
            if judge(check, as_list(plan(x)), [want], exact):
                check.passed(plan.steps)
            plan.check_guards()
    except UnsupportedError as error:
        check.reason = str(error).rpartition(": ")[2]
    except (Error, SystemError) as error:
        check.fail(str(error))


def whole_numbers(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(SEED)
    return [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]


def separable_pair() -> Graph:
    """A depthwise and a 1x1 convolution."""
    depthwise, bias, pointwise = whole_numbers((16, 1, 3, 3), (16,), (24, 16, 1, 1))
    graph = Graph()
    x = graph.input("x", (2, 16, 12, 11))
    middle = graph.apply("conv", x, depthwise, bias, padding=1, groups=16, name="dw")
    graph.output(graph.apply("conv", graph.apply("relu", middle, name="act"), pointwise, name="pw"))
    return graph


def inverted_block() -> Graph:
    """A 1x1 convolution that makes the channels more, a depthwise and a 1x1 convolution."""
    expand, depthwise, bias, pointwise = whole_numbers((32, 16, 1, 1), (32, 1, 3, 3), (32,), (24, 32, 1, 1))
    graph = Graph()
    wide = graph.apply("conv", graph.input("x", (2, 16, 9, 15)), expand, name="expand")
    wide = graph.apply("relu", wide, name="wide")
    middle = graph.apply("conv", wide, depthwise, bias, padding=1, groups=32, name="dw")
    graph.output(graph.apply("conv", graph.apply("relu", middle, name="act"), pointwise, name="pw"))
    return graph


def pooled_convolution() -> Graph:
    """A convolution and the maximum of its windows."""
    w, bias = whole_numbers((40, 6, 3, 3), (40,))
    graph = Graph()
    middle = graph.apply("conv", graph.input("x", (2, 6, 13, 19)), w, bias, padding=1, name="conv")
    graph.output(graph.apply("max_pool", graph.apply("relu", middle, name="act"), kernel_size=2, name="pool"))
    return graph


def squeezed_map() -> Graph:
    """The gate of a squeeze-and-excite block without its last activation; means of 16 pixels are exact."""
    w1, b1, w2, b2 = whole_numbers((10, 37, 1, 1), (10,), (37, 10, 1, 1), (37,))
    graph = Graph()
    mean = graph.apply("adaptive_avg_pool", graph.input("x", (2, 37, 4, 4)), output_size=1, name="mean")
    middle = graph.apply("relu", graph.apply("conv", mean, w1, b1, name="fc1"), name="act")
    graph.output(graph.apply("conv", middle, w2, b2, name="fc2"))
    return graph


def scaled_sum() -> Graph:
    """Three element-wise functions, one of them with a number a channel."""
    scale, other = whole_numbers((6, 1, 1), (2, 6, 13, 19))
    graph = Graph()
    scaled = graph.apply("mul", graph.input("x", other.shape), scale, name="scale")
    graph.output(graph.apply("relu", graph.apply("add", scaled, other, name="add"), name="act"))
    return graph


def quantised_layers() -> Graph:
    """A convolution, a depthwise one, windows and the sum of each channel, as quantised files have them."""
    graph = Graph()

    def steps(x: Value, zero: float) -> Value:
        return graph.apply("fake_quantize", x, scale=1.0, zero_point=zero)

    def rounded(x: Value, zero: float, **attrs: Any) -> Value:
        w, bias = whole_numbers((20, x.shape[1] // attrs.get("groups", 1), 3, 3), (20,))
        factor = np.linspace(0.1, 0.2, 20, dtype=np.float32).reshape(1, 20, 1, 1)
        whole = graph.apply("round", graph.apply("conv", x, w, bias, padding=1, **attrs))
        return steps(graph.apply("mul", whole, factor), zero)

    x = rounded(steps(graph.input("x", (2, 3, 11, 19)), 100.0), 128.0)
    x = graph.apply("max_pool", rounded(x, 128.0, groups=20), kernel_size=2)
    mean = graph.apply("reduce_sum", rounded(x, 128.0), axes=[2, 3], keepdims=True)
    graph.output(steps(graph.apply("mul", mean, np.full((1, 1, 1, 1), 0.125, np.float32)), 128.0))
    return graph


def check_bytes(device: _core.Device) -> list[Check]:
    """The operators on maps of bytes, which some processors have, in one net against the same in floats."""
    checks = {(op, algo): Check(op, algo) for op in ON_BYTES for algo in _core.ops()[op]["algos"]}
    graph = quantised_layers()
    (x,) = whole_numbers((2, 3, 11, 19))
    for check in checks.values():
        check.reason = "for processors that add up products of bytes"
    try:
        want = [run_plain(graph, device, 20 * x)]
        with compile(graph, None, device, guard=True) as plan:
            got = as_list(plan(20 * x))
            plan.check_guards()
            for row in plan.layers:
                found = checks.get((row["op"], row["algo"]))
                if found and judge(found, got, want, exact=True):
                    found.reason = ""
                    found.passed([step for step in plan.steps if step["layer"] == row["layer"]])
    except (Error, SystemError) as error:
        for check in checks.values():
            check.fail(str(error))
    return list(checks.values())


def check_network(device: _core.Device) -> Check:
    """A small net with everything that is fused or made a view, against the same net layer by layer."""
    check = Check("network", "fused")
    x = np.random.default_rng(SEED).standard_normal((2, 3, 20, 18)).astype(np.float32)
    graph = small_net(x.shape)
    try:
        want = [run_plain(graph, device, x)]
        with compile(graph, None, device, guard=True) as plan:
            if judge(check, as_list(plan(x)), want, exact=False):
                check.passed(plan.steps)
            plan.check_guards()
    except (Error, SystemError) as error:
        check.fail(str(error))
    return check


def run_plain(graph: Graph, device: _core.Device, x: np.ndarray) -> np.ndarray:
    """The result without any rewriting, every layer by its `ref`."""
    layers: dict[str, str] = {}
    for left_out in (MOVES, ()):  # between row-major maps, as `ref` has them, moves may be views
        with compile(graph, None, device, algorithms=layers, fuse=False) as plan:
            rows = [row for row in plan.layers if row["op"] not in (*MADE_BY_LAYOUT, *left_out)]
        layers = {row["layer"]: "ref" for row in rows}
    with compile(graph, None, device, algorithms=layers, fuse=False) as plan:
        result: np.ndarray = plan(x)
        return result


def small_net(shape: tuple[int, ...]) -> Graph:
    """conv + BN + ReLU, a residual block, two branches joined, a separable pair, global pooling, linear,
    softmax."""
    from clcnn import nn, ops
    from clcnn.graph import trace

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU())
            self.block = nn.Conv2d(16, 16, 3, padding=1)
            self.left, self.right = nn.Conv2d(16, 8, 1), nn.Conv2d(16, 24, 3, padding=1)
            self.depthwise, self.act = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.ReLU6()
            self.pointwise = nn.Conv2d(32, 40, 1)
            self.pool, self.flatten, self.fc = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10)

        def forward(self, x: Any) -> Any:
            x = self.stem(x)
            x = ops.relu(ops.add(self.block(x), x))
            x = ops.concat(self.left(x), self.right(x), dim=1)
            x = self.pointwise(self.act(self.depthwise(x)))
            return ops.softmax(self.fc(self.flatten(self.pool(x))))

    nn.init.manual_seed(SEED)
    return trace(Net(), shape)
