"""The nets of the zoo: sizes, multiply-adds, state-dict names, weights from files. Needs no device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import clcnn
from clcnn import nn, zoo
from clcnn.graph import Graph, trace
from clcnn.image import PRESETS
from clcnn.weights import save_npz, save_safetensors

WEIGHTED = ("conv", "linear")


class Figures(NamedTuple):
    """What a net must come to: convolutions, fully connected layers, 1e9 multiply-adds of both, 1e6 weights
    without those of batch norms."""

    convs: int
    linears: int
    gmacs: float
    mweights: float


# Published figures: of the nets' papers, and of the benchmarks that made them comparable.
FIGURES = {
    "alexnet": Figures(5, 3, 0.714, 61.1),
    "overfeat": Figures(5, 3, 2.801, 145.9),
    "vgg_a": Figures(8, 3, 7.609, 132.9),
    "vgg16": Figures(13, 3, 15.470, 138.4),
    "vgg19": Figures(16, 3, 19.632, 143.7),
    "resnet18": Figures(20, 1, 1.814, 11.7),
    "resnet50": Figures(53, 1, 4.089, 25.5),
    "densenet121": Figures(120, 1, 2.834, 7.9),
    "regnet_x_16gf": Figures(71, 1, 15.941, 54.2),
    "mobilenet_v1": Figures(27, 1, 0.569, 4.2),
    "efficientnet_lite0": Figures(49, 1, 0.385, 4.6),
}


def traced(net: nn.Module, shape: tuple[int, ...]) -> Graph:
    """The net's graph, its weights zero: untouched memory of zeros costs nothing."""
    for parameter in net.parameters():
        parameter.data = np.zeros(parameter.shape, np.float32)
    return trace(net, shape)


def figures(net: nn.Module, shape: tuple[int, ...]) -> Figures:
    rows = traced(net, shape).rows()
    count = {op: sum(row.op == op for row in rows) for op in WEIGHTED}
    weighted = [row for row in rows if row.op in WEIGHTED]
    gmacs = round(sum(row.macs for row in weighted) / 1e9, 3)
    return Figures(
        count["conv"], count["linear"], gmacs, round(sum(row.parameters for row in weighted) / 1e6, 1)
    )


@pytest.mark.parametrize("name", FIGURES)
def test_figures(name: str) -> None:
    net = zoo.find(name)
    assert figures(net.build(), (1, *net.input_shape)) == FIGURES[name]


def test_figures_of_variants() -> None:
    image = (1, 3, 224, 224)
    assert figures(zoo.googlenet(variant="v1"), image) == Figures(57, 1, 1.583, 7.0)
    assert figures(zoo.resnet18(caffe=True), image) == Figures(21, 1, 1.827, 11.7)
    assert figures(zoo.googlenet(), image)[:2] == (57, 1)
    assert figures(zoo.lenet5(), (1, 1, 28, 28)) == Figures(2, 3, 0.0, 0.1)


def test_lenet5_has_exactly_as_many_weights_as_published() -> None:
    assert sum(parameter.size for parameter in zoo.lenet5().parameters()) == 61_706


@pytest.mark.parametrize("name", zoo.NETS)
def test_every_net_gives_logits_at_any_batch_size(name: str) -> None:
    net = zoo.find(name)
    classes = 10 if net.preset == "digits" else 1000
    graph = traced(net.build(), (3, *net.input_shape))
    assert {k: v.shape for k, v in graph.outputs.items()} == {"output": (3, classes)}
    assert net.preset in PRESETS
    assert PRESETS[net.preset].grey == (net.input_shape[0] == 1)


def test_num_classes() -> None:
    for name, net in zoo.NETS.items():
        graph = traced(net.build(num_classes=7), (1, *net.input_shape))
        assert graph.outputs["output"].shape == (1, 7), name


def test_unknown_names() -> None:
    with pytest.raises(clcnn.ArgumentError, match="there is no net 'resnet51' in the zoo; it has .*resnet50"):
        zoo.get("resnet51")
    with pytest.raises(clcnn.ArgumentError, match="variant='v3' must be 'torchvision' or 'v1'"):
        zoo.googlenet(variant="v3")


# ---- torchvision's (timm's, the weight package's) names ----

Shapes = dict[str, tuple[int, ...]]


def state_shapes(net: nn.Module) -> Shapes:
    for parameter in net.parameters():
        parameter.data = np.zeros(parameter.shape, np.float32)
    return {name: array.shape for name, array in net.state_dict().items()}


