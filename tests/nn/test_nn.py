"""Layers: values against the float64 definitions, and what is said of bad arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn
from clcnn._reference import REFERENCE
from clcnn.graph import trace
from tolerance import compare

R = REFERENCE
Wanted = Callable[..., Any]
BATCH_NORM = ("weight", "bias", "running_mean", "running_var")
MAP = (2, 4, 7, 6)


def with_params(op: str, names: tuple[str, ...], **attrs: Any) -> Wanted:
    """The definition of `op` on the input and the layer's parameters of these names."""
    return lambda x, state: R[op](x, *(state[name] for name in names), **attrs)


def plain(op: str, **attrs: Any) -> Wanted:
    return lambda x, state: R[op](x, **attrs)


def conv(op: str = "conv", bias: bool = True, **attrs: Any) -> Wanted:
    return with_params(op, ("weight", "bias") if bias else ("weight",), **attrs)


# A layer, its input's shape, the operator whose tolerance holds, and the definition with its attributes.
LAYERS: list[tuple[nn.Module, tuple[int, ...], str, Wanted]] = [
    (nn.Conv1d(4, 6, 3, stride=2), (2, 4, 9), "conv", conv(stride=[2])),
    (nn.Conv2d(4, 6, 3), MAP, "conv", conv()),
    (nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2, False), MAP, "conv",
     conv(bias=False, stride=[2, 1], padding=[1, 0], dilation=[1, 2], groups=2)),
    (nn.Conv2d(4, 4, 3, padding="same", groups=4), MAP, "conv", conv(padding=[1, 1], groups=4)),
    (nn.Conv2d(4, 6, 4, padding="same", dilation=(1, 2)), MAP, "conv",
     conv(padding=[1, 3, 2, 3], dilation=[1, 2])),
    (nn.Conv2d(4, 6, 3, padding="valid"), MAP, "conv", conv()),
    (nn.Conv3d(2, 3, 2, padding=1), (1, 2, 3, 4, 5), "conv", conv(padding=[1, 1, 1])),
    (nn.ConvTranspose1d(4, 6, 3, stride=2), (2, 4, 5), "conv_transpose", conv("conv_transpose", stride=[2])),
    (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, 2), MAP, "conv_transpose",
     conv("conv_transpose", stride=[2, 2], padding=[1, 1], output_padding=[1, 1], groups=2)),
    (nn.ConvTranspose3d(2, 3, 2, bias=False), (1, 2, 3, 4, 5), "conv_transpose",
     conv("conv_transpose", bias=False)),
    (nn.Linear(6, 5), (3, 2, 6), "linear", with_params("linear", ("weight", "bias"))),
    (nn.Linear(6, 5, bias=False), (3, 6), "linear", with_params("linear", ("weight",))),
    (nn.MaxPool1d(2), (2, 4, 9), "max_pool", plain("max_pool", kernel_size=[2], stride=[2])),
    (nn.MaxPool2d(3, 2, 1, ceil_mode=True), MAP, "max_pool",
     plain("max_pool", kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], ceil_mode=True)),
    (nn.MaxPool2d(2, 1, dilation=2), MAP, "max_pool",
     plain("max_pool", kernel_size=[2, 2], stride=[1, 1], dilation=[2, 2])),
    (nn.MaxPool3d(2), (1, 2, 4, 4, 4), "max_pool", plain("max_pool", kernel_size=[2] * 3, stride=[2] * 3)),
    (nn.AvgPool1d(3, padding=1), (2, 4, 9), "avg_pool",
     plain("avg_pool", kernel_size=[3], stride=[3], padding=[1], count_include_pad=True)),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), MAP, "avg_pool",
     plain("avg_pool", kernel_size=[3, 3], stride=[2, 2], padding=[1, 1], count_include_pad=False)),
    (nn.AvgPool3d(2), (1, 2, 4, 4, 4), "avg_pool", plain("avg_pool", kernel_size=[2] * 3, stride=[2] * 3)),
    (nn.AdaptiveAvgPool1d(4), (2, 4, 9), "adaptive_avg_pool", plain("adaptive_avg_pool", output_size=[4])),
    (nn.AdaptiveAvgPool2d((3, None)), MAP, "adaptive_avg_pool",
     plain("adaptive_avg_pool", output_size=[3, 6])),
    (nn.AdaptiveMaxPool2d(1), MAP, "adaptive_max_pool", plain("adaptive_max_pool", output_size=[1, 1])),
    (nn.AdaptiveAvgPool3d(1), (1, 2, 4, 4, 4), "adaptive_avg_pool",
     plain("adaptive_avg_pool", output_size=[1] * 3)),
    (nn.BatchNorm1d(4), (3, 4), "batch_norm", with_params("batch_norm", BATCH_NORM)),
    (nn.BatchNorm2d(4, eps=0.1), MAP, "batch_norm", with_params("batch_norm", BATCH_NORM, eps=0.1)),
    (nn.BatchNorm3d(2, affine=False), (1, 2, 3, 3, 3), "batch_norm",
     lambda x, s: R["batch_norm"](x, np.ones(2), np.zeros(2), s["running_mean"], s["running_var"])),
    (nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0), MAP, "local_response_norm",
     plain("local_response_norm", size=3, alpha=0.5, beta=0.6, k=2.0)),
    (nn.ReLU(inplace=True), MAP, "relu", plain("relu")),
    (nn.ReLU6(), MAP, "relu6", plain("relu6")),
    (nn.LeakyReLU(0.2), MAP, "leaky_relu", plain("leaky_relu", negative_slope=0.2)),
    (nn.PReLU(4), MAP, "prelu", lambda x, s: R["prelu"](x, s["weight"])),
    (nn.PReLU(init=0.4), MAP, "prelu", lambda x, s: R["prelu"](x, s["weight"])),
    (nn.ELU(0.7), MAP, "elu", plain("elu", alpha=0.7)),
    (nn.GELU(), MAP, "gelu", plain("gelu")),
    (nn.GELU("tanh"), MAP, "gelu", plain("gelu", approximate="tanh")),
    (nn.Sigmoid(), MAP, "sigmoid", plain("sigmoid")),
    (nn.Tanh(), MAP, "tanh", plain("tanh")),
    (nn.SiLU(), MAP, "silu", plain("silu")),
    (nn.Hardswish(), MAP, "hard_swish", plain("hard_swish")),
    (nn.Hardsigmoid(), MAP, "hard_sigmoid", plain("hard_sigmoid")),
    (nn.Hardtanh(), MAP, "clip", plain("clip", min=-1.0, max=1.0)),
    (nn.Hardtanh(-0.5, 2.0), MAP, "clip", plain("clip", min=-0.5, max=2.0)),
    (nn.Softmax(dim=1), MAP, "softmax", plain("softmax", dim=1)),
    (nn.LogSoftmax(1), MAP, "log_softmax", plain("log_softmax", dim=1)),
    (nn.Flatten(), MAP, "flatten", lambda x, s: x.reshape(2, 168)),
    (nn.Flatten(0, 2), MAP, "flatten", lambda x, s: x.reshape(56, 6)),
    (nn.Unflatten(1, (2, 2)), MAP, "reshape", lambda x, s: x.reshape(2, 2, 2, 7, 6)),
    (nn.Unflatten(-1, (3, -1)), MAP, "reshape", lambda x, s: x.reshape(2, 4, 7, 3, 2)),
    (nn.Identity(54, unused=True), MAP, "identity", lambda x, s: x),
    (nn.Dropout(0.9), MAP, "dropout", lambda x, s: x),
    (nn.Dropout2d(), MAP, "dropout", lambda x, s: x),
    (nn.ZeroPad2d((1, 2, 3, 0)), MAP, "pad", lambda x, s: np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)])),
    (nn.ZeroPad2d(1), MAP, "pad", lambda x, s: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])),
    (nn.ConstantPad1d((2, 0), 1.5), (2, 4, 9), "pad",
     lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 0)], constant_values=1.5)),
    (nn.ConstantPad2d((-1, 1, -2, 0), 3.0), MAP, "pad",
     lambda x, s: np.pad(x[:, :, 2:, 1:], [(0, 0), (0, 0), (0, 0), (0, 1)], constant_values=3.0)),
    (nn.Upsample(scale_factor=2), MAP, "resize", lambda x, s: x.repeat(2, 2).repeat(2, 3)),
    (nn.UpsamplingNearest2d(size=(3, 4)), MAP, "resize",
     lambda x, s: x[:, :, [0, 2, 4]][:, :, :, [0, 1, 3, 4]]),
    (nn.Upsample((9, 5), mode="bilinear"), MAP, "resize",
     plain("resize", size=[9, 5], mode="linear", coordinates="half_pixel")),
    (nn.UpsamplingBilinear2d(scale_factor=1.5), MAP, "resize",
     plain("resize", scales=[1.5, 1.5], mode="linear", coordinates="align_corners")),
    (nn.Conv2d(4, 6, 3, padding=(1, 2), padding_mode="reflect"), MAP, "conv",
     lambda x, s: R["conv"](np.pad(x, [(0, 0), (0, 0), (1, 1), (2, 2)], "reflect"), s["weight"], s["bias"])),
    (nn.Conv1d(4, 6, 4, padding="same", padding_mode="circular"), (2, 4, 9), "conv",
     lambda x, s: R["conv"](np.pad(x, [(0, 0), (0, 0), (1, 2)], "wrap"), s["weight"], s["bias"])),
    (nn.GroupNorm(2, 4), MAP, "group_norm", with_params("group_norm", ("weight", "bias"), groups=2)),
    (nn.GroupNorm(4, 4, eps=0.1, affine=False), (2, 4, 9), "group_norm",
     plain("group_norm", groups=4, eps=0.1)),
    (nn.InstanceNorm1d(4), (2, 4, 9), "instance_norm", plain("instance_norm")),
    (nn.InstanceNorm2d(4, eps=0.1, affine=True), MAP, "instance_norm",
     with_params("instance_norm", ("weight", "bias"), eps=0.1)),
    (nn.InstanceNorm3d(2), (1, 2, 3, 3, 3), "instance_norm", plain("instance_norm")),
    (nn.LayerNorm(6), (3, 5, 6), "layer_norm", with_params("layer_norm", ("weight", "bias"), dim=-1)),
    (nn.LayerNorm((7, 6), eps=0.1, bias=False), MAP, "layer_norm",
     with_params("layer_norm", ("weight",), dim=-2, eps=0.1)),
    (nn.LayerNorm([6], elementwise_affine=False), MAP, "layer_norm", plain("layer_norm", dim=-1)),
    (nn.RMSNorm((7, 6)), MAP, "rms_norm", with_params("rms_norm", ("weight",), dim=-2, eps=2.0**-23)),
    (nn.RMSNorm(6, 0.1, elementwise_affine=False), MAP, "rms_norm", plain("rms_norm", dim=-1, eps=0.1)),
    (nn.CELU(0.7), MAP, "celu", plain("celu", alpha=0.7)),
    (nn.SELU(), MAP, "selu", plain("selu")),
    (nn.Mish(), MAP, "mish", plain("mish")),
    (nn.Softplus(), MAP, "softplus", plain("softplus")),
    (nn.Softplus(2.0), MAP, "softplus", lambda x, s: np.log1p(np.exp(2 * x)) / 2),
    (nn.Softplus(2.0, 1.0), MAP, "softplus",
     lambda x, s: np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2)),
    (nn.Softsign(), MAP, "softsign", plain("softsign")),
    (nn.LogSigmoid(), MAP, "softplus", lambda x, s: -np.log1p(np.exp(-x))),
    (nn.Tanhshrink(), MAP, "linear", lambda x, s: x - np.tanh(x)),
    (nn.Hardshrink(0.4), MAP, "shrink", plain("shrink", lambd=0.4)),
    (nn.Softshrink(0.375), MAP, "shrink", plain("shrink", lambd=0.375, bias=0.375)),
    (nn.Threshold(0.2, -3.0), MAP, "where", lambda x, s: np.where(x > np.float32(0.2), x, -3)),
    (nn.RReLU(0.1, 0.3), MAP, "leaky_relu", plain("leaky_relu", negative_slope=0.2)),
    (nn.GLU(), MAP, "sigmoid", lambda x, s: x[..., :3] / (1 + np.exp(-x[..., 3:]))),
    (nn.GLU(1), MAP, "sigmoid", lambda x, s: x[:, :2] / (1 + np.exp(-x[:, 2:]))),
    (nn.Softmax2d(), MAP, "softmax", plain("softmax", dim=1)),
    (nn.Softmin(1), MAP, "softmax", lambda x, s: R["softmax"](-x, dim=1)),
    (nn.LPPool1d(2, 3), (2, 4, 9), "lp_pool", plain("lp_pool", kernel_size=[3], p=2)),
    (nn.LPPool2d(4, (3, 2), 2, True), MAP, "lp_pool",
     plain("lp_pool", kernel_size=[3, 2], stride=[2, 2], ceil_mode=True, p=4)),
    (nn.PixelShuffle(2), (2, 8, 3, 5), "reshape",
     lambda x, s: x.reshape(2, 2, 2, 2, 3, 5).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 6, 10)),
    (nn.PixelUnshuffle(3), (2, 2, 6, 9), "reshape",
     lambda x, s: x.reshape(2, 2, 2, 3, 3, 3).transpose(0, 1, 3, 5, 2, 4).reshape(2, 18, 2, 3)),
    (nn.ChannelShuffle(2), MAP, "reshape", lambda x, s: x[:, [0, 2, 1, 3]]),
    (nn.ReflectionPad1d((2, 1)), (2, 4, 9), "pad",
     lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 1)], "reflect")),
    (nn.ReflectionPad2d((1, 2, 3, 0)), MAP, "pad",
     lambda x, s: np.pad(x, [(0, 0), (0, 0), (3, 0), (1, 2)], "reflect")),
    (nn.ReplicationPad2d(2), MAP, "pad", lambda x, s: np.pad(x, [(0, 0), (0, 0), (2, 2), (2, 2)], "edge")),
    (nn.CircularPad2d((1, 0, 0, 2)), MAP, "pad",
     lambda x, s: np.pad(x, [(0, 0), (0, 0), (0, 2), (1, 0)], "wrap")),
    (nn.Upsample(scale_factor=1.5, mode="bicubic"), MAP, "resize",
     plain("resize", scales=[1.5, 1.5], mode="cubic", coordinates="half_pixel")),
    (nn.Upsample(scale_factor=1.5, mode="bilinear", recompute_scale_factor=True), MAP, "resize",
     plain("resize", size=[10, 9], mode="linear", coordinates="half_pixel")),
    (nn.Upsample((3, 4), mode="nearest-exact"), MAP, "resize",
     lambda x, s: x[:, :, [1, 3, 5]][:, :, :, [0, 2, 3, 5]]),
    (nn.Upsample(scale_factor=(2.0,), mode="linear"), (2, 4, 9), "resize",
     plain("resize", scales=[2.0], mode="linear", coordinates="half_pixel")),
]  # fmt: skip


