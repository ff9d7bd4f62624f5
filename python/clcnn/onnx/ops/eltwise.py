"""Element-wise operators: activations, arithmetic, comparisons, Clip, Where, Cast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.export_step import TYPES, Emit, Step, plain
from clcnn.onnx.table import add_row, row

# ---- one input ---------------------------------------------------------------------------------------------

# ONNX operator -> the core's, with the same meaning for all opsets and no attributes.
_PLAIN = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "HardSwish": "hard_swish",
    "Identity": "identity",
    "IsNaN": "is_nan",
    "Log": "log",
    "Mish": "mish",
    "Neg": "neg",
    "Not": "logical_not",
    "Reciprocal": "reciprocal",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
}

# ONNX operator -> the core's, and its attributes: ONNX's name, the core's name, ONNX's default.
_WITH_NUMBERS: dict[str, tuple[str, tuple[tuple[str, str, float], ...]]] = {
    "Celu": ("celu", (("alpha", "alpha", 1.0),)),
    "Elu": ("elu", (("alpha", "alpha", 1.0),)),
    "HardSigmoid": ("hard_sigmoid", (("alpha", "alpha", 0.2), ("beta", "beta", 0.5))),
    "LeakyRelu": ("leaky_relu", (("alpha", "negative_slope", 0.01),)),
    "Shrink": ("shrink", (("lambd", "lambd", 0.5), ("bias", "bias", 0.0))),
    "ThresholdedRelu": ("thresholded_relu", (("alpha", "alpha", 1.0),)),
}


def _plain(op: str) -> Callable[[Call], Operand]:
    return lambda call: call.emit(op, call.input())


def _with_numbers(op: str, numbers: tuple[tuple[str, str, float], ...]) -> Callable[[Call], Operand]:
    def build(call: Call) -> Operand:
        return call.emit(
            op, call.input(), **{ours: call.attr(name, default) for name, ours, default in numbers}
        )

    return build


for _name, _op in _PLAIN.items():
    if _name != "Identity":
        add_row(_name, _plain(_op))
for _name, (_op, _numbers) in _WITH_NUMBERS.items():
    add_row(_name, _with_numbers(_op, _numbers))


@row("Identity")
def _identity(call: Call) -> Operand:
    return call.input()


@row("Relu")
def _relu(call: Call) -> Operand:
    x = call.input()
    return call.emit("relu", x) if x.dtype == np.float32 else call.emit("maximum", x, call.full(x, 0))


@row("Selu", 1, 5)
def _selu_1(call: Call) -> Operand:
    return call.emit("selu", call.input(), alpha=call.attr("alpha", 1.6732), gamma=call.attr("gamma", 1.0507))


@row("Selu", 6)
def _selu(call: Call) -> Operand:
    alpha, gamma = call.attr("alpha", 1.6732632423543772), call.attr("gamma", 1.0507009873554805)
    return call.emit("selu", call.input(), alpha=alpha, gamma=gamma)


@row("Gelu", 20)
def _gelu(call: Call) -> Operand:
    return call.emit("gelu", call.input(), approximate=call.attr("approximate", "none"))


@row("Swish", 24)
def _swish(call: Call) -> Operand:
    x, alpha = call.input(), float(call.attr("alpha", 1.0))
    if alpha == 1.0:
        return call.emit("silu", x)
    return call.emit("swish", x, alpha=alpha)


_SIGNS = {(1, 1): "both", (0, 1): "positive", (1, 0): "negative"}


@row("IsInf", 10)
def _is_inf(call: Call) -> Operand:
    x = call.input()
    detect = (int(call.attr("detect_negative", 1)), int(call.attr("detect_positive", 1)))
    if detect == (0, 0):
        never = call.constant(np.zeros((1,) * x.rank, np.bool_))
        return call.emit("logical_and", call.emit("is_nan", x), never)
    return call.emit("is_inf", x, sign=_SIGNS[detect])


@row("Dropout", 1, 11)
def _dropout_1(call: Call) -> list[Operand]:
    """Networks of that age are saved with is_test=0 too, and every runtime takes them for inference."""
    x = call.input()
    if not call.wants(1):
        return [x]
    return [x, call.ones(x.shape, np.float32 if call.version < 10 else np.bool_)]


@row("Dropout", 12, values=(1, 2))
def _dropout(call: Call) -> list[Operand]:
    """In training mode the mask is drawn when the graph is built."""
    x = call.input()
    ratio = float(call.number(1) if call.has(1) else 0.5)
    if not call.number(2) or ratio == 0.0:
        return [x, call.ones(x.shape, np.bool_)] if call.wants(1) else [x]
    if not 0.0 < ratio < 1.0:
        raise ModelError(f"ratio must be at least 0 and below 1, but is {ratio}")
    call.check_size(x.shape)
    kept = np.random.default_rng(call.attr("seed")).random(x.shape) >= ratio
    scale = call.constant(kept / np.float32(1.0 - ratio), np.float32)
    return [call.emit("mul", x, scale), call.constant(kept)]


# ---- two inputs --------------------------------------------------------------------------------------------


def _aligned(call: Call) -> tuple[Operand, Operand]:
    """The two inputs, the second reshaped for opset 6 and before, whose `axis` says where it begins."""
    a, b = call.input(0), call.input(1)
    if call.version >= 7 or not call.attr("broadcast", 0) or b.rank == 0:
        return a, b
    axis = call.axis(a.rank, a.rank - b.rank)
    return a, call.reshape(b, (*b.shape, *(1,) * (a.rank - axis - b.rank)))


def _binary(op: str) -> Callable[[Call], Operand]:
    return lambda call: call.emit(op, *_aligned(call))


for _name, _op in {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Equal": "equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
}.items():
    add_row(_name, _binary(_op))


@row("Mod", 10)
def _mod(call: Call) -> Operand:
    return call.emit(
        "mod", call.input(0), call.input(1), sign="dividend" if call.attr("fmod", 0) else "divisor"
    )


@row("Pow")
def _pow(call: Call) -> Operand:
    """The result has the type of the base; a float exponent of an integer is computed in floats."""
    a, b = _aligned(call)
    if a.dtype == b.dtype:
        return call.emit("pow", a, b)
    wide = np.float32 if b.dtype.kind == "f" else a.dtype
    return call.cast(call.emit("pow", call.cast(a, wide), call.cast(b, wide)), a.dtype)


@row("PRelu")
def _prelu(call: Call) -> Operand:
    x, slope = call.input(0), call.input(1)
    if slope.size == 1:
        return call.emit("prelu", x, call.reshape(slope, (1,)))
    if call.version < 7:
        return call.emit("prelu", x, call.reshape(slope, (slope.size,)))
    if x.rank < 2:
        flat = call.emit("prelu", call.reshape(x, (1, *x.shape)), call.reshape(slope, (slope.size,)))
        return call.reshape(flat, x.shape)
    return call.emit("prelu", x, call.reshape(slope, (*(1,) * (x.rank - slope.rank), *slope.shape)))


def _chain(op: str) -> Callable[[Call], Operand]:
    def build(call: Call) -> Operand:
        total = call.input(0)
        for i in range(1, len(call.inputs)):
            total = call.emit(op, total, call.input(i))
        return total

    return build


for _name, _op in {"Sum": "add", "Max": "maximum", "Min": "minimum"}.items():
    add_row(_name, _chain(_op))


@row("Mean")
def _mean(call: Call) -> Operand:
    total = _chain("add")(call)
    count = len(call.inputs)
    return total if count == 1 else call.emit("mul", total, call.full(total, 1.0 / count))


@row("Where", 9)
def _where(call: Call) -> Operand:
    return call.emit("where", call.input(0), call.input(1), call.input(2))


# ---- limits and types --------------------------------------------------------------------------------------


@row("Clip", 1, 10)
def _clip_1(call: Call) -> Operand:
    limits = {name: call.attr(name) for name in ("min", "max") if call.attr(name) is not None}
    return call.emit("clip", call.input(), **limits)


@row("Clip", 11)
def _clip(call: Call) -> Operand:
    """min and max are inputs: attributes of the core's operator when they are known and x is float."""
    x, low, high = call.input(), call.optional(1), call.optional(2)
    limits = {name: y for name, y in (("min", low), ("max", high)) if y is not None}
    arrays = {name: y.array for name, y in limits.items() if y.array is not None and y.size == 1}
    known = {name: float(array.reshape(-1)[0]) for name, array in arrays.items()}
    if not limits:
        return x
    if x.dtype == np.float32 and len(known) == len(limits):
        return call.emit("clip", x, **known)
    for name, limit in limits.items():
        x = call.emit("maximum" if name == "min" else "minimum", x, limit)
    return x


