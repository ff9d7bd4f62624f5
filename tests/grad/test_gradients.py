"""The way back through graphs: sums of uses, frozen parts, names, fusing, errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import clcnn
from clcnn import Graph, Value, ops
from clcnn._reference import REFERENCE
from helpers import refused

SAMPLES = 3


def evaluated(graph: Graph, feed: dict[str, np.ndarray], wanted: Value) -> float:
    """A value of one element, by the definitions in float64."""
    known: dict[int | None, np.ndarray] = {None: None}  # type: ignore[dict-item]
    for r in graph.records:
        if r.kind == "node":
            made = REFERENCE[r.op](*(known[i] for i in r.inputs), **r.attrs)
            known.update(zip(r.values, made if isinstance(made, list) else [made]))
        elif r.kind in ("input", "constant"):
            known[r.values[0]] = feed[r.name] if r.kind == "input" else r.array
        if wanted.id in r.values:
            break
    return float(np.asarray(known[wanted.id]).reshape(-1)[0])


def run(
    device: clcnn.Device, graph: Graph, feed: dict[str, np.ndarray], **options: object
) -> dict[str, np.ndarray]:
    with clcnn.compile(graph, device=device, tune="off", **options) as plan:  # type: ignore[arg-type]
        given = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in feed.values()]
        results = plan(*given)
    return dict(zip(graph.outputs, results if isinstance(results, tuple) else [results]))


def small_net() -> tuple[Graph, Value, list[Value], dict[str, np.ndarray]]:
    """Two convolutions around a batch norm, a residual addition, two branches that are joined, and a loss;
    all parameters are inputs."""
    g, rng = Graph(), np.random.default_rng(3)
    feed: dict[str, np.ndarray] = {}

    def take(name: str, *shape: int, scale: float = 0.5) -> Value:
        feed[name] = (scale * rng.standard_normal(shape)).astype(np.float32).astype(np.float64)
        return g.input(name, shape)

    x = take("x", SAMPLES, 2, 8, 8, scale=1.0)
    h = ops.relu(ops.conv(x, take("w1", 4, 2, 3, 3), take("b1", 4), padding=1, name="conv1"), name="relu1")
    n, _, _ = ops.batch_norm_train(
        ops.conv(h, take("w2", 4, 4, 3, 3), padding=1, name="conv2"),
        take("gamma", 4),
        take("beta", 4),
        name="bn2",
    )
    h = ops.relu(ops.add(n, h, name="add2"), name="relu2")
    pooled = ops.max_pool(h, kernel_size=2, name="pool")
    strided = ops.conv(h, take("w3", 3, 4, 3, 3), stride=2, padding=1, name="conv3")
    both = ops.concat(pooled, ops.tanh(strided, name="tanh3"), name="both")
    flat = ops.flatten(ops.adaptive_avg_pool(both, output_size=(2, 1), name="mean"), name="flat")
    logits = ops.linear(flat, take("fc", 5, 14), take("fc_b", 5), name="fc1")
    labels = g.input("labels", (SAMPLES,), "int64")
    feed["labels"] = np.array([1, 4, 0])
    loss = ops.cross_entropy(logits, labels, label_smoothing=0.1, name="loss")
    return g, loss, [v for name, v in g.inputs.items() if name != "labels"], feed


@pytest.mark.parametrize("fuse", [True, False])
def test_a_small_net(device: clcnn.Device, fuse: bool) -> None:
    """All its gradients, along random directions; with rewrites and without. ReLU and maxima have corners, so
    that the step must be small, and directions few."""
    g, loss, wrt, feed = small_net()
    g.output(loss, "loss")
    for value, gradient in zip(wrt, clcnn.grad(loss, wrt)):
        assert gradient.shape == value.shape
        g.output(gradient, f"d{value.id}")
    results = run(device, g, feed, fuse=fuse)
    assert abs(float(results["loss"]) - evaluated(g, feed, loss)) < 1e-5
    rng = np.random.default_rng(5)
    for name, value in ((n, v) for n, v in g.inputs.items() if n != "labels"):
        own, way = feed[name], rng.standard_normal(value.shape)
        feed[name] = own + 1e-6 * way
        above = evaluated(g, feed, loss)
        feed[name] = own - 1e-6 * way
        slope = (above - evaluated(g, feed, loss)) / 2e-6
        feed[name] = own
        got = float((results[f"d{value.id}"].astype(np.float64) * way).sum())
        assert abs(got - slope) < 1e-4 * max(1.0, abs(slope)), name


def test_nodes_are_named_after_layers() -> None:
    g, loss, wrt, _ = small_net()
    before = {row.name for row in g.rows()}
    clcnn.grad(loss, wrt)
    made = {row.name for row in g.rows()} - before
    assert {"conv1:dx", "conv1:dw", "conv1:db", "fc1:dw", "bn2:dx", "relu1:dy"} <= made
    assert "conv3:db" not in made
    again = clcnn.grad(loss, wrt[1])
    assert g.layer("conv1:dw_2").id == again.id
    assert ops.relu(again, name="conv1:dw").shape == again.shape  # a taken name gets a number
    assert {row.op for row in g.rows() if row.name == "conv1:dw_3"} == {"relu"}


def test_uses_add_up(device: clcnn.Device) -> None:
    """A value that is used twice, by one operator and by two."""
    g = Graph()
    x = g.input("x", (4,))
    loss = ops.reduce_sum(ops.add(ops.mul(x, x), ops.mul(x, 3.0)), keepdims=False)
    g.output(clcnn.grad(loss, x), "dx")
    got = run(device, g, {"x": np.arange(4.0)})["dx"]
    np.testing.assert_array_equal(got, 2.0 * np.arange(4) + 3.0)


def test_inner_values_and_the_loss_itself(device: clcnn.Device) -> None:
    g = Graph()
    x = g.input("x", (3,))
    y = ops.exp(x, name="y")
    loss = ops.reduce_sum(ops.mul(y, y), keepdims=False)
    dy, dl = clcnn.grad(loss, [y, loss])
    g.output(dy, "dy")
    g.output(dl, "dl")
    got = run(device, g, {"x": np.zeros(3)})
    np.testing.assert_allclose(got["dy"], 2.0, rtol=1e-6)
    assert got["dl"].shape == () and got["dl"] == 1.0


def test_frozen_parts_cost_nothing() -> None:
    """No gradient goes behind what none is wanted of, and none of a layer's other inputs is computed."""
    g, loss, _, _ = small_net()
    before = {row.name for row in g.rows()}
    clcnn.grad(loss, [g.inputs["fc"]])
    assert {row.name for row in g.rows()} - before == {"loss:dx", "fc1:dw"}


