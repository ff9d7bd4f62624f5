"""verify(): each node of a model on its own, against ONNX's reference implementation in float64.

The model runs once with every node's result kept. Each node is then computed again from the values that
went into it on the device, so that an error shows at the node which makes it and not further down; and the
model as it normally runs, with layers fused, must give the same outputs. Where the reference has no answer,
or another one, onnxruntime is asked if it is installed (in float32). A node departs if none agrees with it.
Where neither has an answer, clcnn's own definitions are asked, in float64: they find what is computed
wrongly, but not a node that is read wrongly.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from clcnn import compiler
from clcnn import device as devices
from clcnn._arguments import Precision
from clcnn._reference import REFERENCE
from clcnn.graph import Graph, Value
from clcnn.onnx.model import Model, load
from clcnn.onnx.program import first_of

__all__ = ["Difference", "NodeCheck", "difference", "first_departure", "verify"]

Arrays = Mapping[str, NDArray[Any]]
Results = list[NDArray[Any]] | None
Oracle = Callable[[Model, onnx.NodeProto, Arrays], Results]

# What a value may be off: this much of the root mean square of its tensor (the bound of precision="highest"),
# or, where it is a longer sum, the unit round-off of float32 for each of its terms; and this much of itself.
OF_RMS, OF_TERM, OF_VALUE = 5e-5, 2.0**-24, 1e-5
FUSED = "(fused)"
LAST = "definitions"  # asked where all others have no answer


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """What became of one node.

    Attributes
    ----------
    node, op : str
        Its name and its operator; "(fused)" for an output of the model as it normally runs.
    verdict : {"agrees", "departs", "not checked"}
    error : float
        The largest error over the root mean square of the expected output, 0 where not checked.
    by : str
        Who it was compared with.
    note : str
        Why it was not checked, or how it departs.

    Examples
    --------
    >>> from clcnn.onnx import verify
    >>> verify.NodeCheck("conv_1", "Conv", "agrees", 1e-7, "reference").verdict
    'agrees'
    """

    node: str
    op: str
    verdict: Literal["agrees", "departs", "not checked"]
    error: float = 0.0
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """How an output compares: what difference() returns.

    Attributes
    ----------
    error : float
        The largest error over the root mean square of the expected finite values.
    note : str
        Empty where it is within bounds.

    Examples
    --------
    >>> from clcnn.onnx import verify
    >>> verify.Difference(0.0, "").note
    ''
    """

    error: float
    note: str


def verify(
    model: Model,
    inputs: Arrays,
    device: Any = None,
    *,
    precision: Precision = "highest",
    against: Sequence[str] = ("reference", "onnxruntime", LAST),
) -> list[NodeCheck]:
    """A check of every node in order, and one of each output of the model as it normally runs.

    Parameters
    ----------
    model : clcnn.onnx.Model
    inputs : {name: array}
        For every input of the model.
    device, precision
        As of clcnn.compile().
    against : sequence of {"reference", "onnxruntime", "definitions"}
        Whom to ask, in this order; those not installed are passed over.

    Returns
    -------
    list of NodeCheck

    Raises
    ------
    Error
        What specialising, compiling and running the model raise.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> from clcnn.onnx import verify
    >>> data = clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)).SerializeToString()
    >>> checks = verify.verify(clcnn.onnx.load(data), {"input": np.float32([[-1, 1]])})
    >>> [(check.op, check.verdict) for check in checks]
    [('Relu', 'agrees'), ('(fused)', 'agrees')]
    """
    values = {name: inputs[name] for name in model.value_inputs}
    program = model.specialise({name: np.shape(array) for name, array in inputs.items()}, values)
    known: dict[str, NDArray[Any]] = {name: np.asarray(array) for name, array in inputs.items()}
    computed: set[str] = set()
    results: dict[str, NDArray[Any]] = {}
    if program.graph is not None:
        target, feed = devices.get(device), program.feed(inputs)
        kept = {name: value for name, value in program.values.items() if isinstance(value, Value)}
        counts = [count for _, count in program.lengths.values()]
        results = _every_value(program.graph, [*kept.values(), *counts], feed, target, precision)
        for name, value in kept.items():
            known.setdefault(name, results[_label(value)])
            computed.add(name)
    known.update((name, v) for name, v in program.values.items() if not isinstance(v, Value))
    for name, (axis, count) in program.lengths.items():
        known[name] = first_of(known[name], axis, int(results[_label(count)][0]))
    oracles = [(name, ORACLES[name]) for name in against if name != "onnxruntime" or _has_onnxruntime()]
    checks = [_check(model, model.nodes[i], known, computed - set(inputs), oracles) for i in model.order]
    if program.graph is not None:
        with compiler.compile(program.graph, device=target, precision=precision) as plan:
            fused = plan.run(feed)
        for name, cut in program.cuts.items():
            fused[name] = cut.of(fused[name], fused)
        checks += _fused_outputs(fused, known)
    return checks


def first_departure(checks: Sequence[NodeCheck]) -> NodeCheck | None:
    """The first node that departs.

    Parameters
    ----------
    checks : sequence of NodeCheck
        What verify() returned.

    Returns
    -------
    NodeCheck, or None

    Examples
    --------
    >>> from clcnn.onnx import verify
    >>> rows = [verify.NodeCheck("a", "Relu", "agrees"), verify.NodeCheck("b", "Exp", "departs", 0.5)]
    >>> verify.first_departure(rows).node
    'b'
    """
    return next((check for check in checks if check.verdict == "departs"), None)


def _label(value: Value) -> str:
    return f"value {value.id}"


def _every_value(
    graph: Any, kept: Iterable[Value], feed: Arrays, device: Any, precision: Precision
) -> dict[str, NDArray[Any]]:
    """The arrays of these values of a graph, by their labels."""
    whole = graph.copy()
    for label, value in {_label(v): v for v in kept}.items():
        whole.output(whole._values[value.id], label)
    with compiler.compile(whole, device=device, precision=precision) as plan:
        return plan.run(feed)


def _check(
    model: Model,
    node: onnx.NodeProto,
    known: Arrays,
    computed: set[str],
    oracles: Sequence[tuple[str, Oracle]],
) -> NodeCheck:
    name = node.name or next((n for n in node.output if n), "")
    outputs = [n for n in node.output if n in computed]
    if not outputs:
        return NodeCheck(name, node.op_type, "not checked", note="constant when the graph is built")
    if any(n and n not in known for n in node.input) or any(a.HasField("g") for a in node.attribute):
        return NodeCheck(name, node.op_type, "not checked", note="control flow")
    found: NodeCheck | None = None
    for by, oracle in oracles:
        expected = None if found and by == LAST else oracle(model, node, known)
        if expected is None:
            continue
        pairs = [(known[n], e) for n, e in zip(filter(None, node.output), expected) if n in computed]
        slack = max(1.0, OF_TERM / OF_RMS * _terms(node, known))
        differences = [difference(a, e, slack) for a, e in pairs]
        error = max(d.error for d in differences)
        note = next((d.note for d in differences if d.note), "")
        if not note:
            return NodeCheck(name, node.op_type, "agrees", error, by)
        found = found or NodeCheck(name, node.op_type, "departs", error, by, note)
    return found or NodeCheck(name, node.op_type, "not checked", note="no reference computes it")


def _terms(node: onnx.NodeProto, known: Arrays) -> float:
    """How many products or values go into a result, at most."""
    shapes = [known[name].shape if name else () for name in node.input]
    if node.op_type in ("Conv", "ConvTranspose", "DeformConv"):
        return float(math.prod(shapes[1]) / min(shapes[1][:2]))
    if node.op_type in ("Gemm", "MatMul"):
        return float(max(shapes[0][-2:], default=1))
    made = min((known[name].size for name in node.output if name in known), default=1)
    return float(max(map(math.prod, shapes), default=1)) / max(made, 1)


def _fused_outputs(fused: Arrays, known: Arrays) -> list[NodeCheck]:
    """The outputs of the plan that users run, beside those of the plan that keeps every value. Errors of
    layers may add up, so that the bound is ten times a layer's."""
    checks = []
    for name, array in fused.items():
        if name not in known:
            continue
        found = difference(array, known[name], 10.0)
        verdict: Literal["agrees", "departs"] = "departs" if found.note else "agrees"
        checks.append(NodeCheck(name, FUSED, verdict, found.error, "the layers by themselves", found.note))
    return checks