@row("Cast", 1, 5)
def _cast_1(call: Call) -> Operand:
    return _cast_to(call, getattr(onnx.TensorProto, str(call.attr("to")).upper(), 0))


@row("Cast", 6)
def _cast(call: Call) -> Operand:
    return _cast_to(call, int(call.attr("to", 0)))


def _cast_to(call: Call, code: int) -> Operand:
    half = (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
    if code in half:  # half precision is computed in float32 throughout
        return call.cast(call.input(), np.float32)
    if code == onnx.TensorProto.STRING:
        raise Refusal("attribute to: strings are not supported")
    return call.cast(call.input(), onnx.helper.tensor_dtype_to_np_dtype(code))


@row("CastLike", 15)
def _cast_like(call: Call) -> Operand:
    return call.cast(call.input(0), call.input(1).logical)


# ---- written to ONNX ---------------------------------------------------------------------------------------


def _write_dropout(step: Step) -> None:
    step.add("Dropout", step.x, step.number(step.attrs["p"]))


def _write_clip(low: str | float, high: str | float) -> Emit:
    """Clip between two attributes or two numbers. An absent bound would be the largest finite number."""

    def emit(step: Step) -> None:
        bounds = [step.attrs[b] if isinstance(b, str) else b for b in (low, high)]
        step.add("Clip", step.x, *map(step.number, bounds))

    return emit


def _write_fake_quantize(step: Step) -> None:
    scale = step.number(step.attrs["scale"])
    zero = step.number(step.attrs["zero_point"], "uint8")
    step.add("DequantizeLinear", step.middle("QuantizeLinear", step.x, scale, zero), scale, zero)


def _write_star_relu(step: Step) -> None:
    rectified = step.middle("Relu", step.x)
    scaled = step.middle("Mul", step.middle("Mul", rectified, rectified), step.number(step.attrs["alpha"]))
    step.add("Add", scaled, step.number(step.attrs["beta"]))


def _write_silu(step: Step) -> None:
    """ONNX's Swish is of opset 24."""
    step.add("Mul", step.x, step.middle("Sigmoid", step.x))


def _write_swish(step: Step) -> None:
    inner = step.middle("Mul", step.x, step.number(step.attrs["alpha"]))
    step.add("Mul", step.x, step.middle("Sigmoid", inner))


def _write_prelu(step: Step) -> None:
    """A slope [C] belongs to dimension 1 here, and to the last one in ONNX."""
    slope, shape = step.inputs[1], step.shapes[1]
    if len(shape) == 1 and shape[0] > 1 and step.spatial > 0:
        slope = step.middle("Reshape", slope, step.integers([shape[0], *[1] * step.spatial]))
    step.add("PRelu", step.x, slope)


def _write_cast(step: Step) -> None:
    step.add("Cast", step.x, to=TYPES[step.attrs["to"]])


def _write_is_inf(step: Step) -> None:
    sign = step.attrs["sign"]
    step.add(
        "IsInf", step.x, detect_negative=int(sign != "positive"), detect_positive=int(sign != "negative")
    )


def _write_mod(step: Step) -> None:
    """ONNX has the remainder with the divisor's sign for integers only."""
    a, b = step.inputs
    divisor = step.attrs["sign"] == "divisor"
    if step.dtypes[0] != "float32" or not divisor:
        step.add("Mod", a, b, fmod=int(not divisor))
        return
    zero, rest = step.number(0.0), step.middle("Mod", a, b, fmod=1)
    other_sign = step.middle("Xor", step.middle("Less", rest, zero), step.middle("Less", b, zero))
    some = step.middle("Not", step.middle("Equal", rest, zero))
    step.add("Where", step.middle("And", other_sign, some), step.middle("Add", rest, b), rest)


WRITE: dict[str, Emit] = {
    "dropout": _write_dropout,
    "identity": plain("Identity"),
    "prelu": _write_prelu,
    "relu": plain("Relu"),
    "relu6": _write_clip(0.0, 6.0),
    "leaky_relu": plain("LeakyRelu", alpha="negative_slope"),
    "elu": plain("Elu", alpha="alpha"),
    "sigmoid": plain("Sigmoid"),
    "tanh": plain("Tanh"),
    "hard_sigmoid": plain("HardSigmoid", alpha="alpha", beta="beta"),
    "hard_swish": plain("HardSwish"),
    "silu": _write_silu,
    "swish": _write_swish,
    "gelu": plain("Gelu", approximate="approximate"),
    "clip": _write_clip("min", "max"),
    "star_relu": _write_star_relu,
    "fake_quantize": _write_fake_quantize,
    "exp": plain("Exp"),
    "log": plain("Log"),
    "sqrt": plain("Sqrt"),
    "abs": plain("Abs"),
    "neg": plain("Neg"),
    "add": plain("Add"),
    "sub": plain("Sub"),
    "mul": plain("Mul"),
    "div": plain("Div"),
    "minimum": plain("Min"),
    "maximum": plain("Max"),
    "pow": plain("Pow"),
    "cast": _write_cast,
    "where": plain("Where"),
    "equal": plain("Equal"),
    "less": plain("Less"),
    "less_equal": plain("LessOrEqual"),
    "greater": plain("Greater"),
    "greater_equal": plain("GreaterOrEqual"),
    "logical_and": plain("And"),
    "logical_or": plain("Or"),
    "logical_xor": plain("Xor"),
    "logical_not": plain("Not"),
    "is_nan": plain("IsNaN"),
    "is_inf": _write_is_inf,
    "mod": _write_mod,
    "sign": plain("Sign"),
    "floor": plain("Floor"),
    "ceil": plain("Ceil"),
    "round": plain("Round"),
    "reciprocal": plain("Reciprocal"),
    "erf": plain("Erf"),
    "sin": plain("Sin"),
    "cos": plain("Cos"),
    "tan": plain("Tan"),
    "asin": plain("Asin"),
    "acos": plain("Acos"),
    "atan": plain("Atan"),
    "sinh": plain("Sinh"),
    "cosh": plain("Cosh"),
    "asinh": plain("Asinh"),
    "acosh": plain("Acosh"),
    "atanh": plain("Atanh"),
    "selu": plain("Selu", alpha="alpha", gamma="gamma"),
    "celu": plain("Celu", alpha="alpha"),
    "softplus": plain("Softplus"),
    "softsign": plain("Softsign"),
    "mish": plain("Mish"),
    "thresholded_relu": plain("ThresholdedRelu", alpha="alpha"),
    "shrink": plain("Shrink", lambd="lambd", bias="bias"),
}