def test_values_that_the_loss_does_not_depend_on(device: clcnn.Device) -> None:
    g = Graph()
    x, y = g.input("x", (2,)), g.input("y", (2, 3))
    loss = ops.reduce_sum(x, keepdims=False)
    ops.exp(y)
    assert g.gradients(loss, [y]) == [None]
    g.output(clcnn.grad(loss, y), "dy")
    got = run(device, g, {"x": np.ones(2), "y": np.ones((2, 3))})["dy"]
    np.testing.assert_array_equal(got, np.zeros((2, 3)))


def test_branches_without_gradient_are_constants(device: clcnn.Device) -> None:
    """x * floor(x), and x where a comparison of it says so: by the way that has a gradient."""
    g = Graph()
    x = g.input("x", (4,))
    steps = ops.mul(x, ops.floor(x))
    chosen = ops.mul(x, ops.cast(ops.greater(x, 1.0), to="float32"))
    g.output(clcnn.grad(ops.reduce_sum(ops.add(steps, chosen), keepdims=False), x), "dx")
    got = run(device, g, {"x": np.array([0.5, 1.5, 2.5, -0.5])})["dx"]
    np.testing.assert_array_equal(got, [0.0, 2.0, 3.0, -1.0])


def test_cast_between_floats(device: clcnn.Device) -> None:
    g = Graph()
    x = g.input("x", (4,))
    g.output(clcnn.grad(ops.reduce_sum(ops.mul(ops.cast(x, to="float32"), x), keepdims=False), x), "dx")
    np.testing.assert_array_equal(run(device, g, {"x": np.arange(4.0)})["dx"], 2.0 * np.arange(4))


