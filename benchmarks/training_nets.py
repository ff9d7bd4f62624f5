"""Nets for training: those of the zoo and a few small ones, with weights and a batch, and their step in
PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from nets import draw_weights

import clcnn
from clcnn import nn, ops, optim, train, zoo
from clcnn.graph import trace
from clcnn.nn.module import Module
from torch_net import TorchNet

SGD = {"lr": 0.01, "momentum": 0.9}
TIMED_LR = 1e-6  # so that any number of steps on one batch leaves weights sensible


@dataclass(frozen=True)
class Entry:
    """How to build a net, the batch it is trained with, and the shape of an image."""

    build: Callable[[], Module]
    batch: int
    shape: tuple[int, int, int] = (3, 224, 224)


class _Fire(nn.Module):
    """SqueezeNet's module (Iandola et al. 2016): 1x1, then 1x1 beside 3x3."""

    def __init__(self, channels: int, squeeze: int, expand: int) -> None:
        super().__init__()
        self.squeeze = nn.Sequential(nn.Conv2d(channels, squeeze, 1), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(squeeze, expand, 1), nn.ReLU())
        self.three = nn.Sequential(nn.Conv2d(squeeze, expand, 3, padding=1), nn.ReLU())

    def forward(self, x: Any) -> Any:
        x = self.squeeze(x)
        return ops.concat(self.one(x), self.three(x), dim=1)


def squeezenet() -> Module:
    """SqueezeNet 1.1: x [N, 3, 224, 224] -> logits [N, 1000]."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, stride=2),
        _Fire(64, 16, 64), _Fire(128, 16, 64), nn.MaxPool2d(3, stride=2),
        _Fire(128, 32, 128), _Fire(256, 32, 128), nn.MaxPool2d(3, stride=2),
        _Fire(256, 48, 192), _Fire(384, 48, 192), _Fire(384, 64, 256), _Fire(512, 64, 256),
        nn.Dropout(), nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class _Residual(nn.Module):
    """Two 3x3 convolutions with batch norm, and a shortcut by 1x1 where the shape changes."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, padding=1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        self.shortcut = nn.Conv2d(channels, out, 1, stride=stride) if stride > 1 or channels != out else None
        self.relu = nn.ReLU()

    def forward(self, x: Any) -> Any:
        return self.relu(ops.add(self.body(x), self.shortcut(x) if self.shortcut else x))


