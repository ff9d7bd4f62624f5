"""Layers with torch.nn's names, arguments and defaults.

A module holds parameters (float32, PyTorch's layouts) and, called on symbolic values, adds its operators to a graph;
nothing is computed in Python. State-dict keys are PyTorch's.
"""

from __future__ import annotations

from clcnn.nn import init
from clcnn.nn.activation import (
    ELU,
    GELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSoftmax,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from clcnn.nn.container import ModuleList, Sequential
from clcnn.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
    Linear,
)
from clcnn.nn.module import Module, Parameter
from clcnn.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d, LocalResponseNorm
from clcnn.nn.pool import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
)
from clcnn.nn.shape import (
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    Flatten,
    Identity,
    Unflatten,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)

__all__ = [name for name in dir() if name[0].isupper()] + ["init"]