# ---- convolutions by weights that are no constants ---------------------------------------------------------


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    ("op", "x", "w", "attrs"),
    [
        ("conv", (2, 16, 14, 14), (32, 16, 3, 3), {"padding": 1}),
        ("conv", (2, 16, 14, 14), (32, 16, 3, 3), {"padding": 1, "stride": 2}),
        ("conv", (2, 32, 14, 14), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
        ("conv", (2, 32, 14, 14), (16, 32, 1, 1), {}),
        ("conv", (2, 3, 30, 30), (16, 3, 7, 7), {"padding": 3, "stride": 2}),
        ("conv", (2, 32, 14, 14), (32, 8, 3, 3), {"padding": 1, "groups": 4}),
        ("conv_transpose", (2, 32, 7, 7), (32, 16, 3, 3), {"padding": 1, "stride": 2, "output_padding": 1}),
        ("conv_transpose", (2, 32, 14, 14), (32, 16, 3, 3), {"padding": 1}),
        ("conv_transpose", (2, 32, 7, 7), (32, 1, 3, 3), {"padding": 1, "groups": 32}),
        ("conv_transpose", (2, 32, 7, 7), (32, 16, 1, 1), {}),
    ],
)
def test_weights_that_runs_bring(
    device: clcnn.Device,
    op: str,
    x: Sequence[int],
    w: Sequence[int],
    attrs: dict[str, object],
    computed: bool,
) -> None:
    """The rules' choice with weights that are an input, or the result of a layer, followed by a ReLU."""
    g, rng = Graph(), np.random.default_rng(0)
    feed = {"x": rng.standard_normal(x), "w": rng.standard_normal(w)}
    values = {name: g.input(name, array.shape) for name, array in feed.items()}
    weights = ops.mul(values["w"], 2.0) if computed else values["w"]
    g.output(ops.relu(g.apply(op, values["x"], weights, **attrs)), "y")
    want = np.maximum(REFERENCE[op](feed["x"], feed["w"] * (2.0 if computed else 1.0), **attrs), 0.0)
    for _ in range(2):
        got = run(device, g, feed)["y"]
        assert np.abs(got - want).max() < 5e-5 * np.sqrt((want * want).mean()) * 3


