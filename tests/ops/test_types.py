"""Types of elements: what operators take and give, how arrays and tensors of them go in and out."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import DtypeError, ShapeError, ops

X = (2, 3)
DTYPES = ("float32", "int64", "int32", "bool")  # of what is computed; uint8 is cast first


def _graph(**dtypes: str) -> tuple[clcnn.Graph, list[clcnn.Value]]:
    graph = clcnn.Graph()
    return graph, [graph.input(name, X, dtype) for name, dtype in dtypes.items()]


def _array(dtype: str, shape: tuple[int, ...] = X) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)


# ---- values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_go_through_unchanged(dtype):
    graph, (x,) = _graph(x=dtype)
    graph.output(ops.transpose(ops.concat(x, x, dim=1), perm=(1, 0)), "y")
    array = _array(dtype)
    with clcnn.compile(graph, device=DEVICE) as plan:
        y = plan(array)
        assert (plan.input_dtypes, plan.output_dtypes) == ({"x": dtype}, {"y": dtype})
    assert y.dtype == array.dtype
    np.testing.assert_array_equal(y, np.concatenate([array, array], 1).T)


@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_and_tensors_have_types(device, dtype):
    array = _array(dtype, (3, 5))
    graph = clcnn.Graph()
    value = graph.constant(array, "c")
    assert value.dtype == dtype
    graph.output(ops.where(graph.input("cond", (5,), "bool"), value, value), "y")
    with clcnn.Tensor.from_numpy(array, device) as tensor:
        assert tensor.dtype == array.dtype
        assert tensor.nbytes == array.nbytes
        np.testing.assert_array_equal(tensor.numpy(), array)
    with clcnn.compile(graph, device=DEVICE) as plan:
        np.testing.assert_array_equal(plan(np.ones(5, bool)), array)


def test_numbers_take_the_type_of_the_value_beside_them():
    _, (x, n) = _graph(x="float32", n="int64")
    assert (x + 1).dtype == "float32"
    assert (n * 2).dtype == "int64"
    assert (3 - n).dtype == "int64"
    assert ops.where(ops.less(n, 1), n, 0).dtype == "int64"
    with pytest.raises(DtypeError, match=r'input "b" is float32, but input "a" is int64'):
        n + 0.5


def test_results_have_the_types_that_operators_give():
    _, (x, n, b) = _graph(x="float32", n="int32", b="bool")
    assert ops.less(n, n).dtype == "bool"
    assert ops.is_nan(x).dtype == "bool"
    assert ops.argmax(n, dim=1).dtype == "int64"
    assert [v.dtype for v in ops.topk(n, k=2)] == ["int32", "int64"]
    assert ops.reduce_max(b).dtype == "bool"
    assert [ops.cast(b, to=to).dtype for to in DTYPES] == list(DTYPES)


def test_copies_of_a_graph_keep_types():
    graph, (x, n) = _graph(x="float32", n="int64")
    graph.output(ops.gather(x, ops.minimum(n, 1)), "y")
    again = graph.copy()
    assert {name: v.dtype for name, v in again.inputs.items()} == {"x": "float32", "n": "int64"}
    assert again.outputs["y"].shape == (2, 3, 3)


# ---- refusals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x, n, b: ops.relu(n), r'relu relu_1: input "x" is int64, expected float32 \(see cast\)'),
        (lambda x, n, b: ops.abs(b), r'input "x" is bool, expected float32 or int64 or int32'),
        (
            lambda x, n, b: ops.add(x, n),
            r'add add_1: input "b" is int64, but input "a" is float32: both must',
        ),
        (
            lambda x, n, b: ops.concat(n, n, b),
            r'concat concat_1: input "xs" is bool, but input "xs" is int64',
        ),
        (lambda x, n, b: ops.where(n, x, x), r'input "cond" is int64, expected bool'),
        (lambda x, n, b: ops.where(b, x, n), r'input "b" is int64, but input "a" is float32'),
        (lambda x, n, b: ops.gather(x, x), r'input "indices" is float32, expected int64 or int32'),
        (lambda x, n, b: ops.logical_and(b, n), r'input "b" is int64, expected bool'),
        (lambda x, n, b: ops.linear(x, n), r'linear linear_1: input "w" is int64, expected float32'),
    ],
)
def test_wrong_types_are_refused_with_node_input_and_what_is_accepted(build, message):
    _, values = _graph(x="float32", n="int64", b="bool")
    with pytest.raises(DtypeError, match=message):
        build(*values)


def test_types_that_there_are_not(device):
    with pytest.raises(
        DtypeError, match="input x: dtype must be float32, int64, int32, bool or uint8, got 'float16'"
    ):
        clcnn.Graph().input("x", X, "float16")
    with pytest.raises(
        DtypeError, match="constant c: dtype must be float32, int64, int32, bool or uint8 .* got float64"
    ):
        clcnn.Graph().constant(np.ones(3), "c")
    with pytest.raises(DtypeError, match="Tensor: dtype must be .* got 'int8'"):
        clcnn.Tensor(device, X, "int8")


def test_arrays_and_tensors_of_another_type_are_refused(device):
    graph, (n,) = _graph(n="int64")
    graph.output(n + 1, "y")
    with clcnn.compile(graph, device=device) as plan:
        with pytest.raises(
            DtypeError, match=r"input n: dtype must be int64 .* got float32 .*astype\(np.int64\)"
        ):
            plan(np.ones(X, np.float32))
        with pytest.raises(DtypeError, match="output y: dtype must be int64"):
            plan(_array("int64"), out=np.empty(X, np.int32))
        with clcnn.Tensor(device, X) as tensor, pytest.raises(DtypeError, match="expected a tensor of int64"):
            plan(tensor)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x, n: ops.gather(x, n, dim=2), ShapeError, "dim=2 is out of range"),
        (lambda x, n: ops.gather_elements(x, ops.reshape(n, shape=-1)), ShapeError, "indices have shape"),
        (lambda x, n: ops.gather_nd(x, n), ShapeError, "are of 3 numbers, but input"),
        (lambda x, n: ops.gather_nd(x, n, batch_dims=2), ShapeError, "batch_dims=2"),
        (lambda x, n: ops.topk(x, k=4), clcnn.ArgumentError, "k=4 must be from 1 to 3"),
        (
            lambda x, n: ops.layer_norm(x, np.ones(2, np.float32)),
            ShapeError,
            r"weight has shape \[2\], expected",
        ),
        (lambda x, n: ops.layer_norm(x, dim=1, dims=2), clcnn.ArgumentError, "dims=2 must be 0 .all. to 1"),
        (lambda x, n: ops.rms_norm(x, dims=-1), clcnn.ArgumentError, "dims=-1 must be 0"),
        (lambda x, n: ops.rms_norm(x, eps=-1.0), clcnn.ArgumentError, "eps=-1 must not be negative"),
        (lambda x, n: ops.l2_norm(x, dim=2), ShapeError, "dim=2"),
        (lambda x, n: ops.group_norm(x, groups=2), ShapeError, "groups=2 must divide the 3 channels"),
        (lambda x, n: ops.grid_sample(x, x), ShapeError, "2 or 3 spatial dimensions"),
        (lambda x, n: ops.nms(x, x, max_output=1), ShapeError, "boxes have shape"),
        (lambda x, n: ops.max_unpool(x, n, output_size=4), ShapeError, "1 to 3 spatial"),
    ],
)
def test_shapes_that_do_not_fit(build, error, message):
    _, values = _graph(x="float32", n="int64")
    with pytest.raises(error, match=message):
        build(*values)


def test_indices_outside_give_nothing_of_x():
    """A device cannot raise: NaN, or 0 for integers, instead of whatever lies there."""
    graph = clcnn.Graph()
    x, n = graph.input("x", (4,)), graph.input("n", (4,), "int64")
    at = graph.constant(np.array([0, -4, 4, -5], np.int64))
    graph.output(ops.gather(x, at), "y")
    graph.output(ops.gather(n, at), "m")
    with clcnn.compile(graph, device=DEVICE) as plan:
        y, m = plan(np.arange(1, 5, dtype=np.float32), np.arange(1, 5))
    np.testing.assert_array_equal(y, np.array([1, 1, np.nan, np.nan], np.float32))
    np.testing.assert_array_equal(m, [1, 1, 0, 0])


def test_regions_and_places_outside_are_contained():
    """Indices of items that do not exist, infinite regions and coordinates: no crash, no hang."""
    graph = clcnn.Graph()
    x = graph.input("x", (1, 1, 4, 4))
    rois = graph.constant(np.array([[0, 0, np.inf, 2], [0, 0, 2, 2], [np.nan, 0, 2, 2]], np.float32))
    items = graph.constant(np.array([0, 7, 0], np.int64))
    graph.output(ops.roi_align(x, rois, items, output_size=1), "regions")
    grid = np.array([np.inf, 0, -np.inf, 0, np.nan, 0, 1e30, 1e30], np.float32).reshape(1, 1, 4, 2)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            sampled = ops.grid_sample(x, graph.constant(grid), mode=mode, padding_mode=padding)
            graph.output(sampled, f"{mode}_{padding}")
    unpooled = ops.max_unpool(x, graph.constant(np.full((1, 1, 4, 4), 99, np.int64)), output_size=5)
    graph.output(unpooled, "unpooled")
    with clcnn.compile(graph, device=DEVICE, guard=True) as plan:
        found = plan.run(np.ones((1, 1, 4, 4), np.float32))
        plan.check_guards()
    assert np.isnan(found["regions"][1, 0, 0, 0])
    assert not found["unpooled"].any()