def norm(name: str, channels: int) -> Shapes:
    return {f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")}


def conv(name: str, channels: int, out: int, kernel: int, bias: bool = False) -> Shapes:
    return {f"{name}.weight": (out, channels, kernel, kernel)} | ({f"{name}.bias": (out,)} if bias else {})


def linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def resnet_shapes(blocks: list[int], bottleneck: bool) -> Shapes:
    """torchvision's resnet18 (basic blocks) and resnet50 (bottlenecks)."""
    shapes = conv("conv1", 3, 64, 7) | norm("bn1", 64)
    channels = 64
    for stage, (count, width) in enumerate(zip(blocks, (64, 128, 256, 512)), 1):
        out = 4 * width if bottleneck else width
        for block in range(count):
            at = f"layer{stage}.{block}"
            if bottleneck:
                kernels = [(channels, width, 1), (width, width, 3), (width, out, 1)]
            else:
                kernels = [(channels, width, 3), (width, width, 3)]
            for i, (before, after, kernel) in enumerate(kernels, 1):
                shapes |= conv(f"{at}.conv{i}", before, after, kernel) | norm(f"{at}.bn{i}", after)
            if block == 0 and (stage > 1 or bottleneck):
                shapes |= conv(f"{at}.downsample.0", channels, out, 1) | norm(f"{at}.downsample.1", out)
            channels = out
    return shapes | linear("fc", channels, 1000)


def densenet_shapes() -> Shapes:
    shapes = conv("features.conv0", 3, 64, 7) | norm("features.norm0", 64)
    channels = 64
    for block, layers in enumerate((6, 12, 24, 16), 1):
        for layer in range(1, layers + 1):
            at = f"features.denseblock{block}.denselayer{layer}"
            shapes |= norm(f"{at}.norm1", channels) | conv(f"{at}.conv1", channels, 128, 1)
            shapes |= norm(f"{at}.norm2", 128) | conv(f"{at}.conv2", 128, 32, 3)
            channels += 32
        if block < 4:
            at = f"features.transition{block}"
            shapes |= norm(f"{at}.norm", channels) | conv(f"{at}.conv", channels, channels // 2, 1)
            channels //= 2
    return shapes | norm("features.norm5", channels) | linear("classifier", channels, 1000)


def regnet_shapes() -> Shapes:
    shapes = conv("stem.0", 3, 32, 3) | norm("stem.1", 32)
    channels = 32
    for stage, (depth, width) in enumerate(((2, 256), (6, 512), (13, 896), (1, 2048)), 1):
        for block in range(depth):
            at = f"trunk_output.block{stage}.block{stage}-{block}"
            if block == 0:
                shapes |= conv(f"{at}.proj.0", channels, width, 1) | norm(f"{at}.proj.1", width)
            shapes |= conv(f"{at}.f.a.0", channels, width, 1) | norm(f"{at}.f.a.1", width)
            shapes |= conv(f"{at}.f.b.0", 128, width, 3) | norm(f"{at}.f.b.1", width)  # groups of 128
            shapes |= conv(f"{at}.f.c.0", width, width, 1) | norm(f"{at}.f.c.1", width)
            channels = width
    return shapes | linear("fc", channels, 1000)


def vgg_shapes(convs: dict[int, tuple[int, int]]) -> Shapes:
    shapes: Shapes = {}
    for index, (channels, out) in convs.items():
        shapes |= conv(f"features.{index}", channels, out, 3, bias=True)
    sizes = {0: (25088, 4096), 3: (4096, 4096), 6: (4096, 1000)}
    for index, (inputs, outputs) in sizes.items():
        shapes |= linear(f"classifier.{index}", inputs, outputs)
    return shapes


def alexnet_shapes() -> Shapes:
    shapes: Shapes = {}
    for index, channels, out, kernel in (
        (0, 3, 64, 11), (3, 64, 192, 5), (6, 192, 384, 3), (8, 384, 256, 3), (10, 256, 256, 3),
    ):  # fmt: skip
        shapes |= conv(f"features.{index}", channels, out, kernel, bias=True)
    return (
        shapes
        | linear("classifier.1", 9216, 4096)
        | linear("classifier.4", 4096, 4096)
        | linear("classifier.6", 4096, 1000)
    )


VGG_A = {0: (3, 64), 3: (64, 128), 6: (128, 256), 8: (256, 256), 11: (256, 512), 13: (512, 512)}
VGG_A |= {16: (512, 512), 18: (512, 512)}


def mobilenet_shapes() -> Shapes:
    """timm's mobilenetv1_100."""
    shapes = conv("conv_stem", 3, 32, 3) | norm("bn1", 32)
    channels = 32
    for stage, widths in enumerate(([64], [128] * 2, [256] * 2, [512] * 6, [1024] * 2)):
        for block, width in enumerate(widths):
            at = f"blocks.{stage}.{block}"
            shapes |= conv(f"{at}.conv_dw", 1, channels, 3) | norm(f"{at}.bn1", channels)
            shapes |= conv(f"{at}.conv_pw", channels, width, 1) | norm(f"{at}.bn2", width)
            channels = width
    return shapes | linear("classifier", channels, 1000)


def googlenet_shapes() -> Shapes:
    def basic(name: str, channels: int, out: int, kernel: int) -> Shapes:
        return conv(f"{name}.conv", channels, out, kernel) | norm(f"{name}.bn", out)

    shapes = basic("conv1", 3, 64, 7) | basic("conv2", 64, 64, 1) | basic("conv3", 64, 192, 3)
    modules = {
        "3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
        "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
        "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
        "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
        "5b": (832, 384, 192, 384, 48, 128, 128),
    }  # fmt: skip
    for name, (channels, one, reduce3, three, reduce5, five, pooled) in modules.items():
        at = f"inception{name}"
        shapes |= basic(f"{at}.branch1", channels, one, 1)
        shapes |= basic(f"{at}.branch2.0", channels, reduce3, 1) | basic(f"{at}.branch2.1", reduce3, three, 3)
        shapes |= basic(f"{at}.branch3.0", channels, reduce5, 1) | basic(f"{at}.branch3.1", reduce5, five, 3)
        shapes |= basic(f"{at}.branch4.1", channels, pooled, 1)
    return shapes | linear("fc", 1024, 1000)


EXPECTED = {
    "alexnet": alexnet_shapes,
    "vgg_a": lambda: vgg_shapes(VGG_A),
    "googlenet": googlenet_shapes,
    "resnet18": lambda: resnet_shapes([2, 2, 2, 2], bottleneck=False),
    "resnet50": lambda: resnet_shapes([3, 4, 6, 3], bottleneck=True),
    "densenet121": densenet_shapes,
    "regnet_x_16gf": regnet_shapes,
    "mobilenet_v1": mobilenet_shapes,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_state_dict_names_and_shapes(name: str) -> None:
    assert state_shapes(zoo.get(name)) == EXPECTED[name]()


def test_vgg19_numbers_its_layers_as_torchvision() -> None:
    names = [
        name for name in state_shapes(zoo.vgg19()) if name.startswith("features") and name.endswith("weight")
    ]
    numbers = [0, 2, 5, 7, 10, 12, 14, 16, 19, 21, 23, 25, 28, 30, 32, 34]
    assert names == [f"features.{n}.weight" for n in numbers]


def test_googlenet_leaves_the_training_heads_of_torchvision_out() -> None:
    net = zoo.googlenet()
    state = net.state_dict()
    extra = {name: np.zeros(1, np.float32) for name in ("aux1.fc1.weight", "aux2.conv.conv.weight")}
    net.load_state_dict({**state, **extra})
    with pytest.raises(clcnn.weights.WeightsError, match="1 left over \\(aux3.fc1.weight\\)"):
        net.load_state_dict({**state, "aux3.fc1.weight": extra["aux1.fc1.weight"]})


# ---- weights ----


@pytest.fixture
def lenet_files(tmp_path: Path) -> Iterator[tuple[nn.Module, list[Path]]]:
    net = zoo.lenet5()
    safetensors, npz = tmp_path / "lenet.safetensors", tmp_path / "lenet.npz"
    save_safetensors(safetensors, net.state_dict())
    save_npz(npz, net.state_dict())
    yield net, [safetensors, npz]


def test_weights_come_back_from_files(lenet_files: tuple[nn.Module, list[Path]]) -> None:
    net, files = lenet_files
    for file in files:
        other = zoo.lenet5()
        assert not np.array_equal(
            other.state_dict()["features.0.weight"], net.state_dict()["features.0.weight"]
        )
        assert other.load(file) is other
        for name, array in net.state_dict().items():
            assert np.array_equal(other.state_dict()[name], array), name


def test_weights_of_another_net_are_refused(lenet_files: tuple[nn.Module, list[Path]]) -> None:
    _, (file, _) = lenet_files
    net = zoo.lenet5(num_classes=5)
    before = {name: array.copy() for name, array in net.state_dict().items()}
    with pytest.raises(
        clcnn.weights.WeightsError, match=r"classifier.5.weight: \(10, 84\) instead of \(5, 84\)"
    ):
        net.load(file)
    with pytest.raises(clcnn.weights.WeightsError, match="missing .* left over"):
        zoo.alexnet().load(file)
    for name, array in net.state_dict().items():
        assert np.array_equal(array, before[name]), f"{name} was changed by a refused file"


def test_random_weights_repeat_with_the_seed() -> None:
    def weights(seed: int) -> np.ndarray:
        nn.init.manual_seed(seed)
        return zoo.lenet5().state_dict()["classifier.1.weight"]

    assert np.array_equal(weights(5), weights(5))
    assert not np.array_equal(weights(5), weights(6))
