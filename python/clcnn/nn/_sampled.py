"""The functions of nn.functional that read a map between its elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from clcnn import ops
from clcnn.errors import ArgumentError
from clcnn.nn import shape
from clcnn.nn._args import Ints
from clcnn.value import Value


def interpolate(
    input: Value,
    size: Ints | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Value:
    """x [N, C, *spatial] resized to `size`, or by `scale_factor`: the function of `nn.Upsample`.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    size : int or sequence of int, optional
        The new spatial size; give this or scale_factor.
    scale_factor : float or sequence of float, optional
        By what the spatial size is multiplied.
    mode : str
        "nearest" (default), "nearest-exact", or "linear", "bilinear", "trilinear" (all of them: linear in
        every spatial dimension) and "bicubic".
    align_corners : bool, optional
        True keeps the outermost elements in place; for linear modes and "bicubic" only. Default False.
    recompute_scale_factor : bool, optional
        True takes coordinates from the sizes, not from scale_factor.
    antialias : bool
        Only False: ops.resize() offers it.

    Returns
    -------
    Value
        The resized x, float32.

    Raises
    ------
    ArgumentError
        For arguments.
    DtypeError
        For x that is not float32.
    ShapeError
        For a scale_factor that leaves nothing.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.interpolate(x, scale_factor=2).shape
    (1, 4, 16, 16)
    """
    if antialias:
        raise ArgumentError("interpolate: antialias=True is not offered; see ops.resize(antialias=True)")
    return shape.Upsample(size, scale_factor, mode, align_corners, recompute_scale_factor)(input)


def grid_sample(
    input: Value,
    grid: Any,
    mode: Literal["bilinear", "nearest", "bicubic"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Value:
    """x [N, C, H, W] at the places of grid [N, P, Q, 2] -> [N, C, P, Q]; likewise in 3 dimensions.

    The last dimension of grid holds places (along W, along H), where -1 and 1 are the ends of x. Source:
    Jaderberg et al. 2015, section 3.3.

    Parameters
    ----------
    input : Value
        x, float32, symbolic in a graph.
    grid : Value or array
        The places, float32.
    mode : {"bilinear", "nearest", "bicubic"}
        How the elements around a place are weighed.
    padding_mode : {"zeros", "border", "reflection"}
        What stands outside x: zeros, the outermost elements, or x mirrored.
    align_corners : bool
        True: -1 and 1 are the centres of the outermost elements; False (default): their outer edges.

    Returns
    -------
    Value
        The elements found, float32.

    Raises
    ------
    ArgumentError
        For another mode or padding_mode.
    DtypeError
        For x or a grid that is not float32.
    ShapeError
        For a grid whose shape does not fit.

    Examples
    --------
    >>> import clcnn
    >>> import clcnn.nn.functional as F
    >>> import numpy as np
    >>> x = clcnn.Graph().input("x", (1, 4, 8, 8))
    >>> F.grid_sample(x, np.zeros((1, 3, 5, 2), np.float32)).shape
    (1, 4, 3, 5)
    """
    words: dict[str, Any] = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}
    if mode not in words:
        raise ArgumentError(f"grid_sample: mode={mode!r} is none of {', '.join(map(repr, words))}")
    return ops.grid_sample(
        input, grid, mode=words[mode], padding_mode=padding_mode, align_corners=align_corners
    )
