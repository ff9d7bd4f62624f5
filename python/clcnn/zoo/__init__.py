"""Nets, built layer by layer. `clcnn.zoo.get("resnet50")` returns the function of that name's result; the
table `NETS` says what each one takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clcnn import nn
from clcnn.errors import ArgumentError
from clcnn.zoo.classic import alexnet, lenet5, overfeat
from clcnn.zoo.densenet import densenet121
from clcnn.zoo.efficientnet import efficientnet_lite0
from clcnn.zoo.googlenet import googlenet
from clcnn.zoo.mobilenet import mobilenet_v1
from clcnn.zoo.regnet import regnet_x_16gf
from clcnn.zoo.resnet import resnet18, resnet50
from clcnn.zoo.vgg import vgg16, vgg19, vgg_a


@dataclass(frozen=True)
class Net:
    """A zoo entry: how to build a net and what it is fed.

    Parameters
    ----------
    build : function
        Gives the net; its arguments are those that get() passes on.
    input_shape : (int, int, int)
        Channels, height and width of an image.
    preset : str
        How images are prepared: a name in clcnn.image.PRESETS.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.zoo.NETS["overfeat"].input_shape
    (3, 231, 231)
    """

    build: Callable[..., nn.Module]
    input_shape: tuple[int, int, int]  # C, H, W
    preset: str = "imagenet"  # a name in clcnn.image.PRESETS


NETS: dict[str, Net] = {
    "lenet5": Net(lenet5, (1, 28, 28), "digits"),
    "alexnet": Net(alexnet, (3, 224, 224)),
    "overfeat": Net(overfeat, (3, 231, 231)),
    "vgg_a": Net(vgg_a, (3, 224, 224)),
    "vgg16": Net(vgg16, (3, 224, 224)),
    "vgg19": Net(vgg19, (3, 224, 224)),
    "googlenet": Net(googlenet, (3, 224, 224)),
    "resnet18": Net(resnet18, (3, 224, 224)),
    "resnet50": Net(resnet50, (3, 224, 224)),
    "mobilenet_v1": Net(mobilenet_v1, (3, 224, 224)),
    "densenet121": Net(densenet121, (3, 224, 224)),
    "regnet_x_16gf": Net(regnet_x_16gf, (3, 224, 224)),
    "efficientnet_lite0": Net(efficientnet_lite0, (3, 224, 224), "efficientnet_lite"),
}


def find(name: str) -> Net:
    """The entry of a net.

    Parameters
    ----------
    name : str
        A name in NETS.

    Returns
    -------
    Net

    Raises
    ------
    ArgumentError
        There is no such net; lists the names.

    Examples
    --------
    >>> import clcnn
    >>> clcnn.zoo.find("lenet5").input_shape
    (1, 28, 28)
    """
    if name not in NETS:
        raise ArgumentError(f"there is no net {name!r} in the zoo; it has {', '.join(NETS)}")
    return NETS[name]


def get(name: str, **kwargs: Any) -> nn.Module:
    """Builds a net of the zoo, with random weights; `.load(file)` brings trained ones.

    Parameters
    ----------
    name : str
        A name in NETS.
    **kwargs
        Passed to the net's function, such as num_classes.

    Returns
    -------
    nn.Module

    Raises
    ------
    ArgumentError
        There is no such net; lists the names.

    Examples
    --------
    >>> import clcnn
    >>> net = clcnn.zoo.get("resnet18", num_classes=10)
    >>> net.fc.weight.shape
    (10, 512)
    """
    return find(name).build(**kwargs)


__all__ = [
    "NETS",
    "Net",
    "alexnet",
    "densenet121",
    "efficientnet_lite0",
    "find",
    "get",
    "googlenet",
    "lenet5",
    "mobilenet_v1",
    "overfeat",
    "regnet_x_16gf",
    "resnet18",
    "resnet50",
    "vgg16",
    "vgg19",
    "vgg_a",
]
