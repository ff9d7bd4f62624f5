"""onnx's own backend suite: every test of the scope file, the light networks, and some operators in full.

The names of the scope come from the folder of test data. `make test` runs the tests of single operators; the
light networks, of up to 140 million weights, run with --run-slow.
"""

from __future__ import annotations

import json
import os
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import DEVICE, ROOT

onnx = pytest.importorskip("onnx")

from onnx import helper  # noqa: E402
from onnx.backend.test import BackendTest  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx import backend  # noqa: E402
from helpers import none_missing, refused  # noqa: E402

DATA = Path(os.environ.get("CLCNN_TEST_DATA", ROOT.parent / "shared" / "data"))
SCOPE = DATA / "onnx_backend_scope.json"
if not SCOPE.is_file():
    pytest.skip(f"no scope of the backend suite in {DATA}", allow_module_level=True)

# Left out, and why.
EXCLUDED = {
    "test_training_dropout": "replays NumPy's random stream; see test_dropout_in_training",
    "test_training_dropout_default": "replays NumPy's random stream",
    "test_training_dropout_default_mask": "replays NumPy's random stream",
    "test_training_dropout_mask": "replays NumPy's random stream",
    "test_resize_downsample_scales_cubic_align_corners": "aligns with the length before it is cut to a whole "
    "number (2.4); here, in onnxruntime and in PyTorch with that of the result",
    "test_resize_downsample_scales_linear_align_corners": "aligns with the length before it is cut",
}
# Refused, and a word of the message.
NARROW = {"e4m3fn": "float8e4m3fn", "e5m2": "float8e5m2", "float4e2m1": "float4e2m1"}
NARROW |= {name: name for name in ("int4", "uint4", "int2", "uint2")}
REFUSED = {
    "test_compress_bfloat16": "bfloat16",
    "test_einsum_batch_diagonal": "ellipsis",
    **{f"test_einsum_{name}_bfloat16": "bfloat16" for name in ("batch_matmul", "sum", "transpose")},
    **{f"test_{op}linear_{name}": word for op in ("quantize", "dequantize") for name, word in NARROW.items()},
    **{f"test_dequantizelinear_e4m3fn_{name}": "float8e4m3fn" for name in ("float16", "zero_point")},
}
IN_FULL = (
    *(
        "Col2Im",
        "Compress",
        "ConvInteger",
        "CumSum",
        "DeformConv",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "Einsum",
    ),
    *(
        "GRU",
        "GridSample",
        "LSTM",
        "MatMulInteger",
        "NonMaxSuppression",
        "NonZero",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    ),
    *("RNN", "RoiAlign", "RotaryEmbedding", "ScatterElements", "ScatterND", "TopK"),
)
LIGHT = 9


class TestedBackend(backend.ClcnnBackend):
    """The suite's "CPU" is the device under test."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"

    @classmethod
    def selector(cls, device: str) -> str:
        return DEVICE


def in_scope() -> list[str]:
    """Tests of the scope file with float32, int64 and bool only."""
    kinds = json.loads(SCOPE.read_text())["kinds"]
    return [name for rows in kinds.values() for name, _, plain, _ in rows if plain]


def in_full() -> list[str]:
    """All tests with an operator of IN_FULL."""
    cases = load_model_tests(kind="node")
    return [case.name for case in cases if any(n.op_type in IN_FULL for n in case.model.graph.node)]


def light() -> list[str]:
    """The networks whose files come with the installed onnx."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return [
        case.name
        for case in load_model_tests(kind="real")
        if (folder / f"light_{case.name[5:]}.onnx").exists()
    ]


def selected() -> dict[str, type[unittest.TestCase]]:
    """The suite's classes with the chosen tests alone."""
    left_out = {**EXCLUDED, **REFUSED}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes its expected values on the way
        suite = BackendTest(TestedBackend, __name__).test_cases
        networks = {f"{name}_cpu" for name in light()}
        wanted = {f"{name}_cpu" for name in (*in_scope(), *in_full()) if name not in left_out} | networks
    for case in suite.values():
        for name in [name for name in vars(case) if name.startswith("test_")]:
            if name not in wanted:
                delattr(case, name)
            elif name in networks:
                setattr(case, name, pytest.mark.slow(getattr(case, name)))
    return suite


SUITE = selected()
globals().update(SUITE)