def difference(ours: NDArray[Any], expected: NDArray[Any], slack: float = 1.0) -> Difference:
    """Compares an output with what it should be.

    Parameters
    ----------
    ours, expected : array
        Floats must be within OF_RMS and OF_VALUE, with NaN and infinity in the same places; everything else
        must be equal.
    slack : float
        What the bounds are multiplied by. Default 1.

    Returns
    -------
    Difference

    Examples
    --------
    >>> import numpy as np
    >>> from clcnn.onnx import verify
    >>> verify.difference(np.arange(3), np.array([0, 1, 5])).note
    '1 of 3 values differ'
    """
    if ours.shape != expected.shape:
        return Difference(np.inf, f"shape {ours.shape} instead of {expected.shape}")
    if ours.dtype.kind != "f":
        wrong = int((ours != expected).sum())
        return Difference(float(wrong), f"{wrong} of {ours.size} values differ" if wrong else "")
    with np.errstate(over="ignore"):
        want = expected.astype(np.float32).astype(np.float64)
    got = ours.astype(np.float64)
    finite = np.isfinite(want)
    odd = ~(finite | ((got == want) | (np.isnan(got) & np.isnan(want)))) | (finite & ~np.isfinite(got))
    if odd.any():
        at = np.unravel_index(int(odd.argmax()), odd.shape)
        return Difference(np.inf, f"{got[at]} instead of {want[at]} at {[int(i) for i in at]}")
    if not finite.any():
        return Difference(0.0, "")
    off = np.abs(got - want, where=finite, out=np.zeros_like(want))
    rms = float(np.sqrt(np.mean(np.square(want[finite]))))
    error = float(off.max()) / rms if rms else float(off.max())
    excess = off - slack * (OF_RMS * rms + OF_VALUE * np.abs(want, where=finite, out=np.zeros_like(want)))
    if excess.max() <= 1e-30:
        return Difference(error, "")
    at = np.unravel_index(int(excess.argmax()), off.shape)
    return Difference(error, f"{got[at]:.7g} instead of {want[at]:.7g} at {[int(i) for i in at]}")


