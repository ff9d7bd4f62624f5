"""onnxruntime, and how far from it a result may be.

How errors grow on their way through a network is measured, not guessed: the network is run by onnxruntime
once more with noise added to each result that is not exact, as large as the rounding that its operator is
allowed. A result may be off by FACTOR times what noise made of it. So what lies at a discontinuity, or is
what remains of large terms, excuses itself; what only moves elements must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

Array = NDArray[Any]
Arrays = Mapping[str, Array]

FACTOR = 4.0
DRAWS, MORE_DRAWS = 6, 60
# What sums of products may be off, of the rms of their tensor: half of what each precision's contract allows.
OF_RMS = {"strict": 2.5e-5, "highest": 2.5e-5, "high": 3e-3, "medium": 3e-3}
OF_VALUE, OF_FUNCTION = 2.0**-22, 4e-6  # of arithmetic and of functions, of each value
SURE = 1e-6  # of the rms and of the value: nothing more is asked where it holds


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


EXACT = _names(
    """Abs And ArgMax ArgMin Cast CastLike Ceil CenterCropPad Clip Compress Concat Constant ConstantOfShape
    DepthToSpace Dropout Equal Expand EyeLike Flatten Floor Gather GatherElements GatherND GlobalMaxPool
    Greater GreaterOrEqual Hardmax Identity IsInf IsNaN Less LessOrEqual Max MaxPool MaxUnpool Min Neg NonZero
    Not OneHot Or Pad Range ReduceMax ReduceMin Relu Reshape Round Shape Sign Size Slice SpaceToDepth Split
    Squeeze ThresholdedRelu Tile TopK Transpose Trilu Unique Unsqueeze Where Xor"""
)
ROUNDED = _names("Add Sub Mul Div Sum Mean PRelu LeakyRelu Shrink Mod HardSigmoid Reciprocal Sqrt")
FUNCTIONS = _names(
    """Acos Acosh Asin Asinh Atan Atanh Celu Cos Cosh Elu Erf Exp Gelu HardSwish Log Mish Pow Selu Sigmoid Sin
    Sinh Softmax Softplus Softsign Swish Tan Tanh"""
)
# Inputs that decide shapes or are no operands: they stay as they are.
STEADY = {"Resize": (1, 2, 3), "Upsample": (1,), "NonMaxSuppression": (2, 3, 4), "Dropout": (1, 2)}


@cache
def options_of(optimise: bool) -> Any:
    """One thread, rewriting or not."""
    import onnxruntime

    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = 1
    level = onnxruntime.GraphOptimizationLevel
    made.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    return made


def session(model: onnx.ModelProto, optimise: bool = False) -> Any:
    """Raises what onnxruntime raises."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    data = model.SerializeToString()
    return onnxruntime.InferenceSession(data, options_of(optimise), providers=["CPUExecutionProvider"])


