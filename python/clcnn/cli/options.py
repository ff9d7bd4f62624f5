"""Arguments that several commands share, and the models they name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from clcnn.errors import ArgumentError

if TYPE_CHECKING:
    from clcnn.graph import Graph


def positive(text: str) -> int:
    """An integer of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def shape(text: str) -> tuple[int, ...]:
    """A shape such as 1,3,224,224, for argparse."""
    return tuple(positive(size) for size in text.split(","))


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        metavar="D",
        help="cpu, gpu, an index, or part of a name (default: CLCNN_DEVICE, "
        "else the first GPU, else the first CPU)",
    )


def zeros(text: str) -> float | str:
    """A share of zeros, or the name of a file of them, for argparse."""
    try:
        return float(text)
    except ValueError:
        return text


def add_zeros(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--zeros",
        type=zeros,
        metavar="Z",
        help="what is known of the zeros in the inputs of layers: a file that clcnn.calibrate() made, or one "
        "share for all layers, such as 0.5",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top", type=positive, default=5, metavar="N", help="classes to print for each image (5)"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """A model and its input shape, for find_graph()."""
    from clcnn import zoo
    from clcnn.cli import onnx_input

    parser.add_argument(
        "model",
        metavar="MODEL",
        help="an ONNX file (.onnx), a file that clcnn.save() wrote, or a net of the zoo: "
        + ", ".join(zoo.NETS),
    )
    parser.add_argument("--input", type=shape, metavar="SHAPE", help="input shape, such as 1,3,224,224")
    onnx_input.add_shape(parser)


def find_graph(args: argparse.Namespace) -> Graph:
    """The graph of the model that `args` names (zoo nets have random weights) at the shape asked for. Raises
    ArgumentError, and what loading raises."""
    from clcnn import model_io, zoo
    from clcnn.graph import trace

    if args.model in zoo.NETS:
        net = zoo.find(args.model)
        model, input_shape = net.build(), args.input or (1, *net.input_shape)
    elif not Path(args.model).exists():
        raise ArgumentError(
            f"{args.model!r} is neither a file nor a net of the zoo, which has {', '.join(zoo.NETS)}"
        )
    elif args.model.endswith(".onnx"):
        return _onnx_graph(args)
    else:
        model = model_io.load(args.model)
        input_shape = args.input or model.input_shapes
    if args.shape:
        raise ArgumentError("--shape is for ONNX files: use --input SHAPE")
    return trace(model, input_shape)


def _onnx_graph(args: argparse.Namespace) -> Graph:
    from clcnn.cli import onnx_input

    model = onnx_input.load(args.model)
    given = list(args.shape)
    if args.input:
        if len(model.inputs) != 1:
            names = [info.name for info in model.inputs]
            raise ArgumentError(f"--input is for models of one input, this one has {names}: use --shape")
        given.append((model.inputs[0].name, args.input))
    return model.graph(onnx_input.shapes_of(model, given))
