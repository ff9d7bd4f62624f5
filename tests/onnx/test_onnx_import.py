"""Importing ONNX models: folding, functions, If, values as inputs, what is reported as unsupported."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import clcnn  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import graph, load, model, relu, run  # noqa: E402

INT64 = TensorProto.INT64
BOOL = TensorProto.BOOL
RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def operators(graph: clcnn.Graph) -> list[str]:
    return [r.op for r in graph.records if r.kind == "node"]


# ---- the model ---------------------------------------------------------------------------------------------


def test_what_a_model_tells():
    initial = {"w": np.ones(3, np.float32)}
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", ("batch", 3)), ("w", (3,))],
        [("y", (None, 3))],
        initial,
        opset=13,
    )
    loaded = load(proto)
    assert loaded.inputs == [("x", ("batch", 3), "tensor(float)")]
    assert loaded.outputs == [("y", (None, 3), "tensor(float)")]
    assert loaded.opset == 13 and loaded.opsets == {"": 13}
    assert loaded.value_inputs == ()
    assert "1 nodes, opset 13" in repr(loaded)


def test_models_pickle(device):
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], initial={"w": normal(3)})
    loaded = load(proto)
    again = pickle.loads(pickle.dumps(loaded))
    assert again.inputs == loaded.inputs
    np.testing.assert_array_equal(again.arrays["w"], loaded.arrays["w"])


def test_compile_takes_a_model(device):
    loaded = load(model([relu()], [("x", ("n", 3))]))
    x = normal(4, 3)
    for shape in ((4, 3), [(4, 3)], {"x": (4, 3)}):
        with clcnn.compile(loaded, shape, device=device) as plan:
            np.testing.assert_array_equal(plan(x), np.maximum(x, 0))


def test_the_input_itself_and_one_value_twice(device):
    """Outputs that no node of their own makes."""
    proto = model(
        [
            helper.make_node("Identity", ["x"], ["a"]),
            relu("x", "b"),
            helper.make_node("Identity", ["b"], ["c"]),
        ],
        outputs=[("a", None), ("b", None), ("c", None)],
    )
    x = normal(2, 3)
    a, b, c = run(proto, {"x": x}, device)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, np.maximum(x, 0))
    np.testing.assert_array_equal(c, b)


# ---- folding -----------------------------------------------------------------------------------------------


def test_arithmetic_on_shapes_is_folded(device):
    """PyTorch's view(x.size(0), -1): Shape, Gather, Unsqueeze, Concat, Reshape."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    initial = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1])}
    proto = model(nodes, [("x", ("n", 2, 5))], initial=initial)
    assert operators(load(proto).graph({"x": (3, 2, 5)})) == ["reshape"]
    x = normal(3, 2, 5)
    np.testing.assert_array_equal(run(proto, {"x": x}, device)[0], x.reshape(3, 10))


