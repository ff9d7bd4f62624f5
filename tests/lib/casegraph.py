"""The graph of a case: its nodes, what may follow the first one, and what merged operators are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """One operator of the case's graph. `inputs` are names of case inputs or of earlier nodes' outputs; None
    is an optional input that is absent. `attrs` are the attributes that the text gives; the others have their
    default."""

    op: str
    inputs: tuple[str | None, ...]
    attrs: dict[str, Any]
    output: str


# Operators that may follow: name in the text -> operator, attributes, further inputs: "x" is a graph input of
# the output's shape, other roles are constants with one value a channel.
EPILOGUES: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "add": ("add", {}, ("x",)),
    "mul": ("mul", {}, ("x",)),
    **{
        op: (op, {}, ())
        for op in (
            "relu",
            "relu6",
            "sigmoid",
            "tanh",
            "hard_sigmoid",
            "hard_swish",
            "silu",
            "elu",
            "leaky_relu",
            "gelu",
            "mish",
            "star_relu",
        )
    },
    "gelu_tanh": ("gelu", {"approximate": "tanh"}, ()),
    "swish": ("swish", {"alpha": 1.702}, ()),
    "clip": ("clip", {"min": -1.0, "max": 2.0}, ()),
    "prelu": ("prelu", {}, ("bias",)),
    "bn": ("batch_norm", {}, ("positive", "bias", "bias", "positive")),
    **{
        f"{kind}pool{'x'.join(map(str, window))}": (f"{kind}_pool", {"kernel_size": window}, ())
        for kind in ("max", "avg")
        for window in ((2,), (3,), (2, 3), (3, 1))
    },
    "maxpool3s2": ("max_pool", {"kernel_size": (3,), "stride": (2,)}, ()),
    "maxpool3s2p1": ("max_pool", {"kernel_size": (3,), "stride": (2,), "padding": (1,)}, ()),
    "maxpool3s2ceil": ("max_pool", {"kernel_size": (3,), "stride": (2,), "ceil_mode": True}, ()),
    "maxpool2x3s3x1p1x0": ("max_pool", {"kernel_size": (2, 3), "stride": (3, 1), "padding": (1, 0)}, ()),
}


def graph_of(nodes: Sequence[Node], shapes: Sequence[tuple[int, ...]]) -> tuple[Node, ...]:
    """The nodes as a user writes them: operators that only the rewriter makes are what it makes them of;
    `reorder`, which only layout makes, is on both sides of a pooling of single elements on channel blocks.
    `shapes`: of the case's inputs."""
    first, *rest = nodes
    if first.op == "reorder":
        return (Node("max_pool", first.inputs, {"kernel_size": (1,)}, first.output),)
    parts = {"separable": _separated, "inverted_residual": _inverted, "squeeze_excite": _squeezed}.get(
        first.op
    )
    return (*(parts(first, shapes) if parts else (first,)), *rest)


def _separated(merged: Node, shapes: Sequence[tuple[int, ...]]) -> tuple[Node, ...]:
    """A depthwise convolution, the activation and a 1x1 convolution."""
    x, dw, dw_bias, pw, pw_bias = merged.inputs
    attrs = {name: value for name, value in merged.attrs.items() if name != "activation"}
    parts = [Node("conv", (x, dw, dw_bias), attrs | {"groups": shapes[0][1]}, "dw_y")]
    if "activation" in merged.attrs:
        parts.append(Node(merged.attrs["activation"], ("dw_y",), {}, "dw_act"))
    return (*parts, Node("conv", (parts[-1].output, pw, pw_bias), {}, merged.output))


def _inverted(merged: Node, shapes: Sequence[tuple[int, ...]]) -> tuple[Node, ...]:
    """A 1x1 convolution, the activation and what is separable."""
    x, w, bias, *others = merged.inputs
    attrs = {name: value for name, value in merged.attrs.items() if name != "expand_activation"}
    parts = [Node("conv", (x, w, bias), {}, "expand_y")]
    if "expand_activation" in merged.attrs:
        parts.append(Node(merged.attrs["expand_activation"], ("expand_y",), {}, "expand_act"))
    tail = Node("separable", (parts[-1].output, *others), attrs, merged.output)
    return (*parts, *_separated(tail, [(shapes[0][0], shapes[1][0])]))


def _squeezed(gate: Node, shapes: Sequence[tuple[int, ...]]) -> tuple[Node, ...]:
    """Means of channels, a layer, the activation and a layer."""
    x, w1, b1, w2, b2 = gate.inputs
    op = "linear" if len(shapes[1]) == 2 else "conv"
    parts = [Node("adaptive_avg_pool", (x,), {"output_size": (1,)}, "mean")]
    if op == "linear":
        parts.append(Node("flatten", ("mean",), {"start_dim": 1}, "flat"))
    parts.append(Node(op, (parts[-1].output, w1, b1), {}, "fc1"))
    if "activation" in gate.attrs:
        parts.append(Node(gate.attrs["activation"], ("fc1",), {}, "fc1_act"))
    return (*parts, Node(op, (parts[-1].output, w2, b2), {}, gate.output))
