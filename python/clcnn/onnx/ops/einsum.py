"""Einsum, composed of transposes, products and sums.

Operands are taken from the left, two at a time. Of a pair, letters that nothing later names are summed. Where
both have such letters the pair is a matrix product: rows are the letters of the first alone, columns those of
the second alone, and the batch is what both have and keep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from clcnn.errors import ModelError
from clcnn.onnx.call import Call, Operand, Refusal
from clcnn.onnx.table import row


class Term(NamedTuple):
    """An operand and the letters of its dimensions."""

    x: Operand
    letters: str

    def size(self, letters: str) -> int:
        """Elements of these dimensions together."""
        count = 1
        for letter in letters:
            count *= self.x.shape[self.letters.index(letter)]
        return count


@row("Einsum", 12)
def _einsum(call: Call) -> Operand:
    terms, result = _parsed(call)
    total = terms[0]
    for i, term in enumerate(terms[1:], 2):
        kept = result + "".join(later.letters for later in terms[i:])
        total = _pair(
            call, _summed(call, total, term.letters + kept), _summed(call, term, total.letters + kept), kept
        )
    return _ordered(call, _summed(call, total, result), result)


def _parsed(call: Call) -> tuple[list[Term], str]:
    """The operands with their letters, and those of the result. Raises Refusal for what is not supported, and
    ModelError where letters and shapes do not fit."""
    equation = str(call.attr("equation", "")).replace(" ", "")
    told = f"attribute equation: {equation!r}"
    if "..." in equation:
        raise Refusal(f"{told} has an ellipsis; name all dimensions by letters")
    given, arrow, result = equation.partition("->")
    words = given.split(",")
    if not all(c.isascii() and c.isalpha() for c in given.replace(",", "") + result):
        raise ModelError(f"{told} holds more than letters, commas and one arrow")
    if len(words) != len(call.inputs):
        raise ModelError(f"{told} names {len(words)} operands, but the node has {len(call.inputs)}")
    if not arrow:
        result = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    for word in (*words, result):
        if len(set(word)) < len(word):
            raise Refusal(f"{told} repeats a letter in {word!r}; diagonals are not supported")
    if missing := set(result) - set(given):
        raise ModelError(f"{told}: the result has {min(missing)!r}, which no operand has")
    terms = [Term(call.input(i), word) for i, word in enumerate(words)]
    sizes: dict[str, int] = {}
    for i, (x, letters) in enumerate(terms):
        if x.rank != len(letters):
            raise ModelError(f"{told}: operand {i} is {letters!r}, but its shape is {x.shape}")
        for letter, n in zip(letters, x.shape, strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ModelError(f"{told}: {letter!r} is {sizes[letter]} and, in operand {i}, {n}")
    return terms, result


def _summed(call: Call, term: Term, kept: str) -> Term:
    """The term without the letters that are not kept."""
    gone = [i for i, letter in enumerate(term.letters) if letter not in kept]
    if not gone:
        return term
    x = call.emit("reduce_sum", term.x, axes=gone, keepdims=False)
    return Term(x, "".join(letter for letter in term.letters if letter in kept))


def _ordered(call: Call, term: Term, letters: str) -> Operand:
    """Its dimensions in the order of `letters`; a constant's are moved now."""
    order = [term.letters.index(letter) for letter in letters]
    if term.x.array is None:
        return call.transpose(term.x, order)
    return Operand(np.ascontiguousarray(term.x.array.transpose(order)))


def _pair(call: Call, a: Term, b: Term, kept: str) -> Term:
    """The product of two terms, summed over the letters that both have and that are not kept."""
    batch = "".join(c for c in a.letters if c in b.letters and c in kept)
    inner = "".join(c for c in a.letters if c in b.letters and c not in kept)
    rows = "".join(c for c in a.letters if c not in b.letters)
    columns = "".join(c for c in b.letters if c not in a.letters)
    shape = [a.size(c) for c in batch]
    each = [a.size(c) for c in rows], [b.size(c) for c in columns]
    x, y = _ordered(call, a, batch + rows + inner), _ordered(call, b, batch + inner + columns)
    if inner:
        k = a.size(inner)
        x = call.reshape(x, (*shape, a.size(rows), k))
        y = call.reshape(y, (*shape, k, b.size(columns)))
        product = call.emit("matmul", x, y)
    else:
        x = call.reshape(x, (*shape, *each[0], *(1 for _ in columns)))
        y = call.reshape(y, (*shape, *(1 for _ in rows), *each[1]))
        product = call.emit("mul", x, y)
    return Term(call.reshape(product, (*shape, *each[0], *each[1])), batch + rows + columns)