def resnet20() -> Module:
    """ResNet-20 for images of 32x32 (He et al. 2016, section 4.2): x [N, 3, 32, 32] -> logits [N, 10]."""
    blocks = [
        _Residual(16 if block == 0 and width == 16 else width // 2 if block == 0 else width, width, step)
        for width, stride in ((16, 1), (32, 2), (64, 2))
        for block, step in enumerate((stride, 1, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


def _zoo(name: str, batch: int) -> Entry:
    return Entry(partial(zoo.get, name), batch, zoo.find(name).input_shape)


GOAL = ["alexnet", "mobilenet_v1", "resnet18", "googlenet", "vgg_a"]
NETS = {
    "alexnet": _zoo("alexnet", 16),
    "mobilenet_v1": _zoo("mobilenet_v1", 8),
    "resnet18": _zoo("resnet18", 8),
    "googlenet": _zoo("googlenet", 8),
    "vgg_a": _zoo("vgg_a", 4),
    "squeezenet": Entry(squeezenet, 8),
    "resnet20": Entry(resnet20, 64, (3, 32, 32)),
    "lenet5": _zoo("lenet5", 32),
    "densenet121": _zoo("densenet121", 4),
    "resnet50": _zoo("resnet50", 4),
    "vgg19": _zoo("vgg19", 2),
    "efficientnet_lite0": _zoo("efficientnet_lite0", 8),
    "overfeat": _zoo("overfeat", 8),
    "regnet_x_16gf": _zoo("regnet_x_16gf", 1),
}


class Case:
    """A net with He-scaled weights, a batch of normal images with labels, and trainers of it."""

    def __init__(self, name: str, batch: int, seed: int = 0) -> None:
        self.name, self.batch = name, batch
        self.entry = NETS[name]
        rng = np.random.default_rng(seed)
        self.net = self.entry.build()
        shape = (batch, *self.entry.shape)
        self.graph = trace(self.net, shape)
        self.weights = draw_weights(self.graph, rng)
        self.net.load_state_dict(self.weights)
        self.x = rng.standard_normal(shape, np.float32)
        (logits,) = self.graph.outputs.values()
        self.y = rng.integers(0, logits.shape[1], batch)

    def trainer(self, device: clcnn.Device, precision: str, dropout: bool) -> train.Trainer:
        """A trainer that begins with the weights drawn. dropout: off to compare a step, on to time it."""
        self.net.load_state_dict(self.weights)
        for module in self.net.modules():
            if isinstance(module, nn.Dropout):
                module.train(dropout)
        optimizer = optim.SGD(self.net.parameters(), **_settings(dropout))
        return train.Trainer(self.net, nn.CrossEntropyLoss(), optimizer, device=device, precision=precision)

    def twin(self, dropout: bool, **where: Any) -> TorchTrainer:
        """The same in PyTorch, moved by Module.to(**where)."""
        return TorchTrainer(self, dropout, where)


class TorchTrainer:
    """Eager PyTorch: step() is forward, backward and an update of one batch that lies where it is wanted."""

    def __init__(self, case: Case, dropout: bool, where: dict[str, Any]) -> None:
        graph = case.graph
        names = {r.values[0]: r.name for r in graph.records if r.kind == "constant"}
        attributes = {r.values: r.attrs for r in graph.records if r.kind == "node"}
        self.net = TorchNet(graph)
        for at, name in self.net.constants.items():
            getattr(self.net, name).data = torch.from_numpy(case.weights[names[at]].copy())
        frozen = {i for op, _, ids, _ in self.net.calls if op == "batch_norm" for i in ids[3:]}
        self.net.calls = [
            (op, _in_training(op, function, attributes[made], dropout), ids, made)
            for op, function, ids, made in self.net.calls
        ]
        self.net = self.net.to(**where)
        self.parameters = {
            names[at]: getattr(self.net, name).requires_grad_(at not in frozen)
            for at, name in self.net.constants.items()
        }
        trained = [p for p in self.parameters.values() if p.requires_grad]
        self.optimizer = torch.optim.SGD(trained, **_settings(dropout))
        self.x = torch.from_numpy(case.x).to(**where)
        self.y = torch.from_numpy(case.y).to(device=where.get("device"))

    def forward(self) -> torch.Tensor:
        """The loss."""
        self.optimizer.zero_grad()
        return F.cross_entropy(self.net(self.x), self.y)

    def step(self) -> float:
        """The loss before the update, as Trainer.step()."""
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    def values(self) -> dict[str, np.ndarray]:
        """What the parameters are now."""
        return {name: p.detach().cpu().numpy() for name, p in self.parameters.items()}


def _settings(timed: bool) -> dict[str, float]:
    """Of the optimiser."""
    return SGD | {"lr": TIMED_LR} if timed else SGD


def _in_training(op: str, function: Any, attrs: Any, dropout: bool) -> Any:
    """A node's function as in a training step; ReLU in its input's place, as torchvision's nets have it."""
    if op == "batch_norm":
        return lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, True, 0.1, attrs["eps"])
    if op == "dropout":
        return lambda x: F.dropout(x, attrs.get("p", 0.5), dropout)
    if op == "relu":
        return lambda x: F.relu(x, inplace=True)
    return function


def chosen(names: list[str]) -> list[tuple[str, int]]:
    """Names and batches of what was asked for: "resnet18", or "resnet18:4" for another batch. Raises
    SystemExit that lists the names."""
    found = []
    for name in names:
        net, _, batch = name.partition(":")
        if net not in NETS:
            raise SystemExit(f"there is no net {net!r}; there are {', '.join(NETS)}")
        found.append((net, int(batch) if batch else NETS[net].batch))
    return found
