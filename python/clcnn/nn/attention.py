"""Embedding and MultiheadAttention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import ops
from clcnn.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from clcnn.nn import init
from clcnn.nn._args import positive
from clcnn.nn.conv import Linear
from clcnn.nn.module import Layer
from clcnn.nn.parameter import Parameter
from clcnn.value import Value


def _glorot(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Glorot and Bengio 2010, equation 16."""
    return init.uniform(math.sqrt(6.0 / sum(shape)))(shape, rng)


class Embedding(Layer):
    """Rows of a table: x [...] int64 or int32 -> [..., embedding_dim] float32; see torch.nn.Embedding.

    weight [num_embeddings, embedding_dim] starts from the standard normal distribution, as PyTorch's. Indices
    below 0 count from the end of the table; those outside it give NaN.

    Parameters
    ----------
    num_embeddings : int
        Rows of the table.
    embedding_dim : int
        Elements of a row.
    padding_idx : int, optional
        A row that begins as zeros, as in PyTorch.
    max_norm : None
        Accepted for compatibility, as are norm_type, scale_grad_by_freq and sparse: no other values.
    norm_type : float
        Means nothing without max_norm.
    scale_grad_by_freq, sparse : bool
        Only False.

    Raises
    ------
    ArgumentError
        For sizes below 1 and a padding_idx outside the table.
    UnsupportedError
        For a max_norm, scale_grad_by_freq=True or sparse=True.
    DtypeError
        When called on indices that are not int64 or int32.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> graph = clcnn.Graph()
    >>> table = clcnn.nn.Embedding(10, 4)
    >>> graph.output(table(graph.input("words", (2, 3), "int64")))
    >>> with clcnn.compile(graph) as plan:
    ...     plan(np.array([[1, 2, 3], [4, 5, 6]])).shape
    (2, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> None:
        super().__init__()
        self.num_embeddings = positive("Embedding", "num_embeddings", num_embeddings)
        self.embedding_dim = positive("Embedding", "embedding_dim", embedding_dim)
        others = {"max_norm": max_norm, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
        for what, given in others.items():
            if given:
                raise UnsupportedError(f"Embedding: {what}={given} is not offered")
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"Embedding: padding_idx={padding_idx} is outside {num_embeddings} rows")
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = Parameter((num_embeddings, embedding_dim), self._drawn)

    def _drawn(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        rows = rng.standard_normal(shape, np.float32)
        if self.padding_idx is not None:
            rows[self.padding_idx] = 0.0
        return rows

    def forward(self, x: Any) -> Any:
        if x.dtype not in ("int64", "int32"):
            raise DtypeError(f"Embedding {self.layer_name or ''}: indices are int64 or int32, got {x.dtype}")
        return ops.gather(self.constant(x.graph, "weight"), x, dim=0, name=self.layer_name)

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        return text if self.padding_idx is None else f"{text}, padding_idx={self.padding_idx}"


class MultiheadAttention(Layer):
    """softmax(q k^T / sqrt(embed_dim / num_heads)) v for each head, on its part of embed_dim.

    q, k and v are products of query, key and value with in_proj_weight, the result is one with
    out_proj.weight; names and shapes are those of torch.nn.MultiheadAttention. Source: Vaswani et al. 2017,
    section 3.2.

    Called as module(query, key, value), on float32: query [L, N, embed_dim], key [S, N, kdim], value
    [S, N, vdim]; with batch_first [N, L, embed_dim] and so on; without a batch [L, embed_dim] and so on.
    Gives the result, of query's shape, and the weights [N, L, S], the mean of the heads; with
    average_attn_weights=False [N, heads, L, S]; with need_weights=False None, which is faster.

    Parameters
    ----------
    embed_dim : int
        Size of query and of the result, a multiple of num_heads.
    num_heads : int
        Parts of embed_dim that attend by themselves.
    dropout : float
        Share of the weights that a training step sets to 0, from 0 to 1. Default 0.
    bias : bool
        Adds in_proj_bias and out_proj.bias. Default True.
    add_bias_kv, add_zero_attn : bool
        Accepted for compatibility: only False.
    kdim, vdim : int, optional
        Sizes of key and value, embed_dim where not given.
    batch_first : bool
        The batch is the first dimension, not the second. Default False.

    Raises
    ------
    ArgumentError
        For sizes below 1, an embed_dim that num_heads does not divide, and a dropout outside 0 to 1.
    UnsupportedError
        For add_bias_kv=True and add_zero_attn=True.
    DtypeError
        When called on values that are not float32.
    ShapeError
        When called on shapes that do not fit.

    Notes
    -----
    Masks are values or buffers: key_padding_mask [N, S] and attn_mask [L, S] or [N * heads, L, S], where True
    leaves out and numbers are added; is_causal=True alone leaves out what comes later.

    Examples
    --------
    >>> from clcnn import nn
    >>> class Block(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.attention = nn.MultiheadAttention(16, 4, batch_first=True)
    ...     def forward(self, x):
    ...         return x + self.attention(x, x, x, need_weights=False)[0]
    >>> import clcnn
    >>> clcnn.compile(Block(), (2, 5, 16)).outputs
    {'output': (2, 5, 16)}
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        owner = "MultiheadAttention"
        e, self.num_heads = positive(owner, "embed_dim", embed_dim), positive(owner, "num_heads", num_heads)
        self.embed_dim, self.batch_first = e, bool(batch_first)
        if e % self.num_heads:
            raise ArgumentError(f"{owner}: embed_dim={e} is not divisible by num_heads={num_heads}")
        for what, given in (("add_bias_kv", add_bias_kv), ("add_zero_attn", add_zero_attn)):
            if given:
                raise UnsupportedError(f"{owner}: {what}=True is not offered")
        self.kdim = positive(owner, "kdim", e if kdim is None else kdim)
        self.vdim = positive(owner, "vdim", e if vdim is None else vdim)
        widths = {"q": e, "k": self.kdim, "v": self.vdim}
        if self.kdim == self.vdim == e:
            self.in_proj_weight = Parameter((3 * e, e), _glorot)
        else:
            for part, width in widths.items():
                self.register_parameter(f"{part}_proj_weight", Parameter((e, width), _glorot))
        self.register_parameter("in_proj_bias", Parameter((3 * e,), init.zeros) if bias else None)
        self.out_proj = Linear(e, e, bias)
        if not 0.0 <= dropout <= 1.0:
            raise ArgumentError(f"{owner}: dropout={dropout} must lie in [0, 1]")
        self.dropout = float(dropout)

    def _projected(self, x: Value, part: int) -> Value:
        """The queries, keys or values of all heads: [N, heads, length, embed_dim / heads]."""
        e, graph = self.embed_dim, x.graph
        whole, bias = self.constant(graph, "in_proj_weight"), self.constant(graph, "in_proj_bias")
        rows = slice(part * e, (part + 1) * e)
        weight = self.constant(graph, f"{'qkv'[part]}_proj_weight") if whole is None else whole[rows]
        x = ops.matmul(x, ops.transpose(weight, perm=[1, 0]))
        x = x if bias is None else x + bias[rows]
        n, length, _ = x.shape
        x = ops.reshape(x, shape=[n, length, self.num_heads, e // self.num_heads])
        return ops.transpose(x, perm=[0, 2, 1, 3])

    def _mask(self, graph: Any, given: Any, padding: Any, n: int, size: tuple[int, int]) -> Value | None:
        """What is added to the products of queries and keys, [N or 1, heads or 1, L or 1, S]."""
        total: Value | None = None
        for mask, shape in ((given, (1, 1, *size)), (padding, (n, 1, 1, size[1]))):
            if mask is None:
                continue
            value = mask.as_value(graph) if isinstance(mask, Parameter) else mask
            wanted = {math.prod(shape)} | ({n * self.num_heads * math.prod(size)} if mask is given else set())
            if math.prod(value.shape) not in wanted:
                raise self.misfit(value, f"as a mask must have the shape {[d for d in shape if d > 1]}")
            if math.prod(value.shape) > math.prod(shape):
                shape = (n, self.num_heads, *size)
            if value.dtype == "bool":
                left_out, kept = (graph.constant(np.asarray(x, np.float32)) for x in (-np.inf, 0.0))
                value = ops.where(value, left_out, kept)
            value = ops.reshape(value, shape=list(shape))
            total = value if total is None else total + value
        return total

    if TYPE_CHECKING:

        def __call__(  # type: ignore[override]
            self, *inputs: Any, **named: Any
        ) -> tuple[Value, Value | None]: ...

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        given: tuple[Any, ...] = (query, key, value)
        for x, width in zip(given, (self.embed_dim, self.kdim, self.vdim)):
            if len(x.shape) not in (2, 3) or len(x.shape) != len(query.shape) or x.shape[-1] != width:
                raise self.misfit(x, f"must have the rank of query, 2 or 3, and end in {width}")
        flat, turned = len(query.shape) == 2, len(query.shape) == 3 and not self.batch_first
        if flat:
            given = tuple(ops.reshape(x, shape=[1, *x.shape]) for x in given)
        elif turned:
            given = tuple(ops.transpose(x, perm=[1, 0, 2]) for x in given)
        q, k, v = (self._projected(x, part) for part, x in enumerate(given))
        n, heads, length, depth = q.shape
        size = (length, k.shape[2])
        if k.shape[2] != v.shape[2] or k.shape[0] != n or v.shape[0] != n:
            raise ShapeError(
                f"MultiheadAttention {self.layer_name or ''}: key {list(key.shape)} and value "
                f"{list(value.shape)} must have the same length, and the batch of query {list(query.shape)}"
            )
        if is_causal and attn_mask is None:
            attn_mask = query.graph.constant(np.triu(np.ones(size, np.bool_), 1))
        mask = self._mask(query.graph, attn_mask, key_padding_mask, n, size)
        weights = None
        drops = self.dropout > 0 and self.training and query.graph.training
        if need_weights or drops:
            scores = ops.matmul(q * depth**-0.5, ops.transpose(k, perm=[0, 1, 3, 2]))
            weights = ops.softmax(scores if mask is None else scores + mask, dim=-1)
            kept = query.graph.dropout(weights, self.dropout, None) if drops else weights
            y = ops.matmul(kept, v)
        else:
            y = ops.scaled_dot_product_attention(q, k, v, mask)
        y = self.out_proj(ops.reshape(ops.transpose(y, perm=[0, 2, 1, 3]), shape=[n, length, self.embed_dim]))
        if flat:
            y = ops.reshape(y, shape=[length, self.embed_dim])
        elif turned:
            y = ops.transpose(y, perm=[1, 0, 2])
        if not need_weights or weights is None:
            return y, None
        if average_attn_weights:
            weights = weights.mean(1)
        return y, ops.reshape(weights, shape=list(weights.shape[1:])) if flat else weights

    def extra_repr(self) -> str:
        return f"{self.embed_dim}, {self.num_heads}, batch_first={self.batch_first}"