@pytest.mark.parametrize("groups", [1, 4])
def test_adjoints_of_real_layers(device: clcnn.Device, groups: int) -> None:
    """<dy, conv(x, w)> is <dx, x> and <dw, w>, at a size where other algorithms than the definition work."""
    g, rng = Graph(), np.random.default_rng(1)
    feed = {
        "x": rng.standard_normal((2, 32, 28, 28)),
        "w": rng.standard_normal((48, 32 // groups, 3, 3)),
        "dy": rng.standard_normal((2, 48, 14, 14)),
    }
    x, w, dy = (g.input(name, array.shape) for name, array in feed.items())
    y = ops.conv(x, w, stride=2, padding=1, groups=groups)
    dx, dw = clcnn.grad(ops.reduce_sum(ops.mul(y, dy), keepdims=False), [x, w])
    g.output(dx, "dx")
    g.output(dw, "dw")
    got = run(device, g, feed)
    want = (feed["dy"] * REFERENCE["conv"](feed["x"], feed["w"], stride=2, padding=1, groups=groups)).sum()
    scale = np.sqrt((feed["dy"] ** 2).sum() * (feed["x"] ** 2).sum())
    for name, other in (("dx", "x"), ("dw", "w")):
        assert abs((got[name].astype(np.float64) * feed[other]).sum() - want) < 1e-5 * scale


@pytest.mark.parametrize("limit", [1 << 16, 1 << 17, 1 << 26])
def test_filters_from_chunks_of_the_batch(device: clcnn.Device, limit: int) -> None:
    """Whatever of the batch fits into the workspace at a time: one image, some with a rest, all."""
    g, rng = Graph(), np.random.default_rng(4)
    feed = {"x": rng.integers(-3, 4, (5, 4, 12, 14)), "dy": rng.integers(-3, 4, (5, 20, 12, 14))}
    x, dy = (g.input(name, array.shape) for name, array in feed.items())
    g.output(ops.conv_filter_grad(x, dy, kernel_size=3, padding=1, name="dw"), "dw")
    given = [array.astype(np.float32) for array in feed.values()]
    algorithms = {"dw": "im2col"}
    with clcnn.compile(g, device=device, workspace_limit=limit, algorithms=algorithms, tune="off") as plan:
        columns = [row for row in plan.profile(*given).rows if "im2col" in row.kernel]
        got = plan(*given)
    assert len(columns) == {1 << 16: 5, 1 << 17: 2, 1 << 26: 1}[limit]
    np.testing.assert_array_equal(got, REFERENCE["conv_filter_grad"](*given, kernel_size=3, padding=1))


# ---- limits of batch norms ---------------------------------------------------------------------------------


@pytest.mark.parametrize("act, high", [("relu", np.inf), ("relu6", 6.0)])
@pytest.mark.parametrize("channels", [3, 20])
def test_clips_become_limits_of_batch_norms(
    device: clcnn.Device, act: str, high: float, channels: int
) -> None:
    """Forward and backward: no pass of their own is left, and results are those of the definitions."""
    rng = np.random.default_rng(4)
    g, shape = Graph(), (2, channels, 9, 7)
    feed = {"x": rng.standard_normal(shape), "dy": rng.standard_normal(shape)}
    feed |= {"gamma": 4.0 + rng.standard_normal(channels), "beta": rng.standard_normal(channels)}
    x, dy, gamma, beta = (g.input(name, value.shape) for name, value in feed.items())
    y, mean, _ = ops.batch_norm_train(x, gamma, beta, name="norm")
    clipped = getattr(ops, act)(y, name="clip")
    g.output(clipped, "y")
    g.output(mean, "mean")
    grads = clcnn.grad(ops.reduce_sum(ops.mul(clipped, dy), keepdims=False), [x, gamma, beta])
    for name, made in zip(("dx", "dgamma", "dbeta"), grads):
        g.output(made, name)
    given = {name: value.astype(np.float32) for name, value in feed.items()}
    with clcnn.compile(g, device=device, tune="off") as plan:
        assert {row["op"] for row in plan.layers} & {"relu", "relu6", "relu_grad", "sub"} == set()
        assert sum("into batch_norm_train" in note for note in plan.rewrites) == 2
        got = dict(zip(g.outputs, plan(*given.values())))
    wide = {name: value.astype(np.float64) for name, value in given.items()}
    limits = {"low": 0.0, "high": high}
    want_y, want_mean, var = REFERENCE["batch_norm_train"](wide["x"], wide["gamma"], wide["beta"], **limits)
    back = REFERENCE["batch_norm_train_grad"](
        wide["dy"], wide["x"], wide["gamma"], want_mean, var, wide["beta"], **limits
    )
    assert 0.1 < np.mean((want_y > 0.0) & (want_y < high)) < 0.9
    for name, want in zip(("y", "mean", "dx", "dgamma", "dbeta"), (want_y, want_mean, *back)):
        np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-4, err_msg=name)


def test_a_batch_norm_that_others_read_keeps_its_relu(device: clcnn.Device) -> None:
    rng = np.random.default_rng(5)
    g, channels = Graph(), 4
    feed = {
        "x": rng.standard_normal((2, channels, 5, 5)),
        "gamma": np.ones(channels),
        "beta": np.ones(channels),
    }
    x, gamma, beta = (g.input(name, value.shape) for name, value in feed.items())
    y, _, _ = ops.batch_norm_train(x, gamma, beta)
    (dx,) = clcnn.grad(ops.reduce_sum(ops.mul(ops.relu(y, name="kept"), y), keepdims=False), [x])
    g.output(dx, "dx")
    with clcnn.compile(g, device=device, tune="off") as plan:
        assert any("kept:dx" in row["layer"].split("+") for row in plan.layers)
        assert not any("into batch_norm_train" in note for note in plan.rewrites)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("channels", [3, 20])
def test_batch_norms_take_what_is_added_to_them(device: clcnn.Device, channels: int, later: bool) -> None:
    """A residual block: the norm adds and rectifies, forward and backward are those of the definitions. Not
    so where the shortcut is computed after the norm, whose statistics others read before."""
    rng = np.random.default_rng(6)
    g, shape = Graph(), (2, channels, 9, 7)
    feed = {name: rng.standard_normal(shape) for name in ("x", "shortcut", "dy")}
    feed |= {"gamma": 1.0 + rng.standard_normal(channels), "beta": rng.standard_normal(channels)}
    x, shortcut, dy, gamma, beta = (g.input(name, value.shape) for name, value in feed.items())
    y, mean, _ = ops.batch_norm_train(x, gamma, beta, name="norm")
    g.output(ops.mul(mean, mean), "mean")
    other = ops.softmax(shortcut, dim=1) if later else shortcut
    out = ops.relu(ops.add(y, other, name="sum"), name="end")
    g.output(out, "y")
    dx, dother = clcnn.grad(ops.reduce_sum(ops.mul(out, dy), keepdims=False), [x, other])
    g.output(dx, "dx")
    g.output(dother, "dother")
    given = {name: value.astype(np.float32) for name, value in feed.items()}
    with clcnn.compile(g, device=device, tune="off") as plan:
        assert sum("into batch_norm_train norm" in note for note in plan.rewrites) == (0 if later else 2)
        got = dict(zip(g.outputs, plan(*given.values())))
    wide = {name: value.astype(np.float64) for name, value in given.items()}
    normed, mean, var = REFERENCE["batch_norm_train"](wide["x"], wide["gamma"], wide["beta"])
    added = REFERENCE["softmax"](wide["shortcut"], dim=1) if later else wide["shortcut"]
    want = np.maximum(normed + added, 0.0)
    slope = wide["dy"] * (want > 0.0)
    back = REFERENCE["batch_norm_train_grad"](slope, wide["x"], wide["gamma"], mean, var, wide["beta"])
    for name, wanted in {"mean": mean * mean, "y": want, "dx": back[0], "dother": slope}.items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=1e-4, err_msg=name)


