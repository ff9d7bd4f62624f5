"""clcnn.nn.functional: each function gives what the layer of its name gives, arguments in torch's order."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clcnn
import clcnn.nn.functional as F
from clcnn import Graph, nn

MAP = (2, 4, 7, 6)
X = np.random.default_rng(8).standard_normal(MAP).astype(np.float32)
RNG = np.random.default_rng(9)
W2 = RNG.standard_normal((6, 4, 3, 3)).astype(np.float32)
W1, W3 = W2[..., 0].copy(), W2[..., None].copy()
WT = RNG.standard_normal((4, 6, 3, 3)).astype(np.float32)
B, V = RNG.standard_normal(6).astype(np.float32), np.abs(RNG.standard_normal(4).astype(np.float32)) + 0.5
WL = RNG.standard_normal((5, 6)).astype(np.float32)
OTHER, LABELS = X[::-1].copy(), (X[:, 0] > 0).astype(np.int64)
SHARES = (1 / (1 + np.exp(-OTHER))).astype(np.float32)
LINE, BOX = (2, 4, 9), (2, 4, 5, 4, 3)

# A call, the shape of its input, and the layer that does the same; None where torch alone says it.
CALLS: list[tuple[Callable[..., Any], tuple[int, ...], nn.Module | None]] = [
    (lambda f, x: f.relu(x), MAP, nn.ReLU()),
    (lambda f, x: f.relu(x, inplace=True), MAP, nn.ReLU()),
    (lambda f, x: f.relu6(x), MAP, nn.ReLU6()),
    (lambda f, x: f.elu(x, alpha=0.7), MAP, nn.ELU(0.7)),
    (lambda f, x: f.celu(x, 0.7), MAP, nn.CELU(0.7)),
    (lambda f, x: f.selu(x), MAP, nn.SELU()),
    (lambda f, x: f.gelu(x, approximate="tanh"), MAP, nn.GELU("tanh")),
    (lambda f, x: f.glu(x, 1), MAP, nn.GLU(1)),
    (lambda f, x: f.hardshrink(x, 0.4), MAP, nn.Hardshrink(0.4)),
    (lambda f, x: f.hardsigmoid(x), MAP, nn.Hardsigmoid()),
    (lambda f, x: f.hardswish(x), MAP, nn.Hardswish()),
    (lambda f, x: f.hardtanh(x, -0.5, 0.25), MAP, nn.Hardtanh(-0.5, 0.25)),
    (lambda f, x: f.leaky_relu(x, 0.2), MAP, nn.LeakyReLU(0.2)),
    (lambda f, x: f.logsigmoid(x), MAP, nn.LogSigmoid()),
    (lambda f, x: f.mish(x), MAP, nn.Mish()),
    (lambda f, x: f.sigmoid(x), MAP, nn.Sigmoid()),
    (lambda f, x: f.silu(x), MAP, nn.SiLU()),
    (lambda f, x: f.softmin(x, dim=1), MAP, nn.Softmin(1)),
    (lambda f, x: f.softplus(x, 2, 1), MAP, nn.Softplus(2, 1)),
    (lambda f, x: f.softshrink(x, 0.4), MAP, nn.Softshrink(0.4)),
    (lambda f, x: f.softsign(x), MAP, nn.Softsign()),
    (lambda f, x: f.tanh(x), MAP, nn.Tanh()),
    (lambda f, x: f.tanhshrink(x), MAP, nn.Tanhshrink()),
    (lambda f, x: f.threshold(x, 0.2, -3), MAP, nn.Threshold(0.2, -3)),
    (lambda f, x: f.softmax(x, dim=1), MAP, nn.Softmax(1)),
    (lambda f, x: f.log_softmax(x, dim=-1), MAP, nn.LogSoftmax(-1)),
    (lambda f, x: f.max_pool1d(x, 3, 2), LINE, nn.MaxPool1d(3, 2)),
    (lambda f, x: f.max_pool2d(x, 3, 2, 1, 1, True), MAP, nn.MaxPool2d(3, 2, 1, ceil_mode=True)),
    (lambda f, x: f.max_pool3d(x, 2), BOX, nn.MaxPool3d(2)),
    (lambda f, x: f.avg_pool1d(x, 3), LINE, nn.AvgPool1d(3)),
    (lambda f, x: f.avg_pool2d(x, 3, 2, 1, False, False), MAP,
     nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
    (lambda f, x: f.avg_pool3d(x, 2), BOX, nn.AvgPool3d(2)),
    (lambda f, x: f.lp_pool1d(x, 2, 3), LINE, nn.LPPool1d(2, 3)),
    (lambda f, x: f.lp_pool2d(x, 2, 3, 2), MAP, nn.LPPool2d(2, 3, 2)),
    (lambda f, x: f.lp_pool3d(x, 2, 2), BOX, nn.LPPool3d(2, 2)),
    (lambda f, x: f.adaptive_avg_pool1d(x, 4), LINE, nn.AdaptiveAvgPool1d(4)),
    (lambda f, x: f.adaptive_avg_pool2d(x, (3, None)), MAP, nn.AdaptiveAvgPool2d((3, None))),
    (lambda f, x: f.adaptive_avg_pool3d(x, 1), BOX, nn.AdaptiveAvgPool3d(1)),
    (lambda f, x: f.adaptive_max_pool1d(x, 4), LINE, nn.AdaptiveMaxPool1d(4)),
    (lambda f, x: f.adaptive_max_pool2d(x, 2), MAP, nn.AdaptiveMaxPool2d(2)),
    (lambda f, x: f.adaptive_max_pool3d(x, 1), BOX, nn.AdaptiveMaxPool3d(1)),
    (lambda f, x: f.pixel_shuffle(x, 2), MAP, nn.PixelShuffle(2)),
    (lambda f, x: f.pixel_unshuffle(x, 1), MAP, nn.PixelUnshuffle(1)),
    (lambda f, x: f.pad(x, (1, 2)), MAP, nn.ConstantPad1d((1, 2))),
    (lambda f, x: f.pad(x, (1, 2, 0, 3), "constant", 1.5), MAP, nn.ConstantPad2d((1, 2, 0, 3), 1.5)),
    (lambda f, x: f.pad(x, (1, 2, 0, 3), mode="reflect"), MAP, nn.ReflectionPad2d((1, 2, 0, 3))),
    (lambda f, x: f.pad(x, (1, 2, 0, 3), mode="replicate"), MAP, nn.ReplicationPad2d((1, 2, 0, 3))),
    (lambda f, x: f.pad(x, (1, 2, 0, 3), mode="circular"), MAP, nn.CircularPad2d((1, 2, 0, 3))),
    (lambda f, x: f.interpolate(x, scale_factor=2), MAP, nn.Upsample(scale_factor=2)),
    (lambda f, x: f.interpolate(x, (9, 5), None, "bilinear", True), MAP,
     nn.Upsample((9, 5), mode="bilinear", align_corners=True)),
    (lambda f, x: f.local_response_norm(x, 3, 0.5), MAP, nn.LocalResponseNorm(3, 0.5)),
    (lambda f, x: f.dropout(x, 0.9, training=False), MAP, nn.Identity()),
]  # fmt: skip

# Those with weights; the second argument makes a weight of an array.
WEIGHTED: list[tuple[Callable[..., Any], tuple[int, ...]]] = [
    (lambda f, x, w: f.linear(x, w(WL), w(B[:5])), MAP),
    (lambda f, x, w: f.linear(x, w(WL)), (3, 6)),
    (lambda f, x, w: f.prelu(x, w(V)), MAP),
    (lambda f, x, w: f.conv1d(x, w(W1), w(B), 2, 1), LINE),
    (lambda f, x, w: f.conv2d(x, w(W2), None, (2, 1), (1, 0), (1, 2)), MAP),
    (lambda f, x, w: f.conv2d(x, w(W2), w(B), padding="same"), MAP),
    (lambda f, x, w: f.conv2d(x, w(W2), w(B), padding="valid"), MAP),
    (lambda f, x, w: f.conv2d(x, w(W2[:, :2].copy()), w(B), groups=2), MAP),
    (lambda f, x, w: f.conv3d(x, w(W3), w(B), 1, 1), BOX),
    (lambda f, x, w: f.conv_transpose1d(x, w(WT[..., 0].copy()), w(B), 2), LINE),
    (lambda f, x, w: f.conv_transpose2d(x, w(WT), w(B), 2, 1, 1), MAP),
    (lambda f, x, w: f.conv_transpose3d(x, w(WT[..., None].copy())), BOX),
    (lambda f, x, w: f.batch_norm(x, w(V), w(V), w(V), w(V), False, 0.1, 0.5), MAP),
    (lambda f, x, w: f.batch_norm(x, w(V), w(V)), MAP),
    (lambda f, x, w: f.layer_norm(x, (7, 6), None, None, 0.1), MAP),
    (lambda f, x, w: f.layer_norm(x, (6,), w(B), w(B)), MAP),
    (lambda f, x, w: f.rms_norm(x, (6,), w(B)), MAP),
    (lambda f, x, w: f.group_norm(x, 2, w(V), w(V)), MAP),
    (lambda f, x, w: f.instance_norm(x, weight=w(V), bias=w(V)), MAP),
    (lambda f, x, w: f.normalize(x), MAP),
    (lambda f, x, w: f.normalize(x, 2.0, -1), MAP),
    (lambda f, x, w: f.scaled_dot_product_attention(x, x, x), MAP),
    (lambda f, x, w: f.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3), MAP),
    (lambda f, x, w: f.scaled_dot_product_attention(x, x, x, w(np.tri(7, dtype=np.bool_))), MAP),
    (lambda f, x, w: f.grid_sample(x, w(np.tanh(X[:, :3, :5, :2].copy())), align_corners=False), MAP),
    (lambda f, x, w: f.channel_shuffle(x, 2), MAP),
    (lambda f, x, w: f.mse_loss(x, w(OTHER)), MAP),
    (lambda f, x, w: f.l1_loss(x, w(OTHER), reduction="none"), MAP),
    (lambda f, x, w: f.huber_loss(x, w(OTHER), delta=0.5), MAP),
    (lambda f, x, w: f.smooth_l1_loss(x, w(OTHER), reduction="sum", beta=0.5), MAP),
    (lambda f, x, w: f.binary_cross_entropy(f.sigmoid(x), w(SHARES)), MAP),
    (lambda f, x, w: f.binary_cross_entropy_with_logits(x, w(SHARES)), MAP),
    (lambda f, x, w: f.cross_entropy(x, w(LABELS), label_smoothing=0.1), MAP),
    (lambda f, x, w: f.nll_loss(f.log_softmax(x, dim=1), w(LABELS), reduction="none"), MAP),
]  # fmt: skip


def data(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(8).standard_normal(shape).astype(np.float32)


def computed(device: clcnn.Device, call: Callable[[Any], Any], shape: tuple[int, ...]) -> np.ndarray:
    graph = Graph()
    graph.output(call(graph.input("x", shape)), "y")
    with clcnn.compile(graph, device=device) as plan:
        y: np.ndarray = plan(data(shape))
        return y


@pytest.mark.parametrize("row", range(len(CALLS)))
def test_functions_are_those_of_layers(device: clcnn.Device, row: int) -> None:
    call, shape, layer = CALLS[row]
    y = computed(device, lambda x: call(F, x), shape)
    np.testing.assert_array_equal(y, computed(device, layer, shape))
    assert not np.array_equal(y, data(shape)) or isinstance(layer, (nn.Identity, nn.PixelUnshuffle))


def test_functions_are_those_of_torch(device: clcnn.Device) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.nn.functional
    rows = [(lambda f, x, w, call=call: call(f, x), shape) for call, shape, _ in CALLS] + WEIGHTED
    for call, shape in rows:
        wanted = call(theirs, torch.from_numpy(data(shape)), torch.from_numpy)
        y = computed(device, lambda x, call=call: call(F, x, lambda a: a), shape)
        np.testing.assert_allclose(y, wanted.numpy(), rtol=1e-4, atol=2e-5)


# What layers with the same weights give, for machines without torch.
LAYERS: list[tuple[Callable[[Any], Any], nn.Module, dict[str, np.ndarray], tuple[int, ...]]] = [
    (lambda x: F.linear(x, WL, B[:5]), nn.Linear(6, 5), {"weight": WL, "bias": B[:5]}, MAP),
    (lambda x: F.prelu(x, V), nn.PReLU(4), {"weight": V}, MAP),
    (lambda x: F.conv2d(x, W2, B, padding="same"), nn.Conv2d(4, 6, 3, padding=1),
     {"weight": W2, "bias": B}, MAP),
    (lambda x: F.conv2d(x, W2, None, (2, 1), (1, 0), (1, 2)),
     nn.Conv2d(4, 6, 3, (2, 1), (1, 0), (1, 2), bias=False), {"weight": W2}, MAP),
    (lambda x: F.conv1d(x, W1, B, 2, 1), nn.Conv1d(4, 6, 3, 2, 1), {"weight": W1, "bias": B}, LINE),
    (lambda x: F.conv_transpose2d(x, WT, B, 2, 1, 1), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1),
     {"weight": WT, "bias": B}, MAP),
    (lambda x: F.batch_norm(x, V, V, V, V, eps=0.5), nn.BatchNorm2d(4, 0.5),
     dict.fromkeys(("weight", "bias", "running_mean", "running_var"), V), MAP),
    (lambda x: F.layer_norm(x, (6,), B, B), nn.LayerNorm(6), {"weight": B, "bias": B}, MAP),
    (lambda x: F.rms_norm(x, (6,), B), nn.RMSNorm(6), {"weight": B}, MAP),
    (lambda x: F.group_norm(x, 2, V, V), nn.GroupNorm(2, 4), {"weight": V, "bias": V}, MAP),
    (lambda x: F.instance_norm(x, weight=V, bias=V), nn.InstanceNorm2d(4, affine=True),
     {"weight": V, "bias": V}, MAP),
]  # fmt: skip


@pytest.mark.parametrize("row", range(len(LAYERS)))
def test_weights_are_arguments(device: clcnn.Device, row: int) -> None:
    call, layer, state, shape = LAYERS[row]
    layer.load_state_dict(state)
    np.testing.assert_array_equal(computed(device, call, shape), computed(device, layer, shape))


def test_every_function_is_tried() -> None:
    text = inspect.getsource(inspect.getmodule(test_every_function_is_tried) or F)
    assert [name for name in F.__all__ if f"f.{name}(" not in text] == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: F.pad(x, (1,)), "expected 2, 4 or 6 numbers"),
        (lambda x: F.pad(x, (1, 1), "mirror"), "mode='mirror' is none of 'constant'"),
        (lambda x: F.pad(x, (1, 1), "reflect", 2.0), "a value is for mode='constant'"),
        (lambda x: F.grid_sample(x, x, mode="cubic"), "mode='cubic' is none of 'bilinear'"),
        (lambda x: F.avg_pool1d(x, 2), r"AvgPool1d : input .* must have rank 3"),
        (lambda x: F.max_pool3d(x, 2), r"MaxPool3d : input .* must have rank 5"),
        (lambda x: F.lp_pool1d(x, 2, 2), r"LPPool1d : input .* must have rank 3"),
        (lambda x: F.adaptive_avg_pool1d(x, 2), r"AdaptiveAvgPool1d : input .* must have rank 3"),
        (lambda x: F.rms_norm(x, 7), r"rms_norm: input .* must end in \[7\]"),
        (lambda x: F.conv2d(x, W1), r"conv2d: input .* must have rank 4"),
        (lambda x: F.conv2d(x, W2, padding="full"), "padding='full' must be"),
        (lambda x: F.conv2d(x, W2, stride=2, padding="same"), "padding='same' needs stride 1"),
        (lambda x: F.batch_norm(x, V, V, training=True), "use nn.BatchNorm2d"),
        (lambda x: F.instance_norm(x, V, V), "running statistics are not offered"),
        (lambda x: F.layer_norm(x, (7,)), r"layer_norm: input .* must end in \[7\]"),
        (lambda x: F.normalize(x, 1.0), "p=1.0"),
        (lambda x: F.interpolate(x, 2, antialias=True), "antialias=True"),
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1), "dropout_p=0.1"),
    ],
)
def test_what_is_refused(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call(Graph().input("x", MAP))
    assert isinstance(caught.value, clcnn.Error)
