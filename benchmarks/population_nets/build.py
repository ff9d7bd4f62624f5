"""Networks with seeded weights under which float32 errors mean something, and their ONNX files.

Files are kept in a folder whose name tells the libraries' versions: NAME-HASH.pt (the module) and
NAME-HASH-bN.onnx (batch N). The hash is that of the sources which the network depends on.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import inspect
import math
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from . import Entry

IMAGES = 2  # different ones; a larger batch repeats them
NORMAL_SCALE = 0.1  # of what scales and embeds, about its usual value
# Of the mean variance of a layer, and of a channel's squared mean: a channel that hardly varies would
# otherwise have its rounding errors blown up to the size of the others.
LEAST_VARIANCE, LEAST_OF_MEAN = 0.1, 0.01


class _First(nn.Module):
    """The network's main result alone, where it gives a dictionary."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)["out"]


def _bare(entry: Entry) -> nn.Module:
    """The network as its library makes it."""
    library, _, name = entry.source.partition(":")
    if library == "own":
        file, _, function = name.partition(".")
        return getattr(importlib.import_module(f"{__package__}.{file}"), function)(**entry.options)
    if library == "timm":
        import timm

        return timm.create_model(name, pretrained=False, **entry.options)
    if library == "smp":
        import segmentation_models_pytorch

        decoder, _, encoder = name.partition("/")
        return segmentation_models_pytorch.create_model(decoder, encoder, None, **entry.options)
    from torchvision import models

    builder = models.get_model_builder(name)
    without = {"weights", "weights_backbone"} & set(inspect.signature(builder).parameters)
    net = builder(**dict.fromkeys(without), **entry.options)
    kinds = (models.segmentation.FCN, models.segmentation.DeepLabV3, models.segmentation.LRASPP)
    return _First(net) if isinstance(net, kinds) else net


def shape_of(entry: Entry) -> tuple[int, ...]:
    """The shape of the network's input without the batch."""
    if entry.shape:
        return entry.shape
    if entry.source.startswith("timm:"):
        import timm

        known = timm.get_pretrained_cfg(entry.source.removeprefix("timm:"))
        if known is not None and known.input_size:
            return tuple(known.input_size)
    return (3, 224, 224)


def inputs(entry: Entry, batch: int, seed: int = 0) -> Tensor:
    """x [batch, ...], normal: IMAGES different items, in turn."""
    some = torch.randn((IMAGES, *shape_of(entry)), generator=torch.Generator().manual_seed(seed))
    return some[torch.arange(batch) % IMAGES].contiguous()


def make(entry: Entry, seed: int = 0) -> nn.Module:
    """The network with its weights, for inference."""
    torch.manual_seed(seed)  # some of timm's keep random tables
    net = _bare(entry).eval()
    draw_all(net, torch.Generator().manual_seed(seed + 1))
    set_statistics(net, inputs(entry, IMAGES))
    for part in list(
        net.modules()
    ):  # branches that training has and inference does not, as one would deploy it
        if hasattr(part, "reparameterize"):
            part.reparameterize()
    return net.eval().requires_grad_(False)


@torch.no_grad()
def draw_all(net: nn.Module, generator: torch.Generator) -> None:
    for owner in net.modules():
        for name, values in owner.named_parameters(recurse=False):
            values.copy_(_drawn(owner, name, torch.randn(values.shape, generator=generator)))


def _drawn(owner: nn.Module, name: str, normal: Tensor) -> Tensor:
    """A parameter's values: He's for weights, about 1 for what scales channels, about 0 for what is added."""
    if isinstance(owner, nn.PReLU):
        return 0.25 + 0.01 * normal
    if name.endswith("bias"):
        return 0.05 * normal
    if name.endswith("weight") and normal.dim() > 1:
        return normal * math.sqrt(2 / _fan_in(owner, normal))
    if normal.numel() <= max(normal.shape, default=1):
        return (1 + NORMAL_SCALE * normal).abs()
    return NORMAL_SCALE * normal


def _fan_in(owner: nn.Module, weight: Tensor) -> float:
    """How many products make an output."""
    if isinstance(owner, nn.modules.conv._ConvTransposeNd):
        return weight.shape[0] / owner.groups * math.prod(weight.shape[2:]) / math.prod(owner.stride)
    return math.prod(weight.shape[1:])


@torch.no_grad()
def set_statistics(net: nn.Module, x: Tensor | list[Tensor]) -> None:
    """Mean and variance of every batch norm's input, with those before it in effect, as training would."""
    norms = [m for m in net.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    kept = [norm.momentum for norm in norms]
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    net(x)
    for norm, momentum in zip(norms, kept):
        norm.eval()
        norm.momentum = momentum
        least = LEAST_VARIANCE * norm.running_var.mean()
        norm.running_var.copy_(
            torch.maximum(norm.running_var, LEAST_OF_MEAN * norm.running_mean**2).clamp(min=least)
        )


# ---- files ----


def folder(cache: Path, exporter: str) -> Path:
    """Where the files of these libraries are kept."""
    told = [f"{name}{importlib.metadata.version(name)}" for name in ("torch", "torchvision", "timm")]
    return cache / "-".join([*told, exporter]).replace("+", "_")


def module(name: str, entry: Entry, where: Path) -> nn.Module:
    """make(), kept."""
    path = where / f"{_file(name, entry)}.pt"
    if not path.exists():
        net = make(entry)
        _kept(path, lambda part: torch.save(net, part))
        return net
    return torch.load(path, weights_only=False)


def onnx(name: str, entry: Entry, batch: int, where: Path, exporter: str) -> Path:
    """The network as an ONNX file for a batch, input "x0" and output "y0", kept."""
    path = where / f"{_file(name, entry)}-b{batch}.onnx"
    if not path.exists():
        net = module(name, entry, where)
        _kept(path, lambda part: _export(net, inputs(entry, batch), part, exporter))
    return path


def _export(net: nn.Module, x: Tensor, path: Path, exporter: str) -> None:
    options: dict[str, Any] = {"input_names": ["x0"], "output_names": ["y0"], "external_data": False}
    if exporter == "torchscript":
        options |= {"dynamo": False}
    else:
        options |= {"dynamo": True, "verbose": False}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (x,), path, **options)


def _kept(path: Path, write: Any) -> None:
    """Writes a file that is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.stem}.{os.getpid()}.part{path.suffix}")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _file(name: str, entry: Entry) -> str:
    """The first part of a file's name."""
    sources = [Path(__file__)]
    if entry.source.startswith("own:"):
        own = entry.source.removeprefix("own:").partition(".")[0]
        sources.append(Path(__file__).with_name(f"{own}.py"))
    told = [
        entry.source,
        shape_of(entry),
        entry.options,
        *(ast.dump(ast.parse(p.read_text())) for p in sources),
    ]
    return f"{name.replace(':', '_').replace('/', '_')}-{hashlib.sha256(repr(told).encode()).hexdigest()[:8]}"
