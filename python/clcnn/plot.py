"""Pictures of predictions and feature maps, with matplotlib, which is imported at the first use
(clcnn[plot])."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn.classify import MissingExtraError, Prediction
from clcnn.errors import ShapeError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["feature_maps", "top_bars"]


def pyplot() -> Any:
    """matplotlib.pyplot. Raises MissingExtraError."""
    try:
        import matplotlib.pyplot
    except ImportError as error:
        raise MissingExtraError("plots need the package matplotlib: pip install 'clcnn[plot]'") from error
    return matplotlib.pyplot


def top_bars(predictions: Sequence[Prediction], image: np.ndarray | None = None, title: str = "") -> Figure:
    """Horizontal bars of probabilities, the likeliest on top, with the photo beside them when given.

    Parameters
    ----------
    predictions : sequence of clcnn.classify.Prediction
        In the order of the bars, from the top.
    image : uint8 array [H, W, 3], optional
        The photo.
    title : str
        Above the figure. Default "".

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import clcnn
    >>> cat = clcnn.classify.Prediction(281, "tabby, tabby cat", 0.7)
    >>> clcnn.plot.top_bars([cat]).savefig("bars.png")  # doctest: +SKIP
    """
    columns = 1 if image is None else 2
    figure: Figure
    figure, axes = pyplot().subplots(
        1, columns, squeeze=False, figsize=(5 * columns, 0.5 * len(predictions) + 1.5)
    )
    if image is not None:
        axes[0, 0].imshow(image)
        axes[0, 0].set_axis_off()
    bars: Axes = axes[0, -1]
    positions = np.arange(len(predictions))
    bars.barh(positions, [p.probability for p in predictions])
    bars.set_yticks(positions, [p.name for p in predictions])
    bars.invert_yaxis()
    bars.set_xlim(0, 1)
    bars.set_xlabel("probability")
    figure.suptitle(title)
    figure.tight_layout()
    return figure


def feature_maps(maps: np.ndarray, limit: int = 16, title: str = "") -> Figure:
    """A grid of the first channels of a layer's output, each in its own range of greys.

    Parameters
    ----------
    maps : array [C, H, W] or [1, C, H, W]
    limit : int
        How many channels to show, at least 1. Default 16.
    title : str
        Above the figure. Default "".

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ShapeError
        maps is of another shape, or limit is below 1.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> clcnn.plot.feature_maps(np.zeros((6, 28, 28))).savefig("maps.png")  # doctest: +SKIP
    """
    array = np.asarray(maps)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim != 3 or not len(array) or limit < 1:
        raise ShapeError(
            f"feature_maps: expected [C, H, W] or [1, C, H, W] and a limit of 1 or more, "
            f"got {list(maps.shape)} and {limit}"
        )
    shown = array[:limit]
    columns = math.ceil(math.sqrt(len(shown)))
    rows = math.ceil(len(shown) / columns)
    figure: Figure
    figure, axes = pyplot().subplots(rows, columns, squeeze=False, figsize=(1.5 * columns, 1.5 * rows))
    for axis in axes.flat:
        axis.set_axis_off()
    for channel, axis in zip(shown, axes.flat, strict=False):
        axis.imshow(channel, cmap="gray", interpolation="nearest")
    figure.suptitle(title)
    return figure
