"""The functions of nn.functional that compute losses: what the layers of nn.loss do, with their arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from clcnn import _arrays
from clcnn.nn import _docs, loss
from clcnn.value import Value


def _of(name: str, layer: type[loss._Loss], target: str = "(4, 3)") -> Callable[..., Value]:
    """The function of a loss; target: in its example, the target's shape and dtype."""

    def function(input: Value, target: Any, *args: Any, **kwargs: Any) -> Value:
        known = _arrays.speaks(target) and not isinstance(target, Value)
        return layer(*args, **kwargs)(input, input.graph.constant(target) if known else target)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    both = [inspect.Parameter(n, kind, annotation=a) for n, a in (("input", "Value"), ("target", "Any"))]
    takes = inspect.signature(layer).parameters.values()
    signature = inspect.Signature([*both, *takes], return_annotation="Value")
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    own = {
        "": "",
        "Parameters": "input : Value\n    x, symbolic in a graph.\ntarget : Value or array",
        "Returns": "Value\n    The loss, float32, symbolic in the same graph: plans compute it.",
        "Examples": EXAMPLE.format(target=target, name=name),
    }
    parts = _docs.sections(_docs.merged(_docs.joined(own), layer.__doc__ or "", list(signature.parameters)))
    function.__doc__ = _docs.joined(parts | {"": f"{parts['']}\n\nThe function of `nn.{layer.__name__}`."})
    return function


EXAMPLE = """\
>>> import clcnn
>>> import clcnn.nn.functional as F
>>> graph = clcnn.Graph()
>>> x, target = graph.input("x", (4, 3)), graph.input("target", {target})
>>> F.{name}(x, target).shape
()"""

binary_cross_entropy = _of("binary_cross_entropy", loss.BCELoss)
binary_cross_entropy_with_logits = _of("binary_cross_entropy_with_logits", loss.BCEWithLogitsLoss)
cross_entropy = _of("cross_entropy", loss.CrossEntropyLoss, '(4,), "int64"')
huber_loss = _of("huber_loss", loss.HuberLoss)
l1_loss = _of("l1_loss", loss.L1Loss)
mse_loss = _of("mse_loss", loss.MSELoss)
nll_loss = _of("nll_loss", loss.NLLLoss, '(4,), "int64"')
smooth_l1_loss = _of("smooth_l1_loss", loss.SmoothL1Loss)
