"""Attention."""

from __future__ import annotations

import numpy as np

from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.export_step import Emit, Step
from clcnn.onnx.ops.index import check_indices
from clcnn.onnx.table import row

_OUTPUTS = {1: "present_key", 2: "present_value", 3: "qk_matmul_output"}
_INPUTS = {4: "past_key", 5: "past_value", 6: "nonpad_kv_seqlen"}


def _heads(call: Call, x: Operand, name: str) -> Operand:
    """[N, L, heads * D] as [N, heads, L, D]."""
    if x.rank == 4:
        return x
    heads = int(call.attr(name, 0))
    if x.rank != 3 or heads < 1 or x.shape[2] % heads:
        raise Refusal(f"attribute {name}: {heads} for an input of shape {list(x.shape)}")
    n, length, width = x.shape
    return call.transpose(call.reshape(x, (n, length, heads, width // heads)), (0, 2, 1, 3))


def _mask(call: Call) -> Operand | None:
    """Truth values say which scores stay."""
    mask = call.optional(3)
    if mask is None or mask.dtype != np.bool_:
        return mask
    shown = call.cast(mask, np.float32)
    return call.emit("where", mask, call.full(shown, 0.0), call.full(shown, -np.inf))


@row("Attention", 23)
def _attention(call: Call) -> Operand:
    for index, name in _INPUTS.items():
        if call.has(index):
            raise Refusal(f"input {name}")
    for index, name in _OUTPUTS.items():
        if call.wants(index):
            raise Refusal(f"output {name}")
    if float(call.attr("softcap", 0.0)) != 0.0:
        raise Refusal("attribute softcap")
    flat = call.input(0).rank == 3
    q, k, v = (
        _heads(call, call.input(i), name)
        for i, name in enumerate(("q_num_heads", "kv_num_heads", "kv_num_heads"))
    )
    if q.shape[1] != k.shape[1]:
        raise Refusal(f"{q.shape[1]} heads of Q and {k.shape[1]} of K")
    scale, causal = float(call.attr("scale", 0.0)), bool(call.attr("is_causal", 0))
    y = call.emit("scaled_dot_product_attention", q, k, v, _mask(call), scale=scale, is_causal=causal)
    if not flat:
        return y
    n, heads, length, width = y.shape
    return call.reshape(call.transpose(y, (0, 2, 1, 3)), (n, length, heads * width))


def _taken(call: Call, x: Operand, indices: Operand, dim: int) -> Operand:
    """Elements of x along a dimension, now if they are known."""
    check_indices(x, indices, dim)
    if x.array is not None and indices.array is not None:
        return call.constant(np.take(x.array, indices.array, dim))
    return call.emit("gather", x, indices, dim=dim)


def _table(call: Call, index: int, x: Operand, columns: int) -> Operand:
    """The cosines or sines of x [N, heads, L, D], a number for each of its first columns: [L, columns], or of
    its shape."""
    table, (n, heads, length, _) = call.input(index), x.shape
    if call.has(3):
        table = _taken(call, table, call.input(3), 0)
    if table.shape != (n, length, columns // 2):
        name = "cos_cache" if index == 1 else "sin_cache"
        raise Refusal(f"input {name}: {list(table.shape)} for {n} x {length} tokens of {columns} columns")
    where = np.arange(columns)
    pairs = where // 2 if call.attr("interleaved", 0) else where % (columns // 2)
    table = call.reshape(_taken(call, table, call.constant(pairs), 2), (n, 1, length, columns))
    if n == 1:
        return call.reshape(table, (length, columns))
    return _taken(call, table, call.constant(np.zeros(heads, np.int64)), 1)


@row("RotaryEmbedding", 23)
def _rotary_embedding(call: Call) -> Operand:
    x = _heads(call, call.input(0), "num_heads")
    columns = int(call.attr("rotary_embedding_dim", 0)) or x.shape[3]
    if x.rank != 4 or columns > x.shape[3] or columns % 2:
        raise Refusal(f"attribute rotary_embedding_dim: {columns} for an input of shape {list(x.shape)}")
    turned, rest = x, None
    if columns < x.shape[3]:
        turned, rest = call.emit_many("split", x, sizes=[columns, x.shape[3] - columns], dim=-1)
    tables = [_table(call, index, x, columns) for index in (1, 2)]
    y = call.emit("rotary_embedding", turned, *tables, interleaved=bool(call.attr("interleaved", 0)))
    if rest is not None:
        y = call.emit("concat", y, rest, dim=-1)
    if call.input(0).rank == 4:
        return y
    return call.reshape(call.transpose(y, (0, 2, 1, 3)), call.input(0).shape)


def _write_attention(step: Step) -> None:
    """In its parts: ONNX has the operator from opset 23 on."""
    rank, rows, others = len(step.shape), step.shape[-2], step.shapes[1][-2]
    perm = [*range(rank - 2), rank - 1, rank - 2]
    scale = step.attrs["scale"] or step.shape[-1] ** -0.5
    scores = step.middle("MatMul", step.x, step.middle("Transpose", step.inputs[1], perm=perm))
    scores = step.middle("Mul", scores, step.number(scale))
    if len(step.inputs) > 3 and step.inputs[3]:
        scores = step.middle("Add", scores, step.inputs[3])
    if step.attrs["is_causal"]:
        later = np.triu(np.full((rows, others), -np.inf, np.float32), 1)
        scores = step.middle("Add", scores, step.writer.constant(later, step.name))
    step.add("MatMul", step.middle("Softmax", scores, axis=-1), step.inputs[2])


def _write_rotary_embedding(step: Step) -> None:
    """In its parts: ONNX has the operator from opset 23 on."""
    columns = step.shape[-1]
    where = np.arange(columns)
    if step.attrs["interleaved"]:
        first, other = where % 2 == 0, where ^ 1
    else:
        first, other = where < columns // 2, (where + columns // 2) % columns
    sign = step.writer.constant(np.where(first, -1.0, 1.0).astype(np.float32), step.name)
    turned = step.middle("Gather", step.x, step.integers(other.tolist()), axis=-1)
    sine = step.middle("Mul", step.middle("Mul", turned, sign), step.inputs[2])
    step.add("Add", step.middle("Mul", step.x, step.inputs[1]), sine)


WRITE: dict[str, Emit] = {
    "scaled_dot_product_attention": _write_attention,
    "rotary_embedding": _write_rotary_embedding,
}
