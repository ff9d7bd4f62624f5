"""The operators as functions on symbolic values, generated from the core's tables.

Inputs come first, then attributes as keywords, as in `conv(x, w, b, stride=2, padding=1)`; NumPy arrays and
numbers become constants. `name` is the layer's name. Functions return a Value; `split` returns a tuple. They
raise ArgumentError, ShapeError and DtypeError with the layer's name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from clcnn import _core
from clcnn.errors import ArgumentError
from clcnn.graph import Graph, Value

Operand = Value | NDArray[Any] | float
MANY_OUTPUTS = (
    "split",
    "topk",
    "max_pool_indices",
    "nms",
    "nonzero",
    "sgd_update",
    "adamw_update",
    "batch_norm_train",
    "batch_norm_train_grad",
    "lstm_cell",
    "lstm",
)
# Of these, those on maps of bytes.
ON_BYTES = (
    "to_bytes",
    "from_bytes",
    "byte_conv",
    "byte_max_pool",
    "byte_mean",
    "byte_lookup",
    "byte_scale",
    "byte_join",
)
MADE_BY_REWRITES = (
    "separable",
    "inverted_residual",
    "conv_pool",
    "squeeze_excite",
    "elementwise",
    *ON_BYTES,
)
MADE_BY_LAYOUT = ("reorder",)  # steps of a plan, but no layers of anybody's graph
# What training alone needs: ONNX has nothing like these, which are no layers of a network.
TRAINING = (
    "adamw_update",
    "batch_norm_train",
    "batch_norm_train_grad",
    "conv_filter_grad",
    "cross_entropy",
    "cross_entropy_grad",
    "dropout_train",
    "gelu_grad",
    "hard_swish_grad",
    "max_pool_grad",
    "relu_grad",
    "sgd_update",
    "silu_grad",
)
_KINDS = {
    "int": "int",
    "bool": "bool",
    "float": "float",
    "ints": "int | Sequence[int]",
    "floats": "float | Sequence[float]",
}


def _signature(op: str, row: Any) -> inspect.Signature:
    """Inputs that may be given by position, attributes and `name` by keyword only; annotations are text for
    stubs."""
    parameters = []
    for text in row["inputs"]:
        optional, many = text.endswith("?"), text.endswith("...")
        kind = inspect.Parameter.VAR_POSITIONAL if many else inspect.Parameter.POSITIONAL_OR_KEYWORD
        default = None if optional else inspect.Parameter.empty
        hint = "Operand | Sequence[Operand]" if many else "Operand | None" if optional else "Operand"
        parameters.append(inspect.Parameter(text.rstrip("?."), kind, default=default, annotation=hint))
    for attr in row["attrs"]:
        hint = _KINDS.get(attr["kind"]) or f"Literal[{', '.join(map(repr, attr['choices']))}]"
        default = inspect.Parameter.empty if attr["required"] else attr["default"]
        parameters.append(
            inspect.Parameter(attr["name"], inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
        )
    parameters.append(
        inspect.Parameter("name", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None")
    )
    returns = "tuple[Value, ...]" if op in MANY_OUTPUTS else "Value"
    return inspect.Signature(parameters, return_annotation=returns)


def _doc(row: Any) -> str:
    lines = [row["doc"], "", f"Inputs: {', '.join(row['inputs'])}."]
    lines += [f"{attr['name']}: {attr['doc']}" for attr in row["attrs"] if attr["doc"]]
    return "\n".join(lines)


def _graph_of(op: str, inputs: list[Any]) -> Graph:
    for x in inputs:
        if isinstance(x, Value):
            return x.graph
    raise ArgumentError(
        f"{op}: at least one input must be a clcnn.Value; modules and operators build graphs, plans compute"
    )


def _make(op: str, row: Any) -> Callable[..., Any]:
    signature = _signature(op, row)
    attr_names = [attr["name"] for attr in row["attrs"]]
    many = op in MANY_OUTPUTS

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{op}(): {error}") from None
        attrs = {name: given.pop(name) for name in attr_names if name in given}
        name = given.pop("name", None)
        inputs: list[Any] = []
        for text in row["inputs"]:
            x: Any = given.get(text.rstrip("?."))
            if not text.endswith("..."):
                inputs.append(x)
            elif x and len(x) == 1 and isinstance(x[0], (list, tuple)):
                inputs.extend(x[0])
            else:
                inputs.extend(x or ())
        values = _graph_of(op, inputs).node(op, inputs, attrs, name)
        return values if many else values[0]

    function.__name__ = function.__qualname__ = op
    function.__doc__ = _doc(row)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


_made = {op: _make(op, row) for op, row in _core.ops().items() if op not in MADE_BY_REWRITES + MADE_BY_LAYOUT}
__all__ = sorted(_made)  # noqa: PLE0605
globals().update(_made)