def with_random_statistics(layer: nn.Module) -> dict[str, np.ndarray]:
    """The layer's state, with values for what starts as all zeros or all ones."""
    rng = np.random.default_rng(3)
    state = layer.state_dict()
    if "running_var" in state:
        state = {
            name: (np.abs(rng.standard_normal(a.shape)) + 0.5).astype(np.float32) for name, a in state.items()
        }
        layer.load_state_dict(state)
    return state


@pytest.mark.parametrize(
    ("layer", "shape", "op", "wanted"),
    LAYERS,
    ids=[f"{i}-{type(row[0]).__name__}" for i, row in enumerate(LAYERS)],
)
def test_values(
    device: clcnn.Device, layer: nn.Module, shape: tuple[int, ...], op: str, wanted: Wanted
) -> None:
    state = with_random_statistics(layer)
    x = np.random.default_rng(8).standard_normal(shape).astype(np.float32)
    with clcnn.compile(layer, shape, device) as plan:
        compare(plan(x), wanted(x.astype(np.float64), state), op, trust=False)


def test_every_layer_has_a_value_test() -> None:
    aliases = {"Dropout1d", "Dropout3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool3d", "ConstantPad3d"}
    aliases |= {
        "ZeroPad1d",
        "ZeroPad3d",
        "LPPool3d",
        "ReflectionPad3d",
        "ReplicationPad1d",
        "ReplicationPad3d",
    }
    aliases |= {"CircularPad1d", "CircularPad3d"}  # tried by test_shapes
    aliases |= {"Embedding", "MultiheadAttention"}  # of several inputs or whole numbers: test_attention.py
    containers = {"Module", "ModuleDict", "ModuleList", "Parameter", "Sequential"}
    losses = {name for name in nn.__all__ if name.endswith("Loss")}  # tried by tests/train
    offered = {name for name in nn.__all__ if name[0].isupper()}
    assert offered - {type(row[0]).__name__ for row in LAYERS} == aliases | containers | losses


