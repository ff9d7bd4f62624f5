"""Docstrings put together from their sections, so that what layers and functions share is written once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

ORDER = ("", "Parameters", "Returns", "Raises", "See Also", "Notes", "References", "Examples")  # numpydoc's
_TITLE = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)


def sections(doc: str | None) -> dict[str, str]:
    """The text above all sections under "", then each section by its title."""
    first, *rest = _TITLE.split(inspect.cleandoc(doc or ""))
    return {"": first.strip()} | {title: body.strip() for title, body in zip(rest[::2], rest[1::2])}


def joined(parts: Mapping[str, str]) -> str:
    """A docstring of what sections() gives."""
    titles = [*(title for title in ORDER if title in parts), *(t for t in parts if t not in ORDER)]
    texts = (f"{t}\n{'-' * len(t)}\n{parts[t]}" if t else parts[t] for t in titles if parts[t])
    return "\n\n".join(texts)


def entries(body: str) -> dict[str, str]:
    """The entries of Parameters or Raises by what they describe: "padding", "DtypeError"."""
    blocks = re.split(r"\n+(?=\S)", body.strip())
    return {block.splitlines()[0].partition(" : ")[0]: block for block in blocks if block}


def chosen(layer: type, *names: str) -> str:
    """The entries of a layer's Parameters that describe these arguments."""
    have = entries(sections(layer.__doc__).get("Parameters", ""))
    return "\n".join(have[name] for name in names if name in have)


def merged(own: str, base: str, arguments: Sequence[str]) -> str:
    """One docstring of two. The text of `own` comes first. Of the parameters that `base` describes, those
    come along that `own` does not describe and that are among `arguments`, all in the order of these."""
    mine, theirs = sections(own), sections(base)
    for title, body in theirs.items():
        if title == "Examples":
            mine.setdefault(title, body)
        elif title in ("Parameters", "Raises"):
            kept = entries(body)
            if title == "Parameters":
                kept = {head: text for head, text in kept.items() if _first(head) in arguments}
            both = kept | entries(mine.get(title, ""))
            place = {name: i for i, name in enumerate(arguments)}
            heads = sorted(both, key=lambda head: place.get(_first(head), len(place)))
            mine[title] = "\n".join(both[head] for head in heads)
        else:
            mine[title] = "\n\n".join(text for text in (mine.get(title), body) if text)
    return joined(mine)


class Docstring:
    """A class's docstring, with what its private bases say: put together when someone asks for it, since
    imports would wait for that of all layers."""

    def __init__(self, own: str, bases: Sequence[type], arguments: Sequence[str]) -> None:
        self._text, self._bases, self._arguments = own, bases, arguments

    def __get__(self, instance: object, owner: type) -> str:
        for base in self._bases:
            self._text = merged(self._text, base.__doc__ or "", self._arguments)
        self._bases = ()
        return self._text


def _first(head: str) -> str:
    """The first name of "in_channels, out_channels"."""
    return head.partition(",")[0].strip().lstrip("*")


def of_layer(
    function: Callable[..., Any], layer: type, args: str, given: tuple[int, ...], gives: tuple[int, ...]
) -> str:
    """The docstring of the function of a layer, with an example: `args`, the shapes before and after."""
    own = {
        "": "",
        "Parameters": "input : Value\n    x, a symbolic value in a graph.",
        "Returns": "Value\n    The result, symbolic, in the same graph: plans compute it.",
        "Raises": "TypeError\n    For input that is an array: functions build graphs, plans compute.",
        "Examples": example(f"{function.__name__}(x, {args})".replace(", )", ")"), given, gives),
    }
    parts = sections(merged(joined(own), layer.__doc__ or "", list(inspect.signature(function).parameters)))
    return joined(parts | {"": f"{parts['']}\n\nThe function of `nn.{layer.__name__}`."})


def example(call: str, given: tuple[int, ...], gives: tuple[int, ...], *before: str) -> str:
    """An example of a function of nn.functional: its call on a symbolic x, and the shapes."""
    lines = ["import clcnn", "import clcnn.nn.functional as F", *before]
    lines += [f'x = clcnn.Graph().input("x", {given})', f"F.{call}.shape"]
    return "\n".join([*(f">>> {line}" for line in lines), str(gives)])
