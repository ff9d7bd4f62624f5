"""calibrate(): what is counted, against each share's definition; and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops
from clcnn.graph import Graph, trace
from clcnn.zeros import LayerZeros

Array = np.ndarray


def sparse(rng: np.random.Generator, *shape: int) -> Array:
    """Channels that are zero everywhere, and halves of others, and single elements."""
    x = rng.standard_normal(shape).astype(np.float32)
    x[rng.random(shape) < 0.5] = -0.0
    x[:, ::3] = 0.0
    if len(shape) > 2:
        x[:, 1::3, : shape[2] // 2] = 0.0
    return x


def one_layer(op: str, x: Array, w: Array, **attrs: Any) -> LayerZeros:
    """What is counted in the input of one layer."""
    graph = Graph()
    graph.output(graph.apply(op, graph.input("x", x.shape), w, name="layer", **attrs), "y")
    return clcnn.calibrate(graph, x)["layer"]


class Definition:
    """The shares of a convolution's input, element by element."""

    def __init__(self, x: Array, kernel: int, stride: int, padding: int, dilation: int) -> None:
        self.there, self.size = x != 0, x.shape[2:]
        self.taps = [t * dilation - padding for t in range(kernel)]
        self.stride = stride
        self.out = [(n + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 for n in self.size]
        self.reach = [(3 * stride) + t for t in self.taps]

    def inside(self, first: int, last: int, size: int) -> slice:
        return slice(max(0, first), max(0, min(size, last + 1)))

    def window(self) -> float:
        shares = []
        for item, at in itertools.product(self.there, itertools.product(*map(range, self.out))):
            rows = [
                [o * self.stride + t for t in self.taps if 0 <= o * self.stride + t < n]
                for o, n in zip(at, self.size)
            ]
            met = item[np.ix_(range(len(item)), *rows)]
            shares.append(1 - met.mean())
        return float(np.mean(shares))

    def tile(self) -> float:
        tiles = [
            (item, at)
            for item in self.there
            for at in itertools.product(*(range(-(-n // 4)) for n in self.out))
        ]
        met, register_tiles = 0, 0
        for first in range(0, len(tiles), 14):
            register_tiles += 1
            live = np.zeros(self.there.shape[1], bool)
            for item, at in tiles[first : first + 14]:
                patch = [
                    self.inside(
                        4 * t * self.stride + self.taps[0], (4 * t + 3) * self.stride + self.taps[-1], n
                    )
                    for t, n in zip(at, self.size)
                ]
                live |= item[(slice(None), *patch)].reshape(len(live), -1).any(axis=1)
            met += int(live.sum())
        return 1 - met / (register_tiles * self.there.shape[1])

    def block(self) -> float:
        first = range(0, self.there.shape[1], 16)
        blocks = [self.there[:, c : c + 16].any(axis=1) for c in first]
        return 1 - float(np.mean(blocks))

    def shares(self) -> LayerZeros:
        n, c = self.there.shape[:2]
        channel = 1 - self.there.reshape(n, c, -1).any(axis=2).mean()
        return LayerZeros(1 - self.there.mean(), float(channel), self.block(), self.window(), self.tile())


@pytest.mark.parametrize(
    ("x", "kernel", "stride", "padding", "dilation"),
    [
        ((1, 3, 9, 12), 3, 1, 1, 1),
        ((2, 20, 30, 17), 3, 1, 1, 1),
        ((1, 33, 7, 7), 1, 1, 0, 1),
        ((1, 17, 22, 23), 5, 2, 2, 1),
        ((2, 6, 20, 21), 3, 2, 0, 2),
        ((1, 4, 70), 3, 1, 1, 1),
        ((1, 4, 9, 10, 11), 3, 1, 1, 1),
        ((1, 1, 1, 1), 3, 1, 1, 1),
    ],
)
def test_shares_of_a_convolution(x, kernel, stride, padding, dilation):
    rng = np.random.default_rng(1)
    data = sparse(rng, *x)
    w = rng.standard_normal((4, x[1], *[kernel] * (len(x) - 2))).astype(np.float32)
    got = one_layer("conv", data, w, stride=stride, padding=padding, dilation=dilation)
    assert got == pytest.approx(Definition(data, kernel, stride, padding, dilation).shares(), abs=1e-6)


def test_groups_change_nothing():
    x = sparse(np.random.default_rng(2), 1, 6, 8, 9)
    assert one_layer("conv", x, np.ones((6, 1, 3, 3), np.float32), groups=6) == one_layer(
        "conv", x, np.ones((6, 6, 3, 3), np.float32)
    )


def test_what_is_not_finite_is_no_zero():
    x = np.array([0.0, -0.0, np.nan, np.inf], np.float32).reshape(1, 4, 1, 1)
    assert one_layer("conv", x, np.ones((2, 4, 1, 1), np.float32)).element == 0.5


def test_inputs_of_linear_layers_are_channels():
    x = np.zeros((2, 40), np.float32)
    x[0, 3], x[1, 3], x[1, 4] = 1, 2, 3
    want = LayerZeros(1 - 3 / 80, 1 - 3 / 80, 1 - 2 / 6, 1 - 3 / 80, 1 - 2 / 40)
    w = np.ones((40, 5), np.float32)
    assert one_layer("linear", x, np.ascontiguousarray(w.T)) == pytest.approx(want)
    assert one_layer("matmul", x, w) == pytest.approx(want)
    assert one_layer("gemm", np.ascontiguousarray(x.T), w, trans_a=True) == pytest.approx(want)
    tokens = np.zeros((1, 3, 20), np.float32)
    tokens[0, 1, 5] = 1
    got = one_layer("linear", tokens, np.ones((2, 20), np.float32))
    assert got == pytest.approx(LayerZeros(59 / 60, 19 / 20, 5 / 6, 59 / 60, 19 / 20))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.BatchNorm2d(20), nn.ReLU())
        self.body = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(20, 24, 3, padding=1), nn.ReLU())
        self.side = nn.Conv2d(20, 24, 1, stride=2)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 5))

    def forward(self, x: Any) -> Any:
        y = self.stem(x)
        return self.head(ops.relu(self.body(y) + self.side(y), name="sum"))


def images(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, 3, 24, 20), np.float32)


