"""`clcnn train digits`, `clcnn train DIR`"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clcnn import nn, optim, train, zoo
from clcnn.cli import options
from clcnn.device import devices
from clcnn.errors import ArgumentError
from clcnn.nn import init
from clcnn.train.nets import small_resnet
from clcnn.train.ranks import begun

HELP = "train a net on scikit-learn's handwritten digits, or on a folder of images for each class"
Say = Callable[..., None]  # print, or what says nothing
SMALL = "resnet"  # the one net that is not the zoo's
SMALL_SIDE = 64  # what images of a folder are resized to for it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "data",
        help="digits, or a folder with a folder of images for each class; or one with two of these, train "
        "and val (or test). Without the latter a fifth of each class is for testing",
    )
    parser.add_argument(
        "--net",
        choices=(SMALL, *zoo.NETS),
        help="resnet: a small one with batch norms; else of the zoo (lenet5 for digits, else resnet)",
    )
    parser.add_argument(
        "--size", type=options.positive, metavar="N", help="side of images (the net's own; 64 for resnet)"
    )
    parser.add_argument(
        "--skip-unreadable", action="store_true", help="leave out images that cannot be read, and count them"
    )
    parser.add_argument(
        "--device",
        metavar="D",
        help="cpu, gpu, an index, or part of a name (default: CLCNN_DEVICE, else the first GPU, else the "
        "first CPU); or several of one kind that share each batch, as 0,1. Under mpiexec each process has "
        "a GPU of its own, or its part of the cores",
    )
    parser.add_argument(
        "--epochs", type=options.positive, default=30, metavar="N", help="walks over the data (30)"
    )
    parser.add_argument(
        "--batch", type=options.positive, default=32, metavar="N", help="samples of a step (32)"
    )
    parser.add_argument("--lr", type=float, default=2e-3, help="largest learning rate (0.002)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order, split and augmentation (0)")
    parser.add_argument(
        "--checkpoint", metavar="DIR", help="write last.ckpt there after each epoch, and best.ckpt"
    )
    parser.add_argument("--resume", metavar="FILE", help="go on from a checkpoint")
    parser.add_argument("--save", metavar="FILE", help="write a checkpoint there in the end")


def run(args: argparse.Namespace) -> int:
    if not begun():
        return _run(args, None)
    with train.Ranks() as ranks:
        return _run(args, ranks)


def _run(args: argparse.Namespace, ranks: train.Ranks | None) -> int:
    say = print if ranks is None or ranks.first else _nothing
    name = args.net or ("lenet5" if args.data == "digits" else SMALL)
    data, classes, channels = _digits(args) if args.data == "digits" else _folder(args, name, say)
    init.manual_seed(args.seed)
    net = small_resnet(classes, channels) if name == SMALL else zoo.get(name, num_classes=classes)
    adam = optim.AdamW(net.parameters(), lr=args.lr)
    steps = args.epochs * -(-len(data.train) // args.batch)
    schedule = optim.lr_scheduler.OneCycleLR(adam, args.lr, total_steps=steps)
    given = (net, nn.CrossEntropyLoss(), adam)
    kept = {"device": _devices(args.device, ranks), "schedule": schedule, "seed": args.seed, "ranks": ranks}
    begun = (
        train.Trainer.resume(args.resume, *given, **kept) if args.resume else train.Trainer(*given, **kept)
    )
    with begun as trainer:
        where = ", ".join(device.name for device in trainer.devices)
        processes = f" of each of {ranks.size} processes" if ranks is not None else ""
        say(f"device {where}{processes}: {len(data.train)} samples, {len(data.test)} for testing")
        validation = data.test if args.data != "digits" else None  # whose test set chooses nothing
        trainer.fit(
            data.train,
            args.epochs,
            batch=args.batch,
            validation=validation,
            augment=data.augment,
            checkpoint=args.checkpoint,
        )
        found = trainer.evaluate(data.test)
        if args.save:
            trainer.save(args.save)
    say(f"loss {found['loss']:.4f}")
    say(f"accuracy {found['accuracy']:.4f}")
    return 0


def _nothing(*args: Any, **options: Any) -> None:
    """What ranks but the first print."""


def _devices(given: str | None, ranks: train.Ranks | None) -> Any:
    """Of "0,1" a list. GPUs of a machine are dealt out to its ranks, where no number says which."""
    if given is not None and "," in given:
        return given.split(",")
    given = given or os.environ.get("CLCNN_DEVICE") or None
    if ranks is not None and given in (None, "gpu"):
        gpus = [row for row in devices() if row.type == "gpu"]
        return gpus[ranks.local_rank % len(gpus)] if gpus else given
    return given


def _digits(args: argparse.Namespace) -> tuple[train.Split, int, int]:
    return train.digits(args.seed), 10, 1


def _folder(args: argparse.Namespace, name: str, say: Say) -> tuple[train.Split, int, int]:
    """The two parts of a folder's images, the number of classes, and that of channels."""
    channels, height, width = (3, SMALL_SIDE, SMALL_SIDE) if name == SMALL else zoo.find(name).input_shape
    size = (args.size, args.size) if args.size else (height, width)
    root = Path(args.data)
    tests = [root / part for part in ("val", "test") if (root / part).is_dir()]
    parts = [root / "train", tests[0]] if tests and (root / "train").is_dir() else [root]
    found = [
        train.ImageFolder(
            part, size, grey=channels == 1, seed=args.seed, skip_unreadable=args.skip_unreadable
        )
        for part in parts
    ]
    for part in found:
        if part.classes != found[0].classes:
            raise ArgumentError(f"{part.root} has other classes than {found[0].root}")
        for file in part.skipped:
            say(f"skipped {file}: not a readable image", file=sys.stderr)
        if part.skipped:
            say(f"skipped {len(part.skipped)} of {len(part.skipped) + len(part)} images", file=sys.stderr)
    data = found[0].split(seed=args.seed) if len(found) == 1 else train.Split(found[0], found[1])
    say(f"classes {', '.join(found[0].classes)}")
    return data, len(found[0].classes), channels
