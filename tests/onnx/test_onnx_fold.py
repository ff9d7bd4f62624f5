"""What is computed at import: right in every opset, and bounded before it begins."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, defs, helper, numpy_helper  # noqa: E402
from onnx.backend.test.loader import load_model_tests  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx import arithmetic, fold, functions, growth, importer  # noqa: E402
from helpers import refused  # noqa: E402
from onnx_models import load, model, run  # noqa: E402

RNG = np.random.default_rng(0)
I64 = np.int64


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def constant(op, arrays, attrs, opset, count=1):
    """A model of one node on initialisers (None: absent), and its outputs."""
    names = [f"c{i}" if a is not None else "" for i, a in enumerate(arrays)]
    outputs = [f"o{i}" for i in range(count)]
    initial = {n: a for n, a in zip(names, arrays, strict=True) if n}
    return model(
        [helper.make_node(op, names, outputs, name="it", **attrs)],
        [],
        [(n, None) for n in outputs],
        initial,
        opset=opset,
    )


def evaluated(evaluator, op, *arrays, opset=17, **attrs):
    node = helper.make_node(op, [f"x{i}" for i in range(len(arrays))], ["y"], **attrs)
    return evaluator.evaluate(node, {"": opset}, list(arrays))[0]


def test_nodes_that_are_alike_are_computed_once():
    """Alike: of one form, with the same few numbers, bit for bit; what they make is not large."""
    evaluator = fold.Evaluator()
    one, two = np.array([1, 2], I64), np.array([2, 1], I64)
    first = evaluated(evaluator, "Tile", one, two[:1])
    assert evaluated(evaluator, "Tile", one.copy(), two[:1].copy()) is first
    assert evaluated(evaluator, "Tile", two, one[1:]).tolist() == [2, 1, 2, 1]
    assert evaluated(evaluator, "Tile", one.reshape(1, 2), two).shape == (2, 2)
    assert evaluated(evaluator, "Tile", one.astype(np.int32), two[:1]).dtype == np.int32
    zeros = [evaluated(evaluator, "Reciprocal", np.array([x], np.float32)) for x in (0.0, -0.0)]
    assert [z[0] for z in zeros] == [np.inf, -np.inf]
    large = [evaluated(evaluator, "Tile", one, np.array([1000])) for _ in range(2)]
    assert large[0] is not large[1] and large[0].shape == (2000,)


# ---- rules -------------------------------------------------------------------------------------------------


def cases():
    """(node, inputs, outputs) of onnx's own tests of single operators, and of what these lack."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suite = load_model_tests(kind="node")
    for case in suite:
        nodes = case.model.graph.node
        if len(nodes) == 1 and not nodes[0].domain and nodes[0].op_type in growth.RULES:
            for inputs, outputs in case.data_sets:
                names = {i.name: a for i, a in zip(case.model.graph.input, inputs, strict=True)}
                if all(isinstance(a, (np.ndarray, np.generic)) for a in inputs):  # no lists, no 8-bit floats
                    yield nodes[0], [names.get(n) for n in nodes[0].input], outputs
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    for a, b in [((4, 1, 2, 3), (5, 3, 6)), ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((7, 0), (0, 9))]:
        yield node, [np.ones(a), np.ones(b)], [np.ones(a) @ np.ones(b)]
    for equation, shapes in [
        ("ij,kl", [(2, 3), (4, 5)]),
        ("...i,i...->...", [(4, 2), (2, 4)]),
        ("ii->i", [(3, 3)]),
    ]:
        arrays = [np.ones(shape) for shape in shapes]
        node = helper.make_node("Einsum", ["a", "b"][: len(arrays)], ["y"], equation=equation)
        yield node, arrays, [np.einsum(equation, *arrays)]
    yield helper.make_node("Cast", ["a"], ["y"], to=TensorProto.DOUBLE), [np.ones(3)], [np.ones(3)]
    yield helper.make_node("CastLike", ["a", "b"], ["y"]), [np.ones(3), np.ones(1)], [np.ones(3)]
    yield helper.make_node("ReduceSum", ["a"], ["y"]), [np.ones((0, 1000))], [np.zeros(1000)]
    yield helper.make_node("EyeLike", ["a"], ["y"]), [np.ones(50)], [np.eye(50)]