def test_constants_of_every_kind_are_folded(device):
    """Where, ConstantOfShape, Range, NonZero, Slice, Cast on constants."""
    nodes = [
        helper.make_node("Range", ["start", "limit", "step"], ["r"]),
        helper.make_node("Greater", ["r", "one"], ["c"]),
        helper.make_node("NonZero", ["c"], ["nz"]),
        helper.make_node("Cast", ["nz"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ConstantOfShape", ["two"], ["z"]),
        helper.make_node("Where", ["c", "r", "z4"], ["w"]),
        helper.make_node("Slice", ["w", "two", "four"], ["part"]),
        helper.make_node("Cast", ["part"], ["p"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "p"], ["k"]),
        helper.make_node("Add", ["k", "z"], ["kz"]),
        helper.make_node("Mul", ["x", "kz"], ["y"]),
    ]
    initial = {
        "start": np.int64(0),
        "limit": np.int64(4),
        "step": np.int64(1),
        "one": np.int64(1),
        "two": np.array([2]),
        "four": np.array([4]),
        "z4": np.zeros(4, np.int64),
    }
    proto = model(nodes, [("x", (3, 2))], initial=initial)
    assert operators(load(proto).graph()) == ["mul"]
    x = normal(3, 2)
    np.testing.assert_allclose(run(proto, {"x": x}, device)[0], x * np.float32([4, 6]), rtol=1e-6)


def test_outputs_known_without_running(device):
    proto = model([helper.make_node("Shape", ["x"], ["y"])], outputs=[("y", (2,), INT64)])
    program = load(proto).specialise()
    assert program.graph is None and not program.feeds
    np.testing.assert_array_equal(run(proto, {"x": normal(2, 3)}, device)[0], [2, 3])
    refused(lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, "nothing to run")


def test_a_compiled_model_has_its_constant_outputs_too(device):
    """What hangs on no input comes last; found by fuzzing, where it was missing."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Abs", ["w"], ["plain"]),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    initial = {"w": np.float32([[-1, 2, -3]])}
    outputs = [("shape", (2,), INT64), ("plain", (1, 3)), ("y", (2, 3))]
    loaded = load(model(nodes, [("x", (2, 3))], outputs, initial))
    x = normal(2, 3)
    with clcnn.compile(loaded, device=device) as plan:
        made = plan.run({"x": x})
    assert list(made) == ["y", "shape", "plain"]
    assert made["shape"].tolist() == [2, 3]
    assert made["plain"].tolist() == [[1, 2, 3]]
    np.testing.assert_array_equal(made["y"], np.maximum(x, 0))


def test_half_precision_weights_are_widened(device):
    weights = normal(3).astype(np.float16)
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], initial={"w": weights})
    assert load(proto).arrays["w"].dtype == np.float32
    x = normal(2, 3)
    np.testing.assert_array_equal(run(proto, {"x": x}, device)[0], x + weights.astype(np.float32))


@pytest.mark.parametrize("raw", [True, False])
def test_bfloat16_weights_are_widened(raw):
    numbers = np.float32([1.5, -2.25, 3e38])
    halves = (numbers.view(np.uint32) >> 16).astype(np.uint16)
    tensor = TensorProto(name="w", dims=(3,), data_type=TensorProto.BFLOAT16)
    if raw:
        tensor.raw_data = halves.tobytes()
    else:
        tensor.int32_data.extend(halves.tolist())
    loaded = load(model([helper.make_node("Add", ["x", "w"], ["y"])], initial=[tensor]))
    np.testing.assert_allclose(loaded.arrays["w"], numbers, rtol=1e-2)
    assert loaded.arrays["w"].dtype == np.float32


def test_half_precision_inputs_and_outputs(device):
    half = TensorProto.FLOAT16
    proto = model([relu()], [("x", (2, 3), half)], [("y", (2, 3), half)])
    assert load(proto).inputs[0].type == "tensor(float16)"
    x = normal(2, 3).astype(np.float16)
    (y,) = run(proto, {"x": x}, device)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y, np.maximum(x, 0))


# ---- values that decide shapes -----------------------------------------------------------------------------


def test_values_that_decide_shapes(device):
    nodes = [helper.make_node("Mul", ["n", "two"], ["m"]), helper.make_node("Reshape", ["x", "m"], ["y"])]
    proto = model(nodes, [("x", ("a", "b")), ("n", (1,), INT64)], initial={"two": np.array([2])})
    loaded = load(proto)
    assert loaded.value_inputs == ("n",)
    refused(lambda: loaded.graph({"x": (2, 3)}), clcnn.ArgumentError, ValueError, "['n']", "decide shapes")
    program = loaded.specialise({"x": (2, 3)}, {"n": np.array([3])})
    assert program.feeds == {"x": "float32"}
    x = normal(2, 3)
    np.testing.assert_array_equal(run(proto, {"x": x, "n": np.array([3])}, device)[0], x.reshape(6))


def test_shapes_that_depend_on_data_are_refused():
    nodes = [
        helper.make_node("Unique", ["x"], ["y"], name="which"),
    ]
    loaded = load(model(nodes))
    refused(loaded.graph, clcnn.UnsupportedError, NotImplementedError, "'which'", "depends on data")


# ---- unsupported nodes -------------------------------------------------------------------------------------


def test_all_unsupported_nodes_are_reported_at_once():
    nodes = [
        helper.make_node("STFT", ["x", "s"], ["h"], name="window", onesided=0),
        helper.make_node(
            "Loop", ["", "", "h"], ["a"], name="again", body=graph([], [("i", ())], [("i", ())])
        ),
        helper.make_node("DFT", ["a"], ["q"], name="waves"),
        helper.make_node("Foo", ["x"], ["b"], name="own", domain="org.example"),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    inputs = [("x", (2, 3, 4)), ("w", (1, 16, 4)), ("r", (1, 16, 4)), ("s", ())]
    proto = model(nodes, inputs, domains={"org.example": 2})
    parts = (
        *("4 nodes", "'window' (STFT, opset 17)", "onesided", "'again' (Loop", "'waves' (DFT"),
        "'own' (Foo, org.example 2)",
    )
    refused(lambda: load(proto), clcnn.UnsupportedError, NotImplementedError, *parts)


def test_unsupported_attributes_are_reported_at_once():
    nodes = [
        helper.make_node("Pad", ["x", "p"], ["a"], name="outer", mode="sideways"),
        helper.make_node("LpNormalization", ["x"], ["b"], name="norm", p=3),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    loaded = load(model(nodes, initial={"p": np.array([0, 1, 0, 1])}))
    parts = ("2 nodes", "'outer'", "mode: 'sideways'", "'norm'", "p: 3")
    refused(loaded.graph, clcnn.UnsupportedError, NotImplementedError, *parts)


def test_double_precision_is_computed_in_float32(device, caplog):
    double = TensorProto.DOUBLE
    proto = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", (2, 3), double)],
        [("y", (2, 3), double)],
        {"w": np.full(3, 0.1)},
    )
    x = RNG.normal(size=(2, 3))
    (y,) = run(proto, {"x": x}, device)
    assert y.dtype == np.float64 and "double precision is computed in float32" in caplog.text
    np.testing.assert_allclose(y, x + 0.1, rtol=1e-6)


def test_bytes_of_an_image_become_floats(device):
    """uint8 in, transposed and converted, as exporters from TensorFlow write it."""
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Cast", ["t"], ["y"], to=TensorProto.FLOAT),
    ]
    proto = model(nodes, [("x", (1, 2, 2, 3), TensorProto.UINT8)])
    x = np.arange(0, 252, 21, dtype=np.uint8).reshape(1, 2, 2, 3)
    np.testing.assert_array_equal(run(proto, {"x": x}, device)[0], x.transpose(0, 3, 1, 2).astype(np.float32))
    program = load(proto).specialise()
    refused(
        lambda: program.feed({"x": x.astype(np.float32)}),
        clcnn.DtypeError,
        TypeError,
        "'x'",
        "uint8",
        "float32",
    )


def test_conversions_from_and_to_double(device):
    double = TensorProto.DOUBLE
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), relu("f", "r")]
    nodes.append(helper.make_node("Cast", ["r"], ["y"], to=double))
    proto = model(nodes, [("x", (2, 3), double)], [("y", (2, 3), double), ("r", (2, 3))])
    x = RNG.normal(size=(2, 3))
    y, r = run(proto, {"x": x}, device)
    assert (y.dtype, r.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(y, np.maximum(x, 0).astype(np.float32))


def test_conversions_of_floats_to_bytes(device):
    """Beyond their range, which ONNX leaves open, to the nearest of them."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT8)
    proto = model([node], [("x", (6,))], [("y", None, TensorProto.UINT8)])
    (y,) = run(proto, {"x": np.array([0, 3.9, 254.5, 255, 300, -7], np.float32)}, device)
    assert y.dtype == np.uint8
    np.testing.assert_array_equal(y, [0, 3, 254, 255, 255, 0])


def test_other_conversions_to_bytes_are_refused():
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.UINT8)
    proto = model([node], [("x", (6,), TensorProto.INT64)], [("y", None, TensorProto.UINT8)])
    refused(load(proto).graph, clcnn.UnsupportedError, NotImplementedError, "'y' (Cast", "uint8")


def test_arithmetic_on_narrow_integers_is_refused():
    byte = TensorProto.UINT8
    loaded = load(
        model([helper.make_node("Add", ["x", "x"], ["y"])], [("x", (2,), byte)], [("y", (2,), byte)])
    )
    refused(loaded.graph, clcnn.UnsupportedError, NotImplementedError, "'y' (Add", "uint8", "only moved")


def test_unsigned_numbers_beyond_int64():
    kind = TensorProto.UINT64
    loaded = load(
        model([helper.make_node("Identity", ["x"], ["y"])], [("x", (2,), kind)], [("y", (2,), kind)])
    )
    program = loaded.specialise()
    big = np.array([1, 2**64 - 1], np.uint64)
    refused(lambda: program.feed({"x": big}), clcnn.ArgumentError, ValueError, "'x'", "18446744073709551615")


# ---- functions and If --------------------------------------------------------------------------------------


def test_functions_of_the_model_are_expanded(device):
    """An attribute passed on, one with a default, and a function in a function."""
    leaky = helper.make_node("LeakyRelu", ["a"], ["b"])
    leaky.attribute.append(
        onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    default = [helper.make_attribute("slope", 0.25)]
    inner = helper.make_function("f", "Leak", ["a"], ["b"], [leaky], imports, attribute_protos=default)
    call = helper.make_node("Leak", ["v"], ["t"], domain="f")
    outer = helper.make_function(
        "f", "Twice", ["v"], ["w"], [call, helper.make_node("Add", ["t", "t"], ["w"])], imports
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["p"], domain="f", name="first"),
        helper.make_node("Leak", ["x"], ["q"], domain="f", slope=0.5),
        helper.make_node("Sub", ["p", "q"], ["y"]),
    ]
    proto = model(nodes, functions=[inner, outer], domains={"f": 1})
    x = normal(2, 3)
    expected = 2 * np.where(x < 0, 0.25 * x, x) - np.where(x < 0, 0.5 * x, x)
    np.testing.assert_allclose(run(proto, {"x": x}, device)[0], expected, rtol=1e-5, atol=1e-6)
    names = [r.name for r in load(proto).graph().records if r.kind == "node"]
    assert any(name.startswith("first/") for name in names)


def test_operators_that_onnx_defines_by_others_are_folded(device):
    nodes = [helper.make_node("HannWindow", ["n"], ["h"]), helper.make_node("Mul", ["x", "h"], ["y"])]
    x = normal(2, 4)
    expected = x * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(4) / 4))
    (y,) = run(model(nodes, [("x", (2, 4))], initial={"n": np.int64(4)}), {"x": x}, device)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_operators_that_onnx_defines_by_others_are_expanded(device, reduction):
    """SoftmaxCrossEntropyLoss has no row here; its body depends on its inputs' types."""
    node = helper.make_node("SoftmaxCrossEntropyLoss", ["x", "t"], ["y"], reduction=reduction)
    proto = model([node], [("x", (4, 5)), ("t", (4,), INT64)])
    x, t = normal(4, 5), np.array([0, 4, 2, 2])
    loss = -(x - np.log(np.exp(x).sum(1, keepdims=True)))[np.arange(4), t]
    expected = loss.mean() if reduction == "mean" else loss
    np.testing.assert_allclose(run(proto, {"x": x, "t": t}, device)[0], expected, rtol=1e-5, atol=1e-6)