def test_layers_inside_a_net(device):
    net, x = Net(), images(3)
    found = clcnn.calibrate(net, x, device)
    assert list(found) == ["stem.0", "body.1", "side", "head.2"]
    assert found["stem.0"].element == 0
    with clcnn.compile(net, x.shape, device, outputs=["stem.2", "body.0"]) as plan:
        maps = plan.run(x)
    for layer, value in (("side", "stem.2"), ("body.1", "body.0")):
        assert found[layer].element == pytest.approx(float(np.mean(maps[value] == 0)), abs=1e-3)
    assert 0.1 < found["side"].element < 0.9
    assert found.weights["body.1"] == (24, 20, 3, 3)


def test_several_arrays_are_one(device):
    net, x = Net(), images(5)
    whole = clcnn.calibrate(net, x, device)
    for parts in ([x[:2], x[2:]], iter([x[:1], x[1:4], x[4:]])):
        got = clcnn.calibrate(net, parts, device)
        for layer in whole:
            assert got[layer] == pytest.approx(whole[layer])


def test_a_graph_has_its_own_batch(device):
    net = Net()
    graph = trace(net, (2, 3, 24, 20))
    found = clcnn.calibrate(graph, images(4), device)
    assert found["side"].element == pytest.approx(clcnn.calibrate(net, images(4), device)["side"].element)
    with pytest.raises(
        clcnn.ShapeError, match=r"images\[0\]: expected shape \(N, 3, 24, 20\), N a multiple of 2, got"
    ):
        clcnn.calibrate(graph, images(3), device)
    assert list(graph.outputs) == ["output"]


def test_models_out_of_files(device, tmp_path):
    """One image at a time, whatever they were saved at, but where that cannot be."""
    net, x = Net(), images(3)
    clcnn.save(net, tmp_path / "net.clcnn", (8, 3, 24, 20))
    found = clcnn.calibrate(clcnn.load(tmp_path / "net.clcnn"), x, device)
    assert found["side"] == pytest.approx(clcnn.calibrate(net, x, device)["side"])
    graph = Graph()
    y = graph.apply("reshape", graph.input("x", (2, 6)), shape=(3, 4))
    graph.output(graph.apply("linear", y, np.ones((2, 4), np.float32), name="l"), "y")
    clcnn.save(graph, tmp_path / "fixed.clcnn")
    zeros = clcnn.calibrate(clcnn.load(tmp_path / "fixed.clcnn"), np.eye(4, 6, dtype=np.float32), device)
    assert zeros["l"].element == pytest.approx(1 - 4 / 24)


