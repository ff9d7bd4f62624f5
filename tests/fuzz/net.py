"""A random network in the making.

Each node is run by onnxruntime as it is added, so that shapes, ranges and what onnxruntime refuses are known
at once: a row need only be right most of the time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from fuzz import oracle

Array = NDArray[Any]
Row = Callable[["Net"], Any]
FLOAT = "float32"
MAX_ELEMENTS = 40_000
LARGEST = 1e4  # of a value: beyond it, functions overflow and differences mean little
CHANNELS = (1, 2, 3, 4, 5, 6, 8, 8, 12, 16, 16, 20, 24, 32)


class Skip(Exception):
    """This row does not fit here."""


class Table:
    """The rows by operator, and the first and the last opset that each holds for."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Row, int, int]] = {}

    def __call__(self, *ops: str, first: int = 1, last: int = 99) -> Callable[[Any], Any]:
        """Adds the decorated function, which takes the operator too where there are several."""

        def add(build: Any) -> Any:
            for op in ops:
                assert op not in self.rows, op
                each = build if len(ops) == 1 else (lambda net, op=op: build(net, op))
                self.rows[op] = (each, first, last)
            return build

        return add

    def known(self, opset: int) -> list[str]:
        """The operators that there are in this opset."""
        return [op for op, (_, first, last) in self.rows.items() if first <= opset <= last]


ROWS = Table()


class Net:
    """Nodes, constants and inputs so far, with the array behind each name."""

    def __init__(self, seed: int, opset: int, stats: Counter[str] | None = None) -> None:
        self.rng = random.Random(seed)
        self.np_rng = np.random.default_rng(seed)
        self.opset = opset
        self.batch = self.rng.randint(1, 5)
        self.arrays: dict[str, Array] = {}
        self.inputs: list[str] = []
        self.constants: list[str] = []
        self.values: list[str] = []  # inputs and results, oldest first
        self.nodes: list[onnx.NodeProto] = []
        self.stats = Counter() if stats is None else stats

    # ---- choices ----

    def one(self, *choices: Any) -> Any:
        """Any of these."""
        return self.rng.choice(choices)

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def size(self) -> int:
        """A side of a map: odd more often than not."""
        return self.one(1, 2, 3, 4, 5, 5, 6, 7, 7, 8, 9, 11, 13, 14, 17)

    def divisor(self, n: int) -> int:
        return self.one(*(d for d in range(1, n + 1) if n % d == 0))

    def axis(self, rank: int) -> int:
        """An axis, counted from either end."""
        return self.rng.randrange(-rank, rank)

    def axes(self, rank: int) -> list[int]:
        """Some axes, not necessarily in order."""
        chosen = self.rng.sample(range(rank), self.rng.randint(1, rank))
        return [a - rank if self.maybe(0.3) else a for a in chosen]

    # ---- values ----

    def shape(self, name: str) -> tuple[int, ...]:
        return self.arrays[name].shape

    def rank(self, name: str) -> int:
        return self.arrays[name].ndim

    def pick(self, *ranks: int, kind: str = FLOAT, where: Callable[[Array], bool] | None = None) -> str:
        """A value of one of these ranks (none: any), the newest ones first; where there is none, an input."""

        def fits(array: Array) -> bool:
            return (
                (not ranks or array.ndim in ranks)
                and array.size > 0
                and kind in ("any", array.dtype.name)
                and (where is None or where(array))
            )

        found = [name for name in self.values if fits(self.arrays[name])]
        if found and self.maybe(0.95):
            recent = found[-3:]
            return self.one(*recent) if self.maybe(0.8) else self.one(*found)
        if len(self.inputs) >= 2 and self.maybe(0.75):
            raise Skip
        for _ in range(20):
            array = self.random(self.some_shape(self.one(*(ranks or (2, 3, 4, 4)))), kind)
            if where is None or where(array):
                return self.input(array)
        raise Skip

    def some_shape(self, rank: int) -> tuple[int, ...]:
        """Batch, channels, then a map whose sides shrink as there are more of them."""
        sides = [self.size() for _ in range(max(rank - 2, 0))]
        if rank == 5:
            sides = [min(n, 5) for n in sides]
        return (self.batch, self.one(*CHANNELS), *sides)[:rank]

    def random(self, shape: Sequence[int], kind: str = FLOAT) -> Array:
        """Random elements: about normal floats, small integers of either sign."""
        if kind == "any":
            kind = self.one(FLOAT, FLOAT, "int64", "int32", "bool")
        if kind == "bool":
            return np.asarray(self.np_rng.random(shape) < 0.5)
        if np.dtype(kind).kind == "f":
            return np.asarray(self.np_rng.standard_normal(shape)).astype(kind)
        low = 0 if np.dtype(kind).kind == "u" else -9
        return np.asarray(self.np_rng.integers(low, 10, shape)).astype(kind)

    def uniform(self, shape: Sequence[int], low: float, high: float) -> Array:
        return np.asarray(self.np_rng.uniform(low, high, shape)).astype(FLOAT)

    def name(self, stem: str) -> str:
        return f"{stem}_{len(self.arrays)}"

    def input(self, array: Array) -> str:
        """A new input of the network."""
        name = self.name("x")
        self.arrays[name] = np.asarray(array)
        self.inputs.append(name)
        self.values.append(name)
        return name

    def const(self, array: Any, kind: str | None = None) -> str:
        """A constant: an initialiser, or the result of a Constant."""
        name = self.name("c")
        self.arrays[name] = np.asarray(array, kind)
        self.constants.append(name)
        return name

    def ints(self, *numbers: int) -> str:
        return self.const(numbers, "int64")

    def either(self, array: Array) -> str:
        """A constant or an input."""
        return self.const(array) if self.maybe(0.7) else self.input(array)

    def weight(self, *shape: int, terms: int) -> str:
        """Weights that keep the scale of what goes through them."""
        return self.const(self.random(shape) / np.float32(np.sqrt(max(terms, 1))))

    # ---- nodes ----

    def node(self, op: str, *inputs: str, **attrs: Any) -> str:
        """A node with one result."""
        return self.many(op, inputs, 1, **attrs)[0]

    def many(self, op: str, inputs: Sequence[str], outputs: int | Sequence[bool], **attrs: Any) -> list[str]:
        """A node with several results, or those that are wanted; attributes that are None are left out.
        Raises Skip where onnxruntime refuses it, or its results are none that a network should go on with."""
        wanted = [True] * outputs if isinstance(outputs, int) else list(outputs)
        stem = len(self.arrays)
        names = [f"{op.lower()}_{stem + i}" if want else "" for i, want in enumerate(wanted)]
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        made = helper.make_node(op, given, names, **{k: v for k, v in attrs.items() if v is not None})
        made.name = f"node{len(self.nodes)}"
        self.stats[f"tried {op}"] += 1
        feed = {name: self.arrays[name] for name in given if name}
        results = oracle.alone(made, feed, self.opset)
        if results is None:
            self.stats[f"refused {op}"] += 1
            raise Skip
        kept = [name for name in names if name]
        if not all(_sane(array) for array in results):
            self.stats[f"wild {op}"] += 1
            raise Skip
        self.nodes.append(made)
        self.arrays.update(zip(kept, results, strict=True))
        self.values += kept
        return names

    # ---- values in the range that a function needs ----

    def tame(self, x: str, bound: float = 4.0) -> str:
        """x where nothing is above this bound, or something made from it."""
        if np.abs(self.arrays[x]).max() <= bound:
            return x
        return self.node("Tanh", x) if bound < 4.0 or self.maybe(0.5) else self.node("Softsign", x)

    def positive(self, x: str) -> str:
        """x where everything is well above 0, or something made from it."""
        if self.arrays[x].min() >= 0.01:
            return x
        op = self.one("Sigmoid", "Softplus", "Exp", "Abs")
        made = self.node(op, self.tame(x))
        if self.arrays[made].min() < 0.01:
            made = self.node("Add", made, self.const(np.float32(0.1)))
        return made

    # ---- the whole ----

    def model(self) -> onnx.ModelProto:
        """What was made, its open ends as outputs, and some values between too."""
        used = {name for node in self.nodes for name in node.input}
        results = [name for node in self.nodes for name in node.output if name]
        chosen = [name for name in results if name not in used or self.maybe(0.08)]
        inputs = [name for name in self.inputs if name in used]
        constants = [name for name in self.constants if name in used]
        nodes = [n for name in constants if self.maybe(0.1) for n in [self._constant(name)]]
        as_nodes = {node.output[0] for node in nodes}
        initial = [
            numpy_helper.from_array(self.arrays[name], name) for name in constants if name not in as_nodes
        ]
        graph = helper.make_graph(
            [*nodes, *self.nodes],
            "net",
            [self._info(name, self.shape(name)) for name in inputs],
            [self._info(name, None) for name in chosen],
            initial,
        )
        return assembled(graph, self.opset)

    def _constant(self, name: str) -> onnx.NodeProto:
        return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(self.arrays[name]))

    def _info(self, name: str, shape: Any) -> onnx.ValueInfoProto:
        kind = helper.np_dtype_to_tensor_dtype(self.arrays[name].dtype)
        return helper.make_tensor_value_info(name, kind, shape)

    def feed(self, model: onnx.ModelProto) -> dict[str, Array]:
        """The arrays of the model's inputs."""
        return {info.name: self.arrays[info.name] for info in model.graph.input}