def branches() -> dict[str, onnx.GraphProto]:
    """One branch reads a name around it, the other has an initialiser of its own."""
    three = numpy_helper.from_array(np.float32(3), "three")
    return {
        "then_branch": graph([relu("x", "a")], [], [("a", None)]),
        "else_branch": graph([helper.make_node("Mul", ["x", "three"], ["b"])], [], [("b", None)], [three]),
    }


@pytest.mark.parametrize("condition", [True, False])
def test_if_with_a_constant_condition(device, condition):
    proto = model([helper.make_node("If", ["c"], ["y"], **branches())], initial={"c": np.array(condition)})
    x = normal(2, 3)
    assert operators(load(proto).graph()) == (["relu"] if condition else ["mul"])
    np.testing.assert_allclose(run(proto, {"x": x}, device)[0], np.maximum(x, 0) if condition else 3 * x)


def test_if_on_a_shape(device):
    """torch.jit's `if x.size(0) == 1`."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], end=1),
        helper.make_node("Equal", ["s", "one"], ["c"]),
        helper.make_node("If", ["c"], ["y"], **branches()),
    ]
    proto = model(nodes, [("x", ("n", 3))], initial={"one": np.array([1])})
    for n in (1, 2):
        x = normal(n, 3)
        np.testing.assert_allclose(run(proto, {"x": x}, device)[0], np.maximum(x, 0) if n == 1 else 3 * x)


def test_if_on_data_is_refused():
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=BOOL),
        helper.make_node("If", ["c"], ["y"], name="choice", **branches()),
    ]
    loaded = load(model(nodes))
    refused(loaded.graph, clcnn.UnsupportedError, NotImplementedError, "'choice' (If", "depends on data")


def test_threads_may_share_a_model(device):
    """Each specialises it for a shape of its own."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["r"]),
        helper.make_node("ReduceSum", ["r", "one"], ["y"]),
    ]
    initial = {"zero": np.array([0]), "rest": np.array([-1]), "one": np.array([1])}
    loaded = load(model(nodes, [("x", ("n", "c", 2))], initial=initial))

    def outputs(n: int) -> tuple[int, ...]:
        return loaded.graph({"x": (n, 3, 2)}).outputs["y"].shape

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(outputs, range(1, 65))) == [(n, 1) for n in range(1, 65)]