@pytest.fixture(autouse=True, scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The light networks' inputs and outputs go to a folder that pytest removes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNX_HOME", str(tmp_path_factory.mktemp("onnx")))
        yield


def test_the_suite_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """Every test of the scope is there but for the exclusions, and every exclusion is a test of the scope."""
    scope = set(in_scope())
    there = {
        name[: -len("_cpu")] for case in SUITE.values() for name in vars(case) if name.startswith("test_")
    }
    assert len(scope) == 786
    assert set(EXCLUDED) <= scope and len(EXCLUDED) == 6
    none_missing(
        (scope - there) ^ set(EXCLUDED),
        "EXCLUDED in tests/onnx/test_onnx_backend.py, or the scope file in the folder of test data",
        "python -m pytest -q -n0 tests/onnx/test_onnx_backend.py -k whole",
    )
    networks = set(light())
    assert not networks or len(networks & there) == LIGHT
    more = len(there - scope - networks)
    with capsys.disabled():
        print(
            f"\nONNX backend suite: {len(scope & there)} of {len(scope)} tests of the scope "
            f"({len(EXCLUDED)} excluded), {more} more of {', '.join(IN_FULL)}, {len(networks)} light networks"
        )


def test_what_is_refused_is_named() -> None:
    cases = {case.name: case for case in load_model_tests(kind="node")}
    for name, word in REFUSED.items():
        with pytest.raises(clcnn.UnsupportedError, match=word):
            clcnn.onnx.load(cases[name].model.SerializeToString()).graph()


@pytest.mark.parametrize("ratio", [0.25, 0.5])
def test_dropout_in_training(device: clcnn.Device, ratio: float) -> None:
    """In place of the excluded tests: shape, share of what is kept, and scale."""
    node = helper.make_node("Dropout", ["x", "r", "t"], ["y", "mask"], seed=3)
    x = np.random.default_rng(0).normal(size=(40, 50)).astype(np.float32)
    inputs = [x, np.float32(ratio), np.bool_(True)]
    info = [(np.dtype(np.float32), x.shape), (np.dtype(np.bool_), x.shape)]
    y, mask = TestedBackend.run_node(node, inputs, outputs_info=info, opset_version=13)
    assert y.shape == mask.shape == x.shape and mask.dtype == np.bool_
    assert abs(mask.mean() - (1 - ratio)) < 0.05
    np.testing.assert_allclose(y, np.where(mask, x / (1 - ratio), 0), rtol=1e-6)


# ---- the interface itself ----------------------------------------------------------------------------------


def two_inputs() -> Any:
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("Sub", ["a", "b"], ["y"])], "test", values[:2], values[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_prepared_models_take_any_shape() -> None:
    rep = TestedBackend.prepare(two_inputs())
    for n in (2, 5, 2):
        a, b = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
        for inputs in ([a, b], (a, b), {"b": b, "a": a}):
            (y,) = rep.run(inputs)
            np.testing.assert_array_equal(y, a - b)
    rep.close()
    np.testing.assert_array_equal(TestedBackend.run_model(two_inputs(), [a, b])[0], a - b)


def test_missing_and_extra_inputs() -> None:
    rep = TestedBackend.prepare(two_inputs())
    a = np.ones(3, np.float32)
    wrong = (clcnn.ArgumentError, ValueError)
    refused(lambda: rep.run([a]), *wrong, "2 inputs, ['a', 'b']", "1 were given")
    refused(lambda: rep.run([a, a, a]), *wrong, "3 were given")
    refused(lambda: rep.run({"a": a}), *wrong, "['a', 'b']", "['a']")
    refused(lambda: rep.run({"a": a, "b": a, "c": a}), *wrong, "'c'")
    refused(lambda: rep.run([a, a], fast=True), *wrong, "fast")
    refused(lambda: rep.run([a, a.astype(np.int64)]), clcnn.DtypeError, TypeError, "'b'", "float32", "int64")
    refused(lambda: rep.run([a, a[:2]]), clcnn.ShapeError, ValueError, "'n' is 2", "3 in input 'a'")
    node = helper.make_node("Relu", ["x"], ["y"])
    refused(lambda: TestedBackend.run_node(node, [a, a]), *wrong, "1 inputs", "2 were given")


def test_devices_and_models_that_are_not_there() -> None:
    assert not backend.supports_device("no such device")
    node = helper.make_node("DFT", ["a"], ["y"])
    proto = two_inputs()
    assert TestedBackend.is_compatible(proto)
    proto.graph.node[0].CopyFrom(node)
    assert not TestedBackend.is_compatible(proto)