def test_the_batch_of_an_onnx_file_may_be_fixed(device, tmp_path):
    onnx = pytest.importorskip("clcnn.onnx")
    x = images(4)
    want = clcnn.calibrate(Net(), x, device)
    for dynamic in (False, True):
        onnx.save(Net(), tmp_path / "net.onnx", (2, 3, 24, 20), dynamic_batch=dynamic)
        model = onnx.load(tmp_path / "net.onnx")
        found = clcnn.calibrate(model, x, device)
        assert len(found) == len(want) == 4
        with clcnn.compile(model, (2, 3, 24, 20), device, zeros=found) as plan:
            assert any(row["zeros"] for row in plan.layers)
        if not dynamic:
            with pytest.raises(clcnn.ShapeError, match="N a multiple of 2"):
                clcnn.calibrate(model, images(3), device)


def two_inputs() -> Graph:
    graph = Graph()
    a, b = graph.input("a", (1, 4)), graph.input("b", (1, 4))
    graph.output(ops.linear(ops.relu(a - b), np.ones((2, 4), np.float32), name="l"), "y")
    return graph


def test_several_inputs_come_by_name(device):
    a = np.array([[1, 2, 3, 4], [1, 1, 1, 1]], np.float32)
    found = clcnn.calibrate(two_inputs(), {"a": a, "b": np.full((2, 4), 2, np.float32)}, device)
    assert found["l"].element == 0.75


# ---- what is refused ----


@pytest.mark.parametrize("none", [[], iter([]), images(0), [images(0), images(0)]])
def test_no_images(device, none):
    with pytest.raises(clcnn.ArgumentError, match="calibrate: there is no image"):
        clcnn.calibrate(Net(), none, device)


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (
            np.zeros((1, 4, 24, 20), np.float32),
            r"images\[0\]: shape \(1, 4, 24, 20\) does not fit the model: conv",
        ),
        (list(images(2)), r"images\[0\]: shape \(3, 24, 20\) does not fit the model: "),
        (
            [images(1), images(1)[:, :, 1:]],
            r"images\[1\]: expected shape \(N, 3, 24, 20\), got \(1, 3, 23, 20\)",
        ),
        ([np.float32(1) + np.zeros(())], r"images\[0\]: expected"),
        ({"x": images(2), "y": images(1)}, r"images\[0\]: inputs have different numbers of images"),
    ],
)
def test_a_wrong_shape_is_named(device, given, what):
    with pytest.raises((clcnn.ShapeError, clcnn.DtypeError), match=what):
        clcnn.calibrate(Net(), given, device)


def test_what_is_no_image_is_named(device):
    with pytest.raises(clcnn.DtypeError, match=r"images: expected an array of images, or several, got 3"):
        clcnn.calibrate(Net(), 3, device)
    with pytest.raises(clcnn.DtypeError, match=r"images\[1\]: expected an array, got 'cat.png'"):
        clcnn.calibrate(Net(), [images(1), "cat.png"], device)
    with pytest.raises(clcnn.DtypeError, match=r"images\[0\]: expected a plain NumPy array"):
        clcnn.calibrate(Net(), np.ma.masked_less(images(1), 0), device)
    with pytest.raises(clcnn.DtypeError, match="float32"):
        clcnn.calibrate(Net(), images(1).astype(np.float64), device)


def test_inputs_are_named(device):
    with pytest.raises(
        clcnn.ArgumentError, match=r"images\[0\]: expected a dict of arrays for the inputs a, b"
    ):
        clcnn.calibrate(two_inputs(), np.ones((1, 4), np.float32), device)


def test_a_model_without_such_layers(device):
    with pytest.raises(clcnn.ArgumentError, match="no convolution and no linear layer"):
        clcnn.calibrate(nn.Sequential(nn.ReLU()), images(1), device)