def alone(node: onnx.NodeProto, feed: Arrays, opset: int) -> list[Array] | None:
    """The results of one node, None where onnxruntime refuses it."""
    infos = [_info(name, array) for name, array in feed.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "node", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    try:
        return [np.asarray(a) for a in session(model).run(None, dict(feed))]
    except Exception:
        return None


def _info(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def every_value(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each result as an output."""
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    known = {o.name for o in whole.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    whole.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names if n not in known)
    return whole


class Oracle:
    """A model, run by onnxruntime for these inputs. Raises what onnxruntime raises."""

    def __init__(self, model: onnx.ModelProto, feed: Arrays) -> None:
        self.model, self.feed = model, dict(feed)
        self.outputs = [o.name for o in model.graph.output]
        whole = session(every_value(model))
        names = [o.name for o in whole.get_outputs()]
        self.values: dict[str, Array] = {**self.feed, **dict(zip(names, whole.run(names, self.feed)))}
        self.expected = {name: np.asarray(self.values[name]) for name in self.outputs}
        self._noisy: dict[str, tuple[Any, dict[str, Array]]] = {}
        self._draws: dict[str, list[Arrays]] = {}

    def optimised(self) -> dict[str, Array]:
        """The outputs as onnxruntime gives them with its rewriting."""
        return dict(zip(self.outputs, session(self.model, True).run(self.outputs, self.feed)))

    def compare(
        self, results: Arrays, precision: str, draws: int = DRAWS, expected: Arrays | None = None
    ) -> str:
        """How the results differ by more than noise explains; "" where they do not. expected: what
        onnxruntime gives, without its rewriting if nothing is said."""
        wanted = self.expected if expected is None else expected
        doubtful = [n for n in self.outputs if not surely(results[n], wanted[n])]
        if not doubtful:
            return ""
        drawn = self._drawn(precision, draws)
        for name in doubtful:
            note = differs(results[name], wanted[name], [d[name] for d in drawn])
            if note:
                return f"{name}: {note}"
        return ""

    def _drawn(self, precision: str, count: int) -> list[Arrays]:
        made = self._draws.setdefault(precision, [])
        if precision not in self._noisy:
            proto, sizes = noisy(self.model, self.values, OF_RMS[precision])
            self._noisy[precision] = session(proto), sizes
        run, sizes = self._noisy[precision]
        while len(made) < count:
            rng = np.random.default_rng(len(made))
            noise = {n: np.asarray(a * rng.uniform(-1, 1, a.shape), a.dtype) for n, a in sizes.items()}
            made.append(dict(zip(self.outputs, run.run(self.outputs, {**self.feed, **noise}))))
        return made


def noisy(model: onnx.ModelProto, values: Arrays, of_rms: float) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """The model with noise as further inputs, and how large each may be."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    known = {**values, **{t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}}
    sizes: dict[str, Array] = {}
    nodes: list[onnx.NodeProto] = []
    blurred: dict[str, str] = {}  # values that are exact, and their names once noise is added

    def add(source: str, target: str, size: Array) -> None:
        noise = f"noise:{target}"
        sizes[noise] = size
        nodes.append(helper.make_node("Add", [source, noise], [target]))

    rough: set[str] = set()
    for node in made.graph.node:
        if node.op_type in EXACT or _whole(node, values):
            nodes.append(node)
            continue
        for i, name in enumerate(node.input):
            array = known.get(name)
            if not name or name in rough or array is None or i in STEADY.get(node.op_type, ()):
                continue
            if array.dtype.name != "float32":
                continue
            if name not in blurred:
                blurred[name] = f"{name}:in"
                add(name, blurred[name], _size(array, OF_VALUE, 0.0))
            node.input[i] = blurred[name]
        results = [(i, n) for i, n in enumerate(node.output) if n and values[n].dtype.name == "float32"]
        nodes.append(node)
        for i, name in results:
            node.output[i] = f"{name}:raw"
            add(node.output[i], name, _allowed(node.op_type, values[name], of_rms))
            rough.add(name)
    made.graph.ClearField("node")
    made.graph.node.extend(nodes)
    made.graph.ClearField("value_info")
    made.graph.input.extend(  # of open sizes: what shape inference makes of scales is not always what comes
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim)
        for name, a in sizes.items()
    )
    return made, sizes


def _whole(node: onnx.NodeProto, values: Arrays) -> bool:
    """Whether a node gives no floats, so that its inputs decide nothing but places: left to those before."""
    kinds = {values[n].dtype.kind for n in node.output if n}
    return kinds <= set("iub") and node.op_type != "NonMaxSuppression"


def _allowed(op: str, array: Array, of_rms: float) -> Array:
    if op in ROUNDED:
        return _size(array, OF_VALUE, 0.0)
    if op in FUNCTIONS:
        return _size(array, OF_FUNCTION, 1e-7)
    return _size(array, OF_FUNCTION, of_rms)


def _size(array: Array, of_value: float, of_rms: float) -> Array:
    with np.errstate(all="ignore"):
        size = of_value * np.abs(array) + of_rms * _rms(array)
    return np.asarray(np.nan_to_num(size, nan=0.0, posinf=0.0), array.dtype)


def _rms(array: Array) -> float:
    """Of the finite elements."""
    finite = array[np.isfinite(array)].astype(np.float64)
    return float(np.sqrt(np.mean(finite * finite))) if finite.size else 0.0


def surely(got: Array, want: Array) -> bool:
    """Equal, or as near as no one could ask for more."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return False
    if want.dtype.kind != "f":
        return bool((got == want).all())
    with np.errstate(all="ignore"):
        off = np.abs(got.astype(np.float64) - want) <= SURE * (np.abs(want) + _rms(want))
    return bool((off | (got == want) | (np.isnan(got) & np.isnan(want))).all())


def differs(got: Array, want: Array, drawn: Sequence[Array]) -> str:
    """How an output differs from the expected one by more than these draws of noise explain."""
    if got.dtype != want.dtype:
        return f"elements of type {got.dtype} instead of {want.dtype}"
    if any(d.shape != want.shape for d in drawn):
        return ""  # its shape hangs on noise
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if want.dtype.kind != "f":
        steady = np.all([d == want for d in drawn], axis=0)
        wrong = steady & (got != want)
        return _note(got, want, wrong) if wrong.any() else ""
    finite = np.all([np.isfinite(d) for d in (want, *drawn)], axis=0)
    odd_for_all = np.all([_same_odd(d, want) for d in drawn], axis=0)
    moved = _spread(want, drawn)
    # An element that no draw moved may have been lucky; the smallest numbers may be flushed to 0.
    typical = np.quantile(moved[finite], 0.75) if finite.any() else 0.0
    with np.errstate(all="ignore"):
        bound = FACTOR * np.maximum(moved, typical) + 2e-38
        far = np.abs(got.astype(np.float64) - want) > bound
    odd = odd_for_all & ~np.isfinite(want) & ~_same_odd(got, want)
    wrong = np.where(finite, far | ~np.isfinite(got), odd)
    return _note(got, want, wrong) if wrong.any() else ""


def _spread(want: Array, drawn: Sequence[Array]) -> Array:
    """How far noise moved each element at most."""
    with np.errstate(all="ignore"):
        moved = np.max([np.abs(d.astype(np.float64) - want) for d in drawn], axis=0)
    return np.asarray(np.nan_to_num(moved, nan=0.0, posinf=np.finfo(np.float64).max ** 0.25))


def _same_odd(a: Array, b: Array) -> Array:
    """Both NaN, or the same infinity, or both finite."""
    return (np.isnan(a) & np.isnan(b)) | (a == b) | (np.isfinite(a) & np.isfinite(b))


def _note(got: Array, want: Array, wrong: Array) -> str:
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = [int(i) for i in at]
    return f"{int(wrong.sum())} of {want.size} elements: {got[at]!s} instead of {want[at]!s} at {place}"
