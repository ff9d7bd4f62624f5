"""The one error of reading and writing weights, and how names from a file are shown in it."""

from __future__ import annotations

from clcnn._arguments import shown
from clcnn.errors import Error


class WeightsError(Error, ValueError):
    """A weight file, or the weights in it, broke a rule: the message names file, tensor and rule.

    Raised by clcnn.weights.load() and the like, and by Module.load() and load_state_dict() for weights that
    do not fit.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> try:
    ...     clcnn.nn.Linear(2, 3).load_state_dict({"weight": np.ones((3, 2), np.float32)})
    ... except clcnn.weights.WeightsError as error:
    ...     print(error)
    the weights do not fit the network's 2 parameters: 1 missing (bias)
    """


__all__ = ["WeightsError", "shown"]