# ---- errors ------------------------------------------------------------------------------------------------


def test_limits_of_a_batch_norm_are_in_order_and_have_no_second_derivative() -> None:
    g = Graph()
    x, w = g.input("x", (2, 3, 4)), g.input("w", (3,))
    refused(
        lambda: ops.batch_norm_train(x, w, w, low=6.0, high=0.0, name="bn"),
        clcnn.ArgumentError, ValueError, "batch_norm_train bn", "low=6 must be less than high=0",
    )  # fmt: skip
    y, _, _ = ops.batch_norm_train(x, w, w, low=0.0, name="bn")
    (dx,) = clcnn.grad(ops.reduce_sum(y, keepdims=False), [x])
    loss = ops.reduce_sum(ops.mul(dx, dx), keepdims=False)
    refused(
        lambda: clcnn.grad(loss, [x]),
        clcnn.UnsupportedError,
        RuntimeError,
        "bn:dx",
        "results that are clipped",
    )


def test_operators_without_gradient_are_named() -> None:
    g = Graph()
    x = g.input("x", (2, 5))
    best = ops.cast(ops.argmax(x, dim=1, name="best"), to="float32")
    loss = ops.reduce_sum(best, keepdims=False)
    nodes = len(g.rows())
    refused(lambda: clcnn.grad(loss, x), clcnn.UnsupportedError, RuntimeError, "argmax best", "no gradient")
    steps = ops.reduce_sum(ops.floor(ops.exp(x), name="steps"), keepdims=False)
    refused(lambda: clcnn.grad(steps, x), clcnn.UnsupportedError, RuntimeError, "floor steps")
    region, map_ = np.array([[0, 0, 0, 1, 1]], np.float32), ops.reshape(x, shape=(1, 1, 2, 5))
    first = ops.reduce_sum(ops.max_roi_pool(map_, region, output_size=1, name="one"), keepdims=False)
    refused(
        lambda: clcnn.grad(first, x), clcnn.UnsupportedError, RuntimeError, "max_roi_pool one", "not offered"
    )
    maps = ops.reshape(x, shape=(1, 2, 5))
    bins = ops.reduce_sum(ops.adaptive_max_pool(maps, output_size=2, name="bins"), keepdims=False)
    refused(
        lambda: clcnn.grad(bins, x), clcnn.UnsupportedError, RuntimeError, "adaptive_max_pool bins", "differ"
    )
    assert len(g.rows()) == nodes + 9, "a refused gradient leaves nothing behind"
    assert clcnn.grad(ops.reduce_sum(x, keepdims=False), x).shape == (2, 5)


def test_what_samples_cannot_be_differentiated_by_is_told() -> None:
    g = Graph()
    x, rois = g.input("x", (1, 2, 6, 6)), g.input("rois", (2, 4))
    adaptive = ops.roi_align(x, rois, np.zeros(2, np.int64), output_size=2, name="bins")
    placed = ops.scatter(x, np.array([0, 2]), g.input("u", (1, 2, 2, 6)), dim=2, reduction="max", name="most")
    for y, words in (
        (adaptive, ("roi_align bins", "sampling_ratio=0")),
        (placed, ("scatter most", "reduction=add")),
    ):
        loss = ops.reduce_sum(y, keepdims=False)
        refused(lambda loss=loss: clcnn.grad(loss, x), clcnn.UnsupportedError, RuntimeError, *words)


def test_sums_at_indices_have_a_fixed_order(device: clcnn.Device) -> None:
    """Many updates of few slices: the bits of one addition after the other, in the order of the indices."""
    rng = np.random.default_rng(0)
    index, dy = rng.integers(0, 5, 400), rng.standard_normal((400, 3)).astype(np.float32)
    g = Graph()
    x = g.input("x", (5, 3))
    g.output(
        clcnn.grad(ops.reduce_sum(ops.gather(x, g.input("i", (400,), "int64")) * dy, keepdims=False), x), "dx"
    )
    want = np.zeros((5, 3), np.float32)
    for i, row in zip(index, dy):
        want[i] += row
    with clcnn.compile(g, device=device) as plan:
        given = {"x": np.zeros((5, 3), np.float32), "i": index}
        np.testing.assert_array_equal(plan.run({k: given[k] for k in plan.inputs})["dx"], want)