def _sane(array: Array) -> bool:
    if not 0 < array.size <= MAX_ELEMENTS:
        return False
    if array.dtype.kind != "f":
        return True
    return bool(np.isfinite(array).all()) and float(np.abs(array).max()) <= LARGEST


def assembled(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    """A model of this graph."""
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def make(seed: int, stats: Counter[str] | None = None) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A random network and what to feed it."""
    rng = random.Random(seed * 7 + 1)
    opset = rng.choice([rng.randint(13, 21)] * 10 + [rng.randint(22, 24), rng.randint(7, 12)])
    net = Net(seed, opset, stats)
    known = ROWS.known(opset)
    rare = [op for op in known if ROWS.rows[op][1] > 21 or ROWS.rows[op][2] < 13] or COMMON
    wanted = net.rng.randint(3, 12)
    net.pick(net.one(2, 3, 4, 4, 4, 5))
    for _ in range(80):
        if len(net.nodes) >= wanted:
            break
        op = net.one(*(known if net.maybe(0.6) else rare if net.maybe(0.15) else COMMON))
        try:
            ROWS.rows[op][0](net)
        except Skip:
            continue
    if not net.nodes:
        net.node("Relu", net.values[0])
    model = net.model()
    return model, net.feed(model)


# What networks are made of mostly: drawn more often.
COMMON = (
    *("Conv", "Conv", "Conv", "Conv", "Relu", "Add", "Mul", "Concat", "MaxPool", "AveragePool"),
    *("BatchNormalization", "Sigmoid", "Clip", "GlobalAveragePool", "Gemm", "MatMul", "Reshape"),
    *("Transpose", "Resize", "Softmax", "ConvTranspose", "Pad", "Slice", "Split", "HardSigmoid"),
)