def largest_error(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The largest difference over the largest value; infinity where shapes or NaNs differ."""
    if ours.shape != theirs.shape or not (np.isnan(ours) == np.isnan(theirs)).all():
        return float("inf")
    a, b = (np.nan_to_num(x.astype(np.float64)) for x in (ours, theirs))
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-30))


# ---- who is asked ----


def _alone(
    model: Model, node: onnx.NodeProto, arrays: Arrays, opset: int = 0
) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """A model of this node alone, and what it is fed. opset: where not the model's own."""
    feed = {name: arrays[name] for name in node.input if name}
    types = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feed.items()}
    graph = helper.make_graph(
        [node],
        "node",
        [helper.make_tensor_value_info(name, types[name], array.shape) for name, array in feed.items()],
        [helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in node.output if n],
    )
    versions = {**model.opsets, "": opset or model.opset}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    made = helper.make_model(graph, opset_imports=imports, functions=list(model.functions.values()))
    return made, feed


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    found = [a for a in node.attribute if a.name == name]
    return helper.get_attribute_value(found[0]) if found else default


def _aligns_fractions(node: onnx.NodeProto, known: Arrays) -> bool:
    """Whether corners are aligned where a scaled length is no whole number: the reference aligns them with
    that length, all others with the length of the result."""
    if _attribute(node, "coordinate_transformation_mode", b"") != b"align_corners":
        return False
    scales = known[node.input[2]] if len(node.input) > 2 and node.input[2] else np.ones(0)
    shape = np.asarray(known[node.input[0]].shape)
    return scales.size == shape.size and bool((scales * shape % 1).any())


