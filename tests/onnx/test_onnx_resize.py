"""Resize of ONNX files where a scaled length is no whole number, against a definition in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper  # noqa: E402

import clcnn  # noqa: E402
from clcnn._reference.resize import resize  # noqa: E402
from clcnn.onnx import verify  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

SHAPES = {1: (1, 2, 7), 2: (1, 2, 7, 10), 3: (1, 2, 5, 7, 4)}
SCALES = {1: (1.5,), 2: (1.5, 0.75), 3: (0.5, 1.25, 2.3)}
CASES = [
    (dims, mode) for dims in SHAPES for mode in ("nearest", "linear", "cubic") if (dims, mode) != (3, "cubic")
]


def resized(shape, scales, mode, coordinates, opset=13):
    """A model of one Resize of everything after N,C."""
    node = helper.make_node(
        "Resize", ["x", "roi", "s"], ["y"], name="r", mode=mode, coordinate_transformation_mode=coordinates
    )
    initial = {"roi": np.zeros(0, np.float32), "s": np.array((1, 1, *scales), np.float32)}
    return model([node], [("x", shape)], initial=initial, opset=opset)


def defined(x, size, mode, coordinates, scales=()):
    return resize(
        x.astype(np.float64),
        size=size,
        scales=scales,
        mode=mode,
        coordinates=coordinates,
        nearest_rounding="round_prefer_floor",
        cubic_coeff_a=-0.75,
        exclude_outside=0,
        antialias=0,
        extrapolation_value=0.0,
        roi=(),
    )


@pytest.mark.parametrize("opset", [11, 18])
@pytest.mark.parametrize(("dims", "mode"), CASES)
def test_corners_are_those_of_the_result(device, dims, mode, opset):
    """As onnxruntime and PyTorch have it; onnx's reference takes the length before it is cut."""
    x = np.random.default_rng(0).standard_normal(SHAPES[dims]).astype(np.float32)
    size = [int(n * s) for n, s in zip(x.shape[2:], SCALES[dims])]
    (y,) = run(resized(x.shape, SCALES[dims], mode, "align_corners", opset), {"x": x}, device)
    np.testing.assert_allclose(y, defined(x, size, mode, "align_corners"), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "scale", "length"), [(10, 0.7, 7), (10, 1.3, 13), (10, 0.6, 6), (7, 0.7, 4)]
)
@pytest.mark.parametrize("opset", [10, 11, 18])
def test_lengths_are_rounded_as_exporters_mean_them(device, size, scale, length, opset):
    """0.7 as a float32 is a little less: in double precision 10 times it is not 7."""
    x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
    if opset == 10:
        node = helper.make_node("Resize", ["x", "s"], ["y"], mode="linear")
        initial = {"s": np.array((1, 1, scale), np.float32)}
        proto = model([node], [("x", x.shape)], initial=initial, opset=opset)
    else:
        proto = resized(x.shape, (scale,), "linear", "asymmetric", opset)
    (y,) = run(proto, {"x": x}, device)
    expected = np.minimum(np.arange(length) / scale, size - 1)
    np.testing.assert_allclose(y, expected.reshape(1, 1, length), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scale", [0.1, 0.0, -1.0, np.nan, np.inf, 1e30])
def test_scales_that_leave_nothing_or_too_much(scale):
    proto = resized((1, 2, 7), (scale,), "linear", "half_pixel")
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'r'", "scale", "7 elements")


def test_verify_does_not_ask_the_reference_about_corners_of_fractions(device):
    checks = [
        verify.verify(load(resized((1, 1, 7), (s,), "linear", "align_corners")), {"x": x}, device)[0]
        for s, x in ((1.5, np.ones((1, 1, 7), np.float32)), (2.0, np.ones((1, 1, 7), np.float32)))
    ]
    assert "departs" not in [check.verdict for check in checks]
    assert checks[0].by != "reference" and checks[1].by == "reference"
