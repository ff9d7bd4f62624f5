"""The one error of reading and writing weights, and how names from a file are shown in it."""

from __future__ import annotations

from clcnn._arguments import shown
from clcnn.errors import Error


class WeightsError(Error, ValueError):
    """A weight file, or the weights in it, broke a rule: the message names file, tensor and rule."""


__all__ = ["WeightsError", "shown"]