def test_bad_arguments() -> None:
    g = Graph()
    x, labels = g.input("x", (2, 5)), g.input("labels", (2,), "int64")
    loss = ops.reduce_sum(x, keepdims=False)
    refused(lambda: clcnn.grad(x, x), clcnn.ShapeError, ValueError, "one element", "[2, 5]")
    refused(lambda: clcnn.grad(loss, labels), clcnn.DtypeError, TypeError, "float32", "int64")
    refused(lambda: clcnn.grad(3.0, x), clcnn.ArgumentError, ValueError, "Value")  # type: ignore[call-overload]
    other = Graph().input("x", (2, 5))
    refused(lambda: clcnn.grad(loss, other), clcnn.ArgumentError, ValueError, "another graph")


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda x, n: ops.cross_entropy(x, n, label_smoothing=1.5), ("label_smoothing=1.5", "0 to 1")),
        (lambda x, n: ops.cross_entropy(ops.reshape(x, shape=(4, 1, 3)), n), ("[samples, classes]",)),
        (lambda x, n: ops.cross_entropy(ops.slice(x, starts=(0,), ends=(2,)), n), ("labels", "expected [2]")),
        (
            lambda x, n: ops.batch_norm_train(
                ops.slice(x, starts=(0,), ends=(1,)), np.ones(3, "f"), np.ones(3, "f")
            ),
            ("one value a channel",),
        ),
        (
            lambda x, n: ops.max_pool_grad(
                ops.reshape(x, shape=(1, 4, 3)), ops.reshape(x, shape=(1, 4, 3)), kernel_size=2
            ),
            ("dy has shape [1, 4, 3]", "gives [1, 4, 1]"),
        ),
        (
            lambda x, n: ops.conv_filter_grad(
                ops.reshape(x, shape=(1, 4, 3)), ops.reshape(x, shape=(1, 4, 3)), kernel_size=2
            ),
            ("dy has shape [1, 4, 3]", "gives [1, 4, 2]"),
        ),
        (
            lambda x, n: ops.conv_filter_grad(
                ops.reshape(x, shape=(1, 4, 3)), ops.reshape(x, shape=(2, 2, 3)), kernel_size=2
            ),
            ("no result of a convolution",),
        ),
        (lambda x, n: ops.cross_entropy_grad(x, n, n), ("float32",)),
    ],
)
def test_bad_nodes(call: object, parts: tuple[str, ...]) -> None:
    g = Graph()
    x, n = g.input("x", (4, 3)), g.input("n", (4,), "int64")
    with pytest.raises(clcnn.Error) as caught:
        call(x, n)  # type: ignore[operator]
    for part in parts:
        assert part in str(caught.value)


def test_labels_that_are_no_class(device: clcnn.Device) -> None:
    """No memory is read for them: NaN tells."""
    g = Graph()
    x, n = g.input("x", (3, 4)), g.input("n", (3,), "int64")
    g.output(ops.cross_entropy(x, n, reduction="none"), "y")
    got = run(device, g, {"x": np.zeros((3, 4)), "n": np.array([0, 4, -1])})["y"]
    np.testing.assert_allclose(got, [np.log(4.0), np.nan, np.nan], rtol=1e-6)


# ---- graphs with gradients ---------------------------------------------------------------------------------


def test_copies_repeat_gradients(device: clcnn.Device) -> None:
    g, loss, wrt, feed = small_net()
    g.output(clcnn.grad(loss, wrt[1]), "dw")
    copy = g.copy()
    assert [row.name for row in copy.rows()] == [row.name for row in g.rows()]
    np.testing.assert_array_equal(run(device, copy, feed)["dw"], run(device, g, feed)["dw"])


def test_they_are_not_saved(tmp_path: Path) -> None:
    g, loss, wrt, _ = small_net()
    g.output(clcnn.grad(loss, wrt[1]), "dw")
    refused(
        lambda: clcnn.save(g, tmp_path / "g.clcnn"),
        clcnn.UnsupportedError,
        RuntimeError,
        "gradients",
        "network",
    )