@pytest.mark.parametrize(
    ("layer", "shape", "out"),
    [
        (nn.Dropout1d(), (2, 4, 9), (2, 4, 9)),
        (nn.Dropout3d(), (1, 2, 3, 3, 3), (1, 2, 3, 3, 3)),
        (nn.AdaptiveMaxPool1d(3), (2, 4, 9), (2, 4, 3)),
        (nn.AdaptiveMaxPool3d((1, 2, None)), (1, 2, 4, 4, 4), (1, 2, 1, 2, 4)),
        (nn.ConstantPad3d((1, 0, 2, 0, 3, 0), 1.0), (1, 2, 4, 4, 4), (1, 2, 7, 6, 5)),
        (nn.ZeroPad1d((1, 3)), (2, 4, 9), (2, 4, 13)),
        (nn.ZeroPad3d(1), (1, 2, 4, 4, 4), (1, 2, 6, 6, 6)),
        (nn.LPPool3d(2, 2), (1, 2, 4, 4, 4), (1, 2, 2, 2, 2)),
        (nn.ReflectionPad3d(1), (1, 2, 4, 4, 4), (1, 2, 6, 6, 6)),
        (nn.ReplicationPad1d(5), (1, 2, 4), (1, 2, 14)),
        (nn.ReplicationPad3d((1, 0, 0, 0, 0, 2)), (1, 2, 4, 4, 4), (1, 2, 6, 4, 5)),
        (nn.CircularPad1d(3), (1, 2, 4), (1, 2, 10)),
        (nn.CircularPad3d(1), (1, 2, 4, 4, 4), (1, 2, 6, 6, 6)),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else None,
)
def test_shapes(layer: nn.Module, shape: tuple[int, ...], out: tuple[int, ...]) -> None:
    assert trace(layer, shape).outputs["output"].shape == out


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
def test_layers_agree_with_torch(device: clcnn.Device) -> None:
    torch = pytest.importorskip("torch")
    layers = [
        ("Conv2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}),
        ("Conv2d", (4, 6, 4), {"padding": "same"}),
        ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
        ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}),
        ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}),
        ("AdaptiveAvgPool2d", ((3, 5),), {}),
        ("BatchNorm2d", (4,), {}),
        ("LocalResponseNorm", (3,), {}),
        ("PReLU", (4,), {}),
        ("Upsample", (), {"scale_factor": 1.5, "mode": "nearest"}),
        ("Upsample", (), {"size": (9, 5), "mode": "bilinear", "align_corners": True}),
        ("Upsample", (), {"scale_factor": 1.7, "mode": "bicubic"}),
        ("Upsample", (), {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True}),
        ("Upsample", (), {"size": (3, 11), "mode": "nearest-exact"}),
        ("Conv2d", (4, 6, 3), {"padding": (1, 2), "padding_mode": "reflect"}),
        ("Conv2d", (4, 6, 4), {"padding": "same", "padding_mode": "circular"}),
        ("Conv2d", (4, 6, 3), {"padding": 2, "padding_mode": "replicate", "stride": 2}),
        ("GroupNorm", (2, 4), {}),
        ("InstanceNorm2d", (4,), {"affine": True}),
        ("LayerNorm", ((7, 6),), {}),
        ("RMSNorm", (6,), {}),
        ("Softplus", (2.0, 1.0), {}),
        ("LogSigmoid", (), {}),
        ("Hardshrink", (0.4,), {}),
        ("Softshrink", (0.4,), {}),
        ("Threshold", (0.2, -3.0), {}),
        ("RReLU", (), {}),
        ("GLU", (1,), {}),
        ("Softmin", (1,), {}),
        ("LPPool2d", (2, 3, 2), {}),
        ("PixelShuffle", (2,), {}),
        ("PixelUnshuffle", (1,), {}),
        ("ChannelShuffle", (2,), {}),
        ("ReflectionPad2d", ((1, 2, 3, 0),), {}),
        ("ReplicationPad2d", ((1, 2, 3, 0),), {}),
        ("CircularPad2d", ((1, 2, 3, 0),), {}),
    ]
    x = np.random.default_rng(8).standard_normal(MAP).astype(np.float32)
    for name, args, kwargs in layers:
        theirs = getattr(torch.nn, name)(*args, **kwargs).eval()
        ours = getattr(nn, name)(*args, **kwargs)
        ours.load_state_dict({key: value.numpy() for key, value in theirs.state_dict().items()})
        with clcnn.compile(ours, MAP, device) as plan, torch.no_grad():
            np.testing.assert_allclose(plan(x), theirs(torch.from_numpy(x)).numpy(), rtol=1e-4, atol=1e-5)