def test_every_rule_bounds_what_its_operator_makes():
    covered = set()
    for node, inputs, outputs in cases():
        known = [None if a is None else np.asarray(a) for a in inputs]
        made = max((np.size(o) for o in outputs if isinstance(o, (np.ndarray, np.generic))), default=0)
        assert growth.RULES[node.op_type](node, known) >= made, (node, [np.shape(a) for a in inputs])
        covered.add(node.op_type)
    assert set(growth.RULES) == covered
    assert set(growth.RULES) <= {s.name for s in defs.get_all_schemas_with_history() if not s.domain}


# ---- by NumPy ----------------------------------------------------------------------------------------------


def same(mine, theirs):
    return (
        mine.dtype == theirs.dtype
        and mine.shape == theirs.shape
        and np.array_equal(mine, theirs, mine.dtype.kind == "f")
    )


def test_arithmetic_by_numpy_is_that_of_onnx():
    """What onnx's own tests of single operators expect."""
    computed = set()
    for node, inputs, outputs in cases():
        if node.op_type in arithmetic.OPERATORS:
            arrays = [None if a is None else np.asarray(a) for a in inputs]
            made = arithmetic.compute(node.op_type, functions.attributes(node), arrays)
            if made is not None:
                assert same(np.asarray(made), np.asarray(outputs[0])), (node, made, outputs[0])
                computed.add(node.op_type)
    assert computed == set(arithmetic.OPERATORS)


SIX = np.arange(6)
NUMBERS = [-7, -6, -5, -1, 0, 1, 3, 5, 6, 9, -(1 << 62), 1 << 62]


@pytest.mark.parametrize("stride", [-4, -1, 1, 2])
def test_slices_by_numpy_are_those_of_the_reference(stride):
    for start in NUMBERS:
        for end in NUMBERS:
            bounds = [np.array([n]) for n in (start, end, 0, stride)]
            node = helper.make_node("Slice", ["x", "s", "e", "a", "t"], ["y"])
            (expected,) = fold._reference(node, 13, (True,) * 5).run(
                None, dict(zip(("x0", "x1", "x2", "x3", "x4"), [SIX, *bounds]))
            )
            assert same(arithmetic.compute("Slice", {}, [SIX, *bounds]), expected), (start, end)


