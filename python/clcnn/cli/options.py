"""Arguments that several commands share, and the models they name."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clcnn.errors import ArgumentError


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


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def add_top(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--top", type=positive, default=5, metavar="N", help="classes to print for each image (5)"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """A model and its input shape, for find_model()."""
    from clcnn import zoo

    parser.add_argument(
        "model",
        metavar="MODEL",
        help=f"a file that clcnn.save() wrote, or a net of the zoo: {', '.join(zoo.NETS)}",
    )
    parser.add_argument("--input", type=shape, metavar="SHAPE", help="input shape, such as 1,3,224,224")


def find_model(args: argparse.Namespace) -> tuple[Any, Any]:
    """The model that `args` names (zoo nets have random weights) and the input shape for it. Raises
    ArgumentError."""
    from clcnn import model_io, zoo

    if args.model in zoo.NETS:
        net = zoo.find(args.model)
        return net.build(), args.input or (1, *net.input_shape)
    if not Path(args.model).exists():
        raise ArgumentError(
            f"{args.model!r} is neither a file nor a net of the zoo, which has {', '.join(zoo.NETS)}"
        )
    model = model_io.load(args.model)
    return model, args.input or model.input_shapes