# ---- bad arguments ----


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: nn.Conv2d(0, 4, 3), clcnn.ArgumentError,
         "Conv2d: in_channels=0 must be an int of at least 1"),
        (lambda: nn.Conv2d(4, 2.5, 3), clcnn.ArgumentError, "Conv2d: out_channels=2.5 must be an int"),
        (lambda: nn.Conv2d(4, 4, 3, groups=3), clcnn.ArgumentError,
         "Conv2d: in_channels=4 is not divisible by groups=3"),
        (lambda: nn.Conv2d(4, 6, 3, groups=4), clcnn.ArgumentError,
         "Conv2d: out_channels=6 is not divisible by groups=4"),
        (lambda: nn.Conv2d(4, 4, (3, 3, 3)), clcnn.ArgumentError,
         r"Conv2d: kernel_size=\(3, 3, 3\) has 3 entries, expected 2"),
        (lambda: nn.Conv2d(4, 4, 3, stride=0), clcnn.ArgumentError,
         "Conv2d: stride=0: every entry must be at least 1"),
        (lambda: nn.Conv2d(4, 4, 3, padding=-1), clcnn.ArgumentError,
         "Conv2d: padding=-1: every entry must be at least 0"),
        (lambda: nn.Conv2d(4, 4, 3, padding="full"), clcnn.ArgumentError,
         "Conv2d: padding='full' must be 'same', 'valid' or ints"),
        (lambda: nn.Conv2d(4, 4, 3, 2, "same"), clcnn.ArgumentError, "Conv2d: padding='same' needs stride 1"),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="mirror"), clcnn.ArgumentError,
         "Conv2d: padding_mode='mirror' is none of 'zeros', 'reflect'"),
        (lambda: nn.ConvTranspose2d(4, 4, 3, padding_mode="reflect"), clcnn.ArgumentError,
         "ConvTranspose2d: padding_mode='reflect' is none of 'zeros'"),
        (lambda: nn.GroupNorm(3, 4), clcnn.ArgumentError, "GroupNorm: num_channels=4 is not divisible by 3"),
        (lambda: nn.InstanceNorm2d(4, track_running_stats=True), clcnn.UnsupportedError,
         "InstanceNorm2d: track_running_stats=True"),
        (lambda: nn.LayerNorm((4, 0)), clcnn.ArgumentError, "LayerNorm: normalized_shape=0 must be"),
        (lambda: nn.Softplus(0.0), clcnn.ArgumentError, "Softplus: beta=0.0 must be above 0"),
        (lambda: nn.Softshrink(-1.0), clcnn.ArgumentError, "Softshrink: lambd=-1.0 must be at least 0"),
        (lambda: nn.PixelShuffle(0), clcnn.ArgumentError, "PixelShuffle: upscale_factor=0 must be"),
        (lambda: nn.LPPool2d(0, 2), clcnn.ArgumentError, "LPPool2d: norm_type=0 must be"),
        (lambda: nn.Conv2d(3), TypeError, r"^Conv2d\(\) missing 2 required positional arguments"),
        (lambda: nn.ReflectionPad2d(), TypeError, r"^ReflectionPad2d\(\) missing 1 required"),
        (lambda: nn.Conv2d(3, 4, 3, strides=2), TypeError,
         r"^Conv2d\(\) got an unexpected keyword .*'strides'"),
        (lambda: clcnn.ops.conv(), TypeError, r"^conv\(\): missing a required argument: 'x'"),
        (lambda: nn.ModuleDict({"a": 3}), clcnn.ArgumentError, "'a' is no Module but int"),
        (lambda: nn.ModuleList([nn.ReLU()])[1], IndexError, "ModuleList: 1 is outside, it has 1 modules"),
        (lambda: nn.ConvTranspose2d(4, 4, 3, padding="same"), clcnn.ArgumentError,
         "ConvTranspose2d: padding='same' must be ints"),
        (lambda: nn.Linear(0, 4), clcnn.ArgumentError, "Linear: in_features=0 must be an int of at least 1"),
        (lambda: nn.MaxPool2d(2, padding=2), clcnn.ArgumentError,
         "MaxPool2d: padding=.* must be at most half of"),
        (lambda: nn.Embedding(0, 4), clcnn.ArgumentError, "Embedding: num_embeddings=0 must be"),
        (lambda: nn.Embedding(3, 4, 3), clcnn.ArgumentError, "Embedding: padding_idx=3 is outside 3 rows"),
        (lambda: nn.Embedding(3, 4, max_norm=1.0), clcnn.UnsupportedError,
         "Embedding: max_norm=1.0 is not offered"),
        (lambda: nn.MultiheadAttention(8, 3), clcnn.ArgumentError,
         "MultiheadAttention: embed_dim=8 is not divisible by num_heads=3"),
        (lambda: nn.MultiheadAttention(8, 2, dropout=2.0), clcnn.ArgumentError,
         r"MultiheadAttention: dropout=2.0 must lie in \[0, 1\]"),
        (lambda: nn.MultiheadAttention(8, 2, add_zero_attn=True), clcnn.UnsupportedError,
         "MultiheadAttention: add_zero_attn=True is not offered"),
        (lambda: nn.AvgPool2d(2, divisor_override=3), clcnn.UnsupportedError,
         "AvgPool2d: divisor_override is not offered"),
        (lambda: nn.AdaptiveAvgPool2d((1, 2, 3)), clcnn.ArgumentError,
         "AdaptiveAvgPool2d: output_size=.* has 3 entries"),
        (lambda: nn.BatchNorm2d(4, track_running_stats=False), clcnn.UnsupportedError,
         "BatchNorm2d: track_running_stats=False"),
        (lambda: nn.Dropout(1.5), clcnn.ArgumentError, r"Dropout: p=1.5 must lie in \[0, 1\]"),
        (lambda: nn.Upsample(), clcnn.ArgumentError, "Upsample: give either size or scale_factor"),
        (lambda: nn.Upsample(2, mode="cubic"), clcnn.ArgumentError, "Upsample: mode='cubic' must be one of"),
        (lambda: nn.Upsample(2, align_corners=True), clcnn.ArgumentError,
         "Upsample: align_corners is only for"),
        (lambda: nn.PReLU(unknown=1), TypeError, r"PReLU: unexpected arguments \['unknown'\]"),
        (lambda: nn.Sequential({"a.b": nn.ReLU()}), clcnn.ArgumentError,
         "module name 'a.b': must not be empty"),
        (lambda: nn.Sequential("relu"), clcnn.ArgumentError, "'0' is no Module but str"),
    ],
)  # fmt: skip
def test_bad_arguments(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("model", "shape", "error", "message"),
    [
        (nn.Sequential({"stem": nn.Conv2d(3, 4, 3)}), (1, 5, 8, 8), clcnn.ShapeError, "conv stem: .*5"),
        (
            nn.Sequential({"stem": nn.Conv2d(3, 4, 9)}),
            (1, 3, 8, 8),
            clcnn.ShapeError,
            "conv stem: .*kernel 9",
        ),
        (nn.Sequential({"fc": nn.Linear(8, 4)}), (1, 3, 9), clcnn.ShapeError, "linear fc: .*9"),
        (
            nn.Sequential({"norm": nn.BatchNorm2d(3)}),
            (1, 3, 9),
            clcnn.ShapeError,
            "BatchNorm2d norm: .*rank 4",
        ),
        (
            nn.Sequential({"pool": nn.AdaptiveAvgPool2d(1)}),
            (1, 3, 9),
            clcnn.ShapeError,
            "AdaptiveAvgPool2d pool",
        ),
        (
            nn.Sequential({"pad": nn.ZeroPad3d(1)}),
            (3, 9),
            clcnn.ShapeError,
            "ZeroPad3d pad: .*too few dimensions",
        ),
        (
            nn.Sequential({"ln": nn.LayerNorm((8, 8))}),
            (1, 3, 9, 8),
            clcnn.ShapeError,
            r"LayerNorm ln: input .* must end in \[8, 8\]",
        ),
        (
            nn.Sequential({"gn": nn.GroupNorm(2, 4)}),
            (1, 3, 9),
            clcnn.ShapeError,
            "GroupNorm gn: input .* must have 4 channels",
        ),
        (
            nn.Sequential({"inorm": nn.InstanceNorm1d(3)}),
            (1, 3, 9, 9),
            clcnn.ShapeError,
            "InstanceNorm1d inorm: .*rank 3",
        ),
        (
            nn.Sequential({"up": nn.PixelShuffle(2)}),
            (1, 6, 4, 4),
            clcnn.ShapeError,
            "PixelShuffle up: .*2\\^2",
        ),
        (
            nn.Sequential({"down": nn.PixelUnshuffle(2)}),
            (1, 6, 5, 4),
            clcnn.ShapeError,
            "PixelUnshuffle down",
        ),
        (
            nn.Sequential({"mix": nn.ChannelShuffle(2)}),
            (1, 3, 4, 4),
            clcnn.ShapeError,
            "ChannelShuffle mix: .*groups=2",
        ),
        (nn.Sequential({"gate": nn.GLU()}), (1, 3), clcnn.ShapeError, "GLU gate: .*has no halves"),
        (nn.Sequential({"part": nn.Unflatten(4, (2, 2))}), (3, 9), clcnn.ShapeError, "Unflatten part: dim=4"),
        (nn.Sequential(), (1, 3), clcnn.ArgumentError, "Sequential: the model is empty"),
    ],
    ids=str,
)
def test_shapes_that_do_not_fit_name_the_layer(
    model: nn.Module, shape: tuple[int, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        trace(model, shape)


def test_modules_refuse_arrays() -> None:
    with pytest.raises(
        TypeError, match=r"ReLU: called on ndarray; modules take symbolic values\. Use plan ="
    ):
        nn.ReLU()(np.zeros(3, np.float32))