# Operator, attributes, inputs, result; None: the reference is asked.
EARLIER = [
    ("Slice", {"starts": [1, -2], "ends": [2, 9]}, [SIX.reshape(2, 3)], np.array([[4, 5]])),
    ("Slice", {"starts": [0], "ends": [1], "axes": [-1]}, [SIX.reshape(2, 3)], np.array([[0], [3]])),
    ("Unsqueeze", {"axes": [0, 2]}, [SIX], SIX.reshape(1, 6, 1)),
    ("Squeeze", {"axes": [1]}, [SIX.reshape(1, 1, 6)], SIX.reshape(1, 6)),
    ("Squeeze", {}, [SIX.reshape(1, 1, 6)], SIX),
    ("Clip", {"min": 1.0}, [np.ones(3, np.float32)], None),
    ("Div", {}, [np.array([-7, 7, -6]), np.array([2, -2, 2])], np.array([-3, -3, -3])),
    ("Div", {}, [SIX, np.array(0)], None),
    ("Mod", {}, [SIX, np.array(0)], None),
    ("Mod", {}, [np.array([-7]), np.array([3])], np.array([2])),
    ("Cast", {"to": TensorProto.INT32}, [np.float32([-1.7, 2.9])], np.int32([-1, 2])),
    ("Cast", {"to": TensorProto.INT32}, [np.float32([np.nan])], None),
    ("Cast", {"to": TensorProto.INT64}, [np.float64([1e30])], None),
    ("Cast", {"to": TensorProto.FLOAT16}, [SIX], None),
    ("Reshape", {"allowzero": 1}, [np.ones((2, 0)), np.array([0, 7])], np.ones((0, 7))),
    ("Reshape", {}, [np.ones((2, 0)), np.array([0, -1, 0])], "error"),
    ("Gather", {}, [SIX, np.array([6])], "error"),
    ("Concat", {"axis": 2}, [SIX, SIX], "error"),
    ("Range", {}, [np.array(0), np.array(3), np.array(0)], None),
    ("ScatterND", {"reduction": "add"}, [SIX, np.array([[0]]), np.array([1])], None),
    ("ScatterND", {}, [SIX, np.array([[6]]), np.array([1])], "error"),
    ("Sqrt", {}, [SIX], None),
    ("Add", {}, [np.array(["a"]), np.array(["b"])], None),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attrs", "arrays", "expected"), EARLIER)
def test_forms_of_earlier_opsets_and_what_is_left_to_the_reference(op, attrs, arrays, expected):
    if isinstance(expected, str):
        with pytest.raises(fold.Refusal, match="could not be evaluated"):
            evaluated(fold.Evaluator(), op, *arrays, **attrs)
        return
    made = arithmetic.compute(op, attrs, arrays)
    assert made is expected is None or same(np.asarray(made), expected)


NOTHING = np.zeros((0, 1 << 40), np.float32)
MUCH = np.array(1 << 40)
ONE = np.ones(1, np.float32)
LONG = np.ones(1 << 16, np.float32)
SPARSE = helper.make_sparse_tensor(
    numpy_helper.from_array(ONE, "v"), helper.make_tensor("i", TensorProto.INT64, [1], [0]), [1 << 40]
)
# What asks for 2^32 elements or steps of a loop, and more: operator, inputs, attributes.
BOMBS = [
    ("Add", [LONG, LONG[:, None]], {}),
    ("ReduceSum", [NOTHING], {}),
    ("ArgMax", [NOTHING], {"axis": 0}),
    ("BatchNormalization", [LONG[:, None], *[LONG] * 4], {}),
    ("InstanceNormalization", [LONG[None, None], LONG, LONG], {}),
    ("LayerNormalization", [LONG, LONG[:, None]], {}),
    ("DequantizeLinear", [np.ones((1 << 16, 1), np.uint8), LONG], {}),
    ("QuantizeLinear", [LONG[:, None], LONG], {}),
    ("BlackmanWindow", [MUCH], {}),
    ("HammingWindow", [MUCH], {}),
    ("HannWindow", [MUCH], {}),
    ("TopK", [ONE, MUCH.reshape(1)], {}),
    ("Unique", [np.zeros((1 << 13, 1 << 12), np.bool_)], {}),
    ("CenterCropPad", [ONE, MUCH.reshape(1)], {}),
    ("Constant", [], {"sparse_value": SPARSE}),
    ("ConstantOfShape", [np.array([1 << 20, 1 << 20])], {}),
    ("Einsum", [np.ones(1 << 12, np.float32)] * 4, {"equation": "a,b,c,d->"}),
    ("Einsum", [ONE] * 20, {"equation": ",".join("a" * 20)}),
    ("Expand", [ONE, MUCH.reshape(1)], {}),
    ("EyeLike", [LONG], {}),
    ("Gather", [NOTHING, np.zeros(1, I64)], {}),
    ("Gather", [LONG.reshape(1, -1), np.zeros(1 << 16, I64)], {}),
    ("GatherElements", [np.zeros((1 << 22, 1)), np.zeros((1 << 22, 1), I64)], {}),
    ("GatherND", [ONE, np.zeros((1 << 40, 0), I64)], {}),
    ("Gemm", [NOTHING.T, NOTHING], {}),
    ("Gemm", [NOTHING, NOTHING], {"transA": 1}),
    ("MatMul", [LONG[:, None], LONG[None]], {}),
    ("MatMul", [NOTHING.T, NOTHING], {}),
    ("MelWeightMatrix", [np.array(1 << 20), np.array(1 << 20), np.array(8000), ONE[0], ONE[0]], {}),
    ("NonZero", [np.zeros((1 << 12, 1 << 14), np.bool_)], {}),
    ("OneHot", [np.zeros(1, I64), MUCH, np.array([0, 1])], {}),
    ("OneHot", [np.zeros(1, I64), np.float32(np.inf), np.array([0, 1])], {}),
    ("Pad", [ONE, np.array([0, 1 << 40])], {}),
    ("Pad", [NOTHING, np.array([1, 0]), None, np.array([0])], {}),
    ("Range", [np.array(0), MUCH, np.array(1)], {}),
    ("Range", [np.float32(0), np.float32(1), np.float32(1e-30)], {}),
    ("ReverseSequence", [NOTHING, np.ones(1 << 22, I64)], {}),
    ("ScatterElements", [ONE, np.zeros(1 << 22, I64), np.zeros(1 << 22, np.float32)], {}),
    ("ScatterND", [ONE, np.zeros((1 << 40, 0), I64), ONE], {}),
    ("Split", [ONE], {"num_outputs": 1 << 40}),
    ("Tile", [ONE, MUCH.reshape(1)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "arrays", "attrs"), BOMBS, ids=[row[0] for row in BOMBS])
def test_what_would_grow_is_refused_before_it_is_computed(monkeypatch, op, arrays, attrs):
    def never(*given):
        raise AssertionError("it was computed")

    monkeypatch.setattr(fold, "_reference", never)
    names = [f"c{i}" for i in range(len(arrays))]
    node = helper.make_node(op, names, ["y"], **attrs)
    with pytest.raises(fold.Refusal, match="would make"):
        fold.Evaluator().evaluate(node, {"": 21}, arrays)


def test_nodes_of_one_form_are_taken_in_once():
    """Names and values make no form; attributes, absent inputs and outputs, and the opset do."""
    evaluator, x = fold.Evaluator(), np.arange(6, dtype=np.float32).reshape(2, 3)

    def computed(op, arrays, names, outputs=("y",), version=18, **attrs):
        node = helper.make_node(op, names, list(outputs), **attrs)
        return evaluator.evaluate(node, {"": version}, arrays), len(evaluator._forms)

    (made,), forms = computed("Flatten", [x], ["a"], axis=0)
    assert (made == x.reshape(1, 6)).all() and forms == 1
    (made,), forms = computed("Flatten", [made.T], ["b"], axis=0)
    assert (made == x.reshape(1, 6)).all() and forms == 1
    (made,), forms = computed("Flatten", [x], ["a"], axis=1)
    assert (made == x).all() and forms == 2
    (made,), forms = computed("Sum", [x, x], ["a", "a"])
    assert (made == 2 * x).all() and forms == 3
    lower = np.tril(x)
    (first,), forms = computed("Trilu", [x, None], ["a", ""], upper=0)
    (second,), forms = computed("Trilu", [x, np.array(0)], ["a", "b"], upper=0)
    assert (first == lower).all() and (second == lower).all() and forms == 5
    (values, none), forms = computed("TopK", [x, np.array([1])], ["a", "k"], ("v", ""))
    (nothing, places), forms = computed("TopK", [x, np.array([1])], ["a", "k"], ("", "i"))
    assert none is nothing is None and (values == [[2], [5]]).all() and (places == 2).all() and forms == 7
    computed("Sum", [x, x], ["a", "b"], version=13)
    assert len(evaluator._forms) == 8


def test_every_rule_that_can_be_exceeded_is_tried():
    tried = {growth.RULES[op] for op, _, _ in BOMBS}
    assert set(growth.RULES.values()) - tried == {growth.RULES["Abs"]}  # no more than the inputs have


@pytest.mark.parametrize("op", ["HannWindow", "HammingWindow", "BlackmanWindow"])
def test_a_window_without_bound_takes_no_memory(op):
    """Nor do the operators that it is defined by."""
    proto = constant(op, [np.array(1 << 28)], {}, 17)
    tracemalloc.start()
    try:
        refused(lambda: load(proto).specialise(), clcnn.UnsupportedError, NotImplementedError, "it")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_padding_nothing_is_bounded_too():
    """It is made by the operator's row when it is not folded."""
    proto = constant("Pad", [np.zeros((0, 1 << 20), np.float32), np.array([1 << 10, 0, 0, 0])], {}, 17)
    refused(lambda: load(proto).specialise(), clcnn.UnsupportedError, NotImplementedError, "'it'", "constant")


def test_all_constants_together_are_bounded(monkeypatch):
    monkeypatch.setattr(importer, "MAX_FOLDED", 1 << 16)
    nodes = [helper.make_node("ConstantOfShape", ["n"], [f"v{i}"]) for i in range(9)]
    one = model(nodes, [], [("v8", None)], {"n": np.array([1 << 11])})
    load(one).specialise()  # nobody reads the others
    summed = [*nodes, helper.make_node("Sum", [f"v{i}" for i in range(9)], ["sum"])]
    all_read = model(summed, [], [("sum", None)], {"n": np.array([1 << 11])})
    refused(lambda: load(all_read).specialise(), clcnn.ModelError, ValueError, "bytes at a time")
    monkeypatch.setattr(importer, "ROUNDS", 1)
    refused(lambda: load(one).specialise(), clcnn.ModelError, ValueError, "bytes in all")
    weights = {"w": np.ones(1 << 15, np.float32)}
    names = ["w", *"abcdef"]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in zip(names, names[1:])]
    load(model(nodes, [], [("f", None)], weights)).specialise()  # as much as the model's own


def test_a_machine_without_memory(monkeypatch):
    def exhausted(*given, **named):
        raise MemoryError

    proto = constant("BitShift", [np.array([1], np.uint8)] * 2, {"direction": "LEFT"}, 17)
    with monkeypatch.context() as patch:
        patch.setattr(ReferenceEvaluator, "run", exhausted)
        refused(lambda: load(proto).specialise(), clcnn.UnsupportedError, NotImplementedError, "'it'")
    proto = model([helper.make_node("EyeLike", ["x"], ["y"], name="it")], [("x", (2, 3))])
    monkeypatch.setattr(np, "eye", exhausted)
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'it'", "not enough memory")


def test_a_batched_outer_product_of_constants_is_folded_or_left(monkeypatch, device):
    """Where it is small; else the device computes it."""
    n, k = 20, 10
    nodes = [helper.make_node("MatMul", ["a", "b"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])]
    initial = {"a": normal(n, 1, 1, 1), "b": normal(1, n, 1, k)}
    proto = model(nodes, [("x", (1,))], initial=initial)
    for most, layers in ((n * n * k, ["add"]), (n * n * k - 1, ["matmul", "add"])):
        monkeypatch.setattr(fold, "MAX_GROWTH", most)
        assert [r.op for r in load(proto).graph().records if r.kind == "node"] == layers
        (y,) = run(proto, {"x": np.ones(1, np.float32)}, device)
        np.testing.assert_allclose(y, 1 + initial["a"] @ initial["b"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["LogSoftmax", "Softmax"])
def test_softmax_of_an_axis_is_computed_at_import(device, op):
    w = normal(2, 3, 4)
    nodes = [helper.make_node(op, ["w"], ["s"], axis=1), helper.make_node("Add", ["x", "s"], ["y"])]
    proto = model(nodes, [("x", w.shape)], initial={"w": w}, opset=13)
    assert [r.op for r in load(proto).graph().records if r.kind == "node"] == ["add"]
    expected = np.exp(w) / np.exp(w).sum(1, keepdims=True)
    (y,) = run(proto, {"x": np.zeros_like(w)}, device)
    np.testing.assert_allclose(y, np.log(expected) if op == "LogSoftmax" else expected, rtol=1e-5, atol=1e-6)


def test_constants_that_follow_one_another_in_memory_are_told_apart(device):
    """Those that are not in row-major order are copied, and the next one may be put where the last was."""
    nodes, initial, last = [], {}, "x"
    for i in range(12):
        initial[f"c{i}"] = normal(3, 2)
        nodes += [
            helper.make_node("Transpose", [f"c{i}"], [f"t{i}"], perm=[1, 0]),
            helper.make_node("Add", [last, f"t{i}"], [f"y{i}"]),
        ]
        last = f"y{i}"
    proto = model(nodes, [("x", (2, 3))], [(last, (2, 3))], initial=initial)
    (y,) = run(proto, {"x": np.zeros((2, 3), np.float32)}, device)
    np.testing.assert_allclose(y, sum(initial.values()).T, rtol=1e-5, atol=1e-6)


# ---- results -----------------------------------------------------------------------------------------------

C = 3
SCALE, BIAS, MEAN, VAR = normal(C), normal(C), normal(C), np.abs(normal(C)) + 0.5


def normalised(x, mean, var):
    shape = (1, C) + (1,) * (x.ndim - 2)
    mean, var, scale, bias = (a.reshape(shape) for a in (mean, var, SCALE, BIAS))
    return (x - mean) / np.sqrt(var + 1e-3) * scale + bias


@pytest.mark.parametrize("opset", [7, 9, 13, 14, 15, 17])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("folded", [False, True])
def test_batch_normalization_of_constants_and_of_data(device, opset, training, folded):
    """Weights are standardised by the statistics of themselves; before opset 14 more outputs ask for it."""
    x = normal(2, C, 4, 5)
    outputs = ["y", "m1", "v1", "sm", "sv"][: 1 if not training else 3 if opset > 13 else 5]
    attrs = {"training_mode": int(training)} if opset > 13 else {}
    node = helper.make_node("BatchNormalization", [*"xsbmv"], outputs, epsilon=1e-3, momentum=0.25, **attrs)
    initial = dict(zip("sbmv", (SCALE, BIAS, MEAN, VAR))) | ({"x": x} if folded else {})
    ends = [(n, None) for n in outputs[:3]]
    proto = model([node], [] if folded else [("x", x.shape)], ends, initial, opset=opset)
    assert (load(proto).specialise().graph is None) == folded
    mean, var = (x.mean((0, 2, 3)), x.var((0, 2, 3))) if training else (MEAN, VAR)
    expected = [normalised(x, mean, var), MEAN * 0.25 + mean * 0.75, VAR * 0.25 + var * 0.75]
    for ours, theirs in zip(run(proto, {} if folded else {"x": x}, device), expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 13, 17])
def test_convolutions_whose_weights_are_standardised(device, opset):
    """As in ResNetV2 and NFNets, with the weights as channels of one item."""
    w, x = normal(C, 4, 3, 3), normal(1, 4, 6, 6)
    flat = normalised(w.reshape(1, C, -1), w.mean((1, 2, 3)), w.var((1, 2, 3)))
    more = {"training_mode": 1} if opset > 13 else {}
    outputs = ["n", "m1", "v1"] if opset > 13 else ["n", "m1", "v1", "sm", "sv"]
    nodes = [
        helper.make_node("Reshape", ["w", "flat"], ["r"]),
        helper.make_node("BatchNormalization", ["r", *"sbmv"], outputs, epsilon=1e-3, **more),
        helper.make_node("Reshape", ["n", "full"], ["k"]),
        helper.make_node("Conv", ["x", "k"], ["y"]),
    ]
    initial = dict(zip("wsbmv", (w, SCALE, BIAS, MEAN, VAR)))
    initial |= {"flat": np.array([1, C, -1]), "full": np.array(w.shape)}
    proto = model(nodes, [("x", x.shape)], initial=initial, opset=opset)
    plain = model(
        [helper.make_node("Conv", ["x", "k"], ["y"])],
        [("x", x.shape)],
        initial={"k": flat.reshape(w.shape).astype(np.float32)},
    )
    records = load(proto).graph().records
    assert [r.op for r in records if r.kind == "node"] == ["conv"]
    np.testing.assert_allclose(
        run(proto, {"x": x}, device)[0], run(plain, {"x": x}, device)[0], rtol=1e-4, atol=1e-5
    )


def joint_softmax(x):
    y = np.exp(x)
    return y / y.sum((1, 2), keepdims=True)


@pytest.mark.parametrize(
    ("op", "attrs", "opset", "expected"),
    [
        ("Softmax", {"axis": 1}, 11, joint_softmax),
        ("LogSoftmax", {"axis": 1}, 11, lambda x: np.log(joint_softmax(x))),
        ("Hardmax", {"axis": 1}, 11, lambda x: x == x.max((1, 2), keepdims=True)),
        ("LpNormalization", {"axis": 1, "p": 1}, 17, lambda x: x / np.abs(x).sum(1, keepdims=True)),
    ],
)
def test_what_the_reference_gets_wrong_is_left_to_the_device(device, op, attrs, opset, expected):
    x = normal(2, 3, 4)
    (y,) = run(constant(op, [x], attrs, opset), {}, device)
    np.testing.assert_allclose(y, expected(x), rtol=1e-5, atol=1e-6)