# Where the reference implementation (onnx 1.23) is known to be wrong: it is not asked.
FAULTS: dict[str, Callable[[onnx.NodeProto, Arrays], bool]] = {
    "LRN": lambda node, known: True,  # sums other channels
    "GridSample": lambda node, known: b"cubic" in _attribute(node, "mode", b""),  # other edges
    "ConvTranspose": lambda node, known: _attribute(node, "group", 1) != 1,
    "Pad": lambda node, known: (
        len(node.input) > 1 and bool((known[node.input[1]] < 0).any())
    ),  # does not crop
    "Resize": lambda node, known: _aligns_fractions(node, known),
    "MaxPool": lambda node, known: len(node.output) > 1 or bool(np.isnan(known[node.input[0]]).any()),
}
# Operators that it only gets right in a later version, of the same meaning at inference.
LATER = {"BatchNormalization": 15}


def _reference(model: Model, node: onnx.NodeProto, known: Arrays) -> Results:
    """float64 wherever the node has float32."""
    from onnx.reference import ReferenceEvaluator

    if node.op_type in FAULTS and FAULTS[node.op_type](node, known):
        return None
    wide = {n: a.astype(np.float64) if a.dtype == np.float32 else a for n, a in _inputs(node, known).items()}
    try:
        made, feed = _alone(model, node, wide, max(model.opset, LATER.get(node.op_type, 0)))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return [np.asarray(result) for result in ReferenceEvaluator(made).run(None, feed)]
    except Exception:  # whatever it lacks: the next one is asked
        return None


def _onnxruntime(model: Model, node: onnx.NodeProto, known: Arrays) -> Results:
    """The processor, without rewriting."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        made, feed = _alone(model, node, _inputs(node, known))
        for value in made.graph.output:
            value.ClearField("type")
        made.ir_version = min(made.ir_version, 10)
        session = onnxruntime.InferenceSession(
            made.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(result) for result in session.run(None, feed)]
    except Exception:
        return None


def _definitions(model: Model, node: onnx.NodeProto, known: Arrays) -> Results:
    """What the node becomes when it is read, by the definitions of its operators."""
    inputs = _inputs(node, known)
    try:
        made, _ = _alone(model, node, inputs)
        for value in made.graph.output:
            value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(known[value.name].dtype)
        alone = load(made.SerializeToString())
        values = {name: inputs[name] for name in alone.value_inputs}
        program = alone.specialise({name: array.shape for name, array in inputs.items()}, values)
        if program.graph is None:
            return None
        results = program.collect(_evaluated(program.graph, program.feed(inputs)))
        return [results[name] for name in node.output if name]
    except Exception:
        return None


def _evaluated(graph: Graph, feed: Arrays) -> dict[str, NDArray[Any]]:
    """The outputs of a graph, by the definitions."""
    known: dict[int | None, Any] = {None: None}
    results = {}
    for record in graph.records:
        if record.kind == "output":
            results[record.name] = known[record.inputs[0]]
            continue
        if record.kind == "node":
            made = REFERENCE[record.op](*(known[i] for i in record.inputs), **record.attrs)
        else:
            made = feed[record.name] if record.kind == "input" else record.array
        known.update(zip(record.values, made if isinstance(made, list) else [made], strict=True))
    return results


def _inputs(node: onnx.NodeProto, known: Arrays) -> dict[str, NDArray[Any]]:
    return {name: known[name] for name in node.input if name}


def _has_onnxruntime() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None


ORACLES: dict[str, Oracle] = {"reference": _reference, "onnxruntime": _onnxruntime, LAST: _definitions}
