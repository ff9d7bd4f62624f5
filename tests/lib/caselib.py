"""The case language: one case a line of a file, `#` begins a comment.

tests/cases/ has small cases, which tests run as they are. benchmarks/cases/ has layers at full size, which
benchmarks/layers.py times; tests run the convolutions among them, shrunk (`Case.shrunk`), or at full size
with --run-slow. A file may have the same name in both.

Convolutions (conv, conv_transpose, separable, inverted_residual) are sequences of letter and number:

    conv n2 c64 h56 w56 k64 r3 s3 u1 p1 "resnet50:layer1.0.conv2"

``n`` batch, ``c`` channels in, ``d h w`` input size, ``k`` channels out, ``t r s`` kernel size (the rank
follows from which of d, h, w are there), ``u`` stride, ``p`` padding, ``l`` dilation, ``o`` output padding,
each one number or one a dimension (``u2x1``; padding also begins then ends, ``p0x1x2x1``), ``g`` groups,
``b0`` without bias (default ``b1``), ``e:add+relu`` the operators that follow in the graph (see EPILOGUES),
``m:relu`` the one between the two convolutions of ``separable``, ``q`` and ``i:relu`` the channels that the
first of three makes in ``inverted_residual`` and what follows it, ``density=0.1`` or ``clustered=0.1`` what
share of the map is not zero (casedata.PLACES), and a label ``"net:layer"`` in double quotes. ``conv_pool`` is
written as ``conv``, with a pooling at the end of ``e:``; its graph is that of ``conv``, and the rewriter
makes the one layer of it. ``squeeze_excite n2 c24 h7 w7 k6 m:relu e:sigmoid`` is the gate of such a block,
with ``k`` values between its layers, which are 1x1 convolutions, or linear ones with the word ``linear``.
``reorder [2,5,7,9]`` is a map that goes into channel blocks and comes back.
``elementwise [2,3,4] mul[3,1] sub<[4] relu`` is functions one after the other, each with an input of its own
or none, which with ``<`` is the first argument; the rewriter makes one layer of them.

Every other operator is its input shapes and its attributes:

    slice [2,8,6,6] starts=1,0 ends=-1,6 axes=1,3 steps=2,1
    linear [2,3,16] w[10,16] w[10]

``w[...]`` is a constant of the graph (a weight), ``[...]`` a graph input, ``[...]:int64`` one of another type
than float32 (int64, int32, bool); ``values=`` picks another range of data (casedata.RANGES). Labels as above.

A line that ends with ``@oclgrind`` is one of `make oclgrind` too: all operators and portable kernels, at most
100 k multiply-adds, with a last work-group that is partly empty.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from casedata import PLACES, RANGES, ranged, thinned
from casegraph import EPILOGUES, Node, graph_of
from clcnn._reference import REFERENCE, SPECS
from clcnn._reference.conv import conv_output_shape, conv_transpose_output_shape
from clcnn._reference.data import Input, draw
from tolerance import compare, errors, nonzero_share, tolerance

__all__ = [
    "CASES_DIR",
    "EPILOGUES",
    "LARGE_DIR",
    "Case",
    "Input",
    "Node",
    "case_files",
    "cases_named",
    "compare",
    "errors",
    "large_cases",
    "layers_of_nets",
    "load_cases",
    "marked_cases",
    "nonzero_share",
    "parse_case",
    "tolerance",
]

MARK = " @oclgrind"
CASES_DIR = Path(__file__).resolve().parents[1] / "cases"
LARGE_DIR = CASES_DIR.parents[1] / "benchmarks" / "cases"


_SEVERITY = ("exact", "transcendental", "fp32")


@dataclass(frozen=True)
class Case:
    """One parsed line: `nodes` is the whole graph in order, the last node's output the case's. `macs` counts
    multiply-adds with padding counted as if it were input; `terms` is how many products make one output."""

    text: str
    inputs: tuple[Input, ...]
    nodes: tuple[Node, ...]
    epilogue: tuple[str, ...] = ()
    label: str = ""
    values: str = "normal"
    macs: int = 0
    terms: int = 1
    zeros: tuple[str, ...] = ()

    @property
    def op(self) -> str:
        """Operator that the line names: that of the first node, or a merged one."""
        return self.text.split(maxsplit=1)[0]

    @property
    def attrs(self) -> dict[str, Any]:
        """Attributes of the first node, as the text gives them."""
        return self.nodes[0].attrs

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of every input, constants included."""
        return [i.shape for i in self.inputs]

    @property
    def id(self) -> str:
        """The text as one word, for pytest."""
        return re.sub(r"\s+", "_", self.text.replace('"', ""))

    @property
    def graph(self) -> tuple[Node, ...]:
        """The nodes as a user writes them (casegraph.py)."""
        return graph_of(self.nodes, self.shapes)

    def _classes(self) -> list[str]:
        if self.op == "elementwise":  # each function rounds what the one before it rounded
            return ["fp32"] * len(self.nodes)
        nearest = self.attrs.get("mode", "nearest") == "nearest"
        return ["exact" if n.op == "resize" and nearest else SPECS[n.op].error_class for n in self.nodes]

    @property
    def error_class(self) -> str:
        """The loosest class of the case's operators."""
        return max(self._classes(), key=_SEVERITY.index)

    @property
    def integer_exact(self) -> bool:
        """Whether integer data gives an output that float32 holds exactly, whatever the order of
        summation."""
        ops = {n.op for n, name in zip(self.nodes, self._classes()) if name != "exact"}
        ops.add(self.attrs.get("activation", "identity"))
        numbers = (v for n in self.nodes for v in n.attrs.values() if isinstance(v, float))
        whole = all(math.isinf(v) or v.is_integer() for v in numbers)
        return all(SPECS[op].keeps_whole for op in ops) and whole and self.values == "normal"

    def data(self, kind: str = "normal") -> list[np.ndarray]:
        """Array for every input, the same for the same text.

        kind: "normal", "integer" or "integer4", as `clcnn._reference.data.draw` says.
        """
        values = None if self.values == "normal" else ranged(self.values)
        drawn = draw(kind, self.nodes[0].op, self.inputs, self.text, self.attrs, values)
        return [thinned(drawn[0], *self.zeros), *drawn[1:]] if self.zeros else drawn

    def reference(self, data: Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
        """Output in float64 (a list of outputs for split) for arrays as `data` gives them."""
        known: dict[str | None, Any] = {None: None}
        known.update(zip((i.name for i in self.inputs), data, strict=True))
        for node in self.nodes:
            given = (_first(known[name]) for name in node.inputs)
            known[node.output] = REFERENCE[node.op](*given, **node.attrs)
        return known[self.nodes[-1].output]

    def check(self, got: Any, data: Sequence[np.ndarray], error_class: str | None = None) -> None:
        """`compare` the result for `data` with the definition; `error_class` defaults to the case's own."""
        op = self.nodes[0].op if self.op == "elementwise" else self.op
        compare(got, self.reference(data), op, error_class or self.error_class, terms=self.terms)

    def shrunk(self, macs: int) -> Case:
        """A convolution like this one of at most `macs` multiply-adds, or as near as it gets: first the input
        shrinks, down to a few outputs a dimension, then both channel counts and even group counts are
        halved."""
        words = self.text.split()
        fields = {m[1]: m[2] for m in map(_TOKEN.fullmatch, words) if m}
        rest = [w for w in words if not _TOKEN.fullmatch(w)]
        case = self
        while case.macs > macs:
            smaller = _halved(fields)
            if smaller is None:
                break
            fields = smaller
            case = parse_case(" ".join([rest[0], *(k + v for k, v in fields.items()), *rest[1:]]))
        return case


def case_files(folder: Path | None = None) -> list[str]:
    """Names of the files of tests/cases/, or of LARGE_DIR: benchmarks/cases/."""
    return sorted(path.stem for path in (folder or CASES_DIR).glob("*.txt"))


def load_cases(name: str) -> list[Case]:
    """The cases of tests/cases/<name>.txt in order.

    Raises ValueError with file and line for a line that is no case, or that is there twice."""
    return [case for case, _ in _lines(CASES_DIR / f"{name}.txt")]


def large_cases(name: str) -> list[Case]:
    """The same of benchmarks/cases/<name>.txt."""
    return [case for case, _ in _lines(LARGE_DIR / f"{name}.txt")]


def layers_of_nets(name: str) -> list[Case]:
    """Those of the large cases that tests run, too."""
    return [case for case in large_cases(name) if case.op in _PARSERS]


def cases_named(name: str) -> list[Case]:
    """The cases of the files of this name, the small ones first. ValueError where there is no such file."""
    known = {*case_files(), *case_files(LARGE_DIR)}
    if name not in known:
        raise ValueError(f"no file of cases {name!r}; known are {sorted(known)}")
    small = load_cases(name) if name in case_files() else []
    return small + (large_cases(name) if name in case_files(LARGE_DIR) else [])


def marked_cases() -> list[Case]:
    """The cases of tests/cases/ that are marked `@oclgrind`."""
    return [case for n in case_files() for case, marked in _lines(CASES_DIR / f"{n}.txt") if marked]


def _lines(path: Path) -> list[tuple[Case, bool]]:
    """The cases of a file, and whether they are marked."""
    cases: list[tuple[Case, bool]] = []
    seen: dict[str, int] = {}
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        text = line.split("#", 1)[0].strip()
        marked, text = text.endswith(MARK), text.removesuffix(MARK).rstrip()
        if not text:
            continue
        try:
            if text in seen:
                raise ValueError(f"also in line {seen[text]}")
            cases.append((parse_case(text), marked))
        except (ValueError, KeyError, TypeError) as why:
            raise ValueError(f"{path.name}:{number}: {text}: {why}") from why
        seen[text] = number
    return cases


def parse_case(text: str) -> Case:
    """The case that one line of the language describes. ValueError for a word that it does not know."""
    text = " ".join(text.split())
    op, *words = shlex.split(text)
    if op not in _PARSERS and op not in SPECS:
        raise ValueError(f"unknown operator {op!r}; edit: SPECS in python/clcnn/_reference/<family>.py")
    label = re.findall(r'"([^"]*)"', text)
    words = [w for w in words if w not in label]
    return _PARSERS.get(op, _parse_general)(text, op, words, label[0] if label else "")


# ---- convolutions ------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"([ncdhwktrsuplogbq])(\d+(?:x\d+)*)")
_KERNEL = {"d": "t", "h": "r", "w": "s"}


def _halved(fields: dict[str, str]) -> dict[str, str] | None:
    """Tokens of the next smaller convolution, None when nothing is left to halve."""
    smaller = dict(fields)
    stride, dilation = (max(map(int, fields.get(letter, "1").split("x"))) for letter in "ul")
    for dim, kernel in _KERNEL.items():
        if dim in fields:
            least = dilation * (int(fields[kernel]) - 1) + 1 + 4 * stride
            smaller[dim] = str(min(int(fields[dim]), max(int(fields[dim]) // 2, least)))
    if smaller != fields:
        return smaller
    groups, channels, out = (int(fields.get(letter, "1")) for letter in "gck")
    if groups > 1 and groups % 2 == 0:
        smaller["g"] = str(groups // 2)
    elif channels // groups % 2 or out // groups % 2:
        return None
    smaller["c"], smaller["k"] = str(channels // 2), str(out // 2)
    return smaller


def _conv_words(words: list[str]) -> tuple[dict[str, tuple[int, ...]], dict[str, list[str]]]:
    """Numbers by letter, the names after e:, m: and i:, and where zeros are."""
    fields: dict[str, tuple[int, ...]] = {}
    names: dict[str, list[str]] = {"e": [], "m": [], "i": [], "zeros": []}
    for word in words:
        token = _TOKEN.fullmatch(word)
        if token:
            fields[token[1]] = tuple(map(int, token[2].split("x")))
        elif word[:2] in ("e:", "m:", "i:"):
            names[word[0]] = word[2:].split("+")
        elif word.partition("=")[0] in PLACES:
            names["zeros"] = word.split("=")
        else:
            raise ValueError(f"unknown word {word!r}")
    return fields, names


def _parse_conv(text: str, op: str, words: list[str], label: str) -> Case:
    fields, names = _conv_words(words)
    spatial = tuple(fields[letter][0] for letter in _KERNEL if letter in fields)
    kernel = tuple(fields[_KERNEL[letter]][0] for letter in _KERNEL if letter in fields)
    (batch,), (channels,), (out,) = fields["n"], fields["c"], fields["k"]
    (groups,), (bias,) = fields.get("g", (1,)), fields.get("b", (1,))
    x_shape, taps, n = (batch, channels, *spatial), math.prod(kernel), len(spatial)
    geometry = {
        "stride": fields.get("u", (1,)),
        "padding": fields.get("p", (0,)),
        "dilation": fields.get("l", (1,)),
    }
    attrs: dict[str, Any] = {
        name: value for name, value in geometry.items() if value != SPECS[op].attributes[name].default
    }
    if groups > 1:
        attrs["groups"] = groups
    inputs, names_in = [Input("x", x_shape)], ["x"]

    def weights(name: str, shape: tuple[int, ...], fan_in: int, outputs: int) -> None:
        inputs.append(Input(name, shape, True, "weight", max(1, fan_in)))
        names_in.append(name)
        if bias:
            inputs.append(Input(f"{name}_bias", (outputs,), True, "bias"))
        names_in.append(f"{name}_bias" if bias else None)

    terms = taps * (channels // groups)
    if op == "conv":
        weights("w", (out, channels // groups, *kernel), terms, out)
        shape = conv_output_shape(x_shape, inputs[1].shape, **geometry)
        macs = math.prod(shape) * terms
    elif op in ("separable", "inverted_residual"):
        (wide,) = fields.get("q", (channels,))
        before = channels if op == "inverted_residual" else 0
        if before:
            weights("expand", (wide, channels, *[1] * n), channels, wide)
        weights("dw", (wide, 1, *kernel), taps, wide)
        weights("pw", (out, wide, *[1] * n), wide, out)
        middle = conv_output_shape((batch, wide, *spatial), (wide, 1, *kernel), **geometry)
        shape = (batch, out, *middle[2:])
        macs = batch * math.prod(spatial) * wide * before + math.prod(middle) * (taps + out)
        terms = before + wide + taps
        for letter, name in (("i", "expand_activation"), ("m", "activation")):
            if names[letter]:
                attrs[name] = names[letter][0]
    else:
        strides = geometry["stride"] * (n if len(geometry["stride"]) == 1 else 1)
        weights("w", (channels, out // groups, *kernel), terms // math.prod(strides), out)
        extra = fields.get("o", (0,))
        if extra != (0,):
            attrs["output_padding"] = extra
        shape = conv_transpose_output_shape(
            x_shape, inputs[1].shape, groups=groups, output_padding=extra, **geometry
        )
        macs = math.prod(x_shape) * taps * (out // groups)
    nodes = [Node(op, tuple(names_in), attrs, "y0")]
    for name in names["e"]:
        _follow(name, shape, inputs, nodes)
    after, zeros = map(tuple, (names["e"], names["zeros"]))
    return Case(text, tuple(inputs), tuple(nodes), after, label, "normal", macs, terms, zeros)


def _parse_conv_pool(text: str, op: str, words: list[str], label: str) -> Case:
    case = _parse_conv(text, "conv", words, label)
    if case.nodes[-1].op not in ("max_pool", "avg_pool"):
        raise ValueError("unknown use of conv_pool: its last operator must be a pooling")
    return case


def _parse_squeeze(text: str, op: str, words: list[str], label: str) -> Case:
    """The gate of a squeeze-and-excite block; its results are [N,C], or [N,C,1,1] of convolutions."""
    fields, names = _conv_words([w for w in words if w != "linear"])
    (batch,), (channels,), (hidden,), (bias,) = fields["n"], fields["c"], fields["k"], fields.get("b", (1,))
    spatial = tuple(fields[letter][0] for letter in _KERNEL if letter in fields)
    ones = () if "linear" in words else (1,) * len(spatial)
    inputs, names_in = [Input("x", (batch, channels, *spatial))], ["x"]
    for name, outputs, fan_in in (("w1", hidden, channels), ("w2", channels, hidden)):
        inputs.append(Input(name, (outputs, fan_in, *ones), True, "weight", fan_in))
        if bias:
            inputs.append(Input(f"{name}_bias", (outputs,), True, "bias"))
        names_in += [name, f"{name}_bias" if bias else None]
    attrs = {"activation": names["m"][0]} if names["m"] else {}
    nodes = [Node(op, tuple(names_in), attrs, "y0")]
    for name in names["e"]:
        _follow(name, (batch, channels, *ones), inputs, nodes)
    macs, terms = 2 * batch * channels * hidden, channels + hidden + math.prod(spatial)
    return Case(text, tuple(inputs), tuple(nodes), tuple(names["e"]), label, "normal", macs, terms)


def _follow(name: str, shape: tuple[int, ...], inputs: list[Input], nodes: list[Node]) -> None:
    """Append the operator of EPILOGUES `name` and its own inputs; `shape` is the output so far."""
    if name not in EPILOGUES:
        raise ValueError(f"unknown epilogue {name!r}; known are {sorted(EPILOGUES)}")
    op, attrs, roles = EPILOGUES[name]
    names = [nodes[-1].output]
    for role in roles:
        name = f"e{len(inputs)}"
        inputs.append(Input(name, shape) if role == "x" else Input(name, shape[1:2], True, role))
        names.append(name)
    nodes.append(Node(op, tuple(names), attrs, f"y{len(nodes)}"))


# ---- everything else ---------------------------------------------------------------------------------------

_SHAPE = re.compile(r"(w?)\[([\d,]*)\](?::(int64|int32|bool))?")
_SCALARS = {"ints": int, "int": int, "floats": float, "float": float, "str": str}


def _value(kind: str, text: str) -> Any:
    """An attribute's value; lists are separated by commas and `axes=` is the empty one."""
    one = _SCALARS[kind]
    return tuple(one(v) for v in text.split(",") if v) if kind in ("ints", "floats") else one(text)


def _first(result: Any) -> Any:
    """Of an operator with several results, which what follows reads the first of."""
    return result[0] if isinstance(result, (list, tuple)) else result


def _parse_general(text: str, op: str, words: list[str], label: str) -> Case:
    attrs: dict[str, Any] = {}
    tensors: list[re.Match[str]] = []
    values, after = "normal", tuple[str, ...]()
    for word in words:
        tensor = _SHAPE.fullmatch(word)
        name, equals, value = word.partition("=")
        if tensor:
            tensors.append(tensor)
        elif name == "values" and value in RANGES:
            values = value
        elif word[:2] == "e:":
            after = tuple(word[2:].split("+"))
        elif equals and name in SPECS[op].attributes:
            attrs[name] = _value(SPECS[op].attributes[name].kind, value)
        else:
            raise ValueError(f"unknown word {word!r}")
    shapes = [tuple(int(v) for v in tensor[2].split(",") if v) for tensor in tensors]
    terms, macs = _products(op, shapes, attrs)
    roles = SPECS[op].roles + ("x",) * len(shapes)
    # Inputs of products are not rectified here: twice the fan-in keeps the output's variance at 1.
    inputs = [
        Input(f"x{i}", shape, bool(tensor[1]), role if tensor[1] else "x", 2 * terms, tensor[3] or "float32")
        for i, (tensor, shape, role) in enumerate(zip(tensors, shapes, roles))
    ]
    nodes = [Node(op, tuple(i.name for i in inputs), attrs, "y0")]
    if after:
        shape = np.shape(_first(REFERENCE[op](*map(np.zeros, shapes), **attrs)))
    for name in after:
        _follow(name, shape, inputs, nodes)
    return Case(text, tuple(inputs), tuple(nodes), after, label, values, macs, terms)


def _parse_elementwise(text: str, op: str, words: list[str], label: str) -> Case:
    inputs: list[Input] = []
    nodes: list[Node] = []
    for word in words:
        op, bracket, shape = word.rstrip("]").partition("[")
        if bracket:
            inputs.append(Input(f"x{len(inputs)}", tuple(int(v) for v in shape.split(","))))
        if inputs and op.rstrip("<") in SPECS:
            names = (nodes[-1].output if nodes else "x0", *[inputs[-1].name] * bool(bracket))
            names = names[:: -1 if op.endswith("<") else 1]
            nodes.append(Node(op.rstrip("<"), names, {}, f"y{len(nodes)}"))
        elif op or nodes:
            raise ValueError(f"unknown word {word!r}")
    return Case(text, tuple(inputs), tuple(nodes), (), label)


def _products(op: str, shapes: list[tuple[int, ...]], attrs: dict[str, Any]) -> tuple[int, int]:
    """Terms of one output and multiply-adds of all, for sums of products; (1, 0) for others."""
    if op == "scaled_dot_product_attention":
        q, k, v = shapes[:3]
        return k[-1] + k[-2], math.prod(q[:-1]) * k[-2] * (q[-1] + v[-1])
    if op in ("lstm", "gru"):
        return shapes[1][1], math.prod(shapes[0]) * shapes[1][1]
    if op == "depthwise_nhwc":
        taps = math.prod(shapes[1][2:])
        return taps, math.prod(shapes[0]) * taps
    if op not in ("linear", "matmul", "gemm"):
        return 1, 0
    a, b = shapes[:2]
    terms = a[0] if len(a) == 1 or attrs.get("trans_a") else a[-1]
    if op == "matmul" and len(b) > 1:
        batch = math.prod(np.broadcast_shapes(a[:-2], b[:-2]))
        return terms, batch * math.prod(a[-2:]) * b[-1]
    columns = {"linear": b[0], "matmul": 1, "gemm": b[0] if attrs.get("trans_b") else b[-1]}[op]
    return terms, math.prod(a) * columns


_PARSERS = dict.fromkeys(("conv", "conv_transpose", "separable", "inverted_residual"), _parse_conv)
_PARSERS |= {"conv_pool": _parse_conv_pool, "elementwise": _parse_elementwise}
_PARSERS |= {"squeeze_excite": _parse_squeeze}
