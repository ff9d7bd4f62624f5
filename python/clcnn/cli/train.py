"""`clcnn train digits`, `clcnn train DIR`"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from clcnn import nn, optim, train, zoo
from clcnn.cli import options
from clcnn.errors import ArgumentError
from clcnn.nn import init
from clcnn.train.nets import small_resnet

HELP = "train a net on scikit-learn's handwritten digits, or on a folder of images for each class"
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
    options.add_device(parser)
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
    name = args.net or ("lenet5" if args.data == "digits" else SMALL)
    data, classes, channels = _digits(args) if args.data == "digits" else _folder(args, name)
    init.manual_seed(args.seed)
    net = small_resnet(classes, channels) if name == SMALL else zoo.get(name, num_classes=classes)
    adam = optim.AdamW(net.parameters(), lr=args.lr)
    steps = args.epochs * -(-len(data.train) // args.batch)
    schedule = optim.lr_scheduler.OneCycleLR(adam, args.lr, total_steps=steps)
    given = (net, nn.CrossEntropyLoss(), adam)
    kept = {"device": args.device, "schedule": schedule, "seed": args.seed}
    begun = (
        train.Trainer.resume(args.resume, *given, **kept) if args.resume else train.Trainer(*given, **kept)
    )
    with begun as trainer:
        print(f"device {trainer.device.name}: {len(data.train)} samples, {len(data.test)} for testing")
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
    print(f"loss {found['loss']:.4f}")
    print(f"accuracy {found['accuracy']:.4f}")
    return 0


def _digits(args: argparse.Namespace) -> tuple[train.Split, int, int]:
    return train.digits(args.seed), 10, 1


def _folder(args: argparse.Namespace, name: str) -> tuple[train.Split, int, int]:
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
            print(f"skipped {file}: not a readable image", file=sys.stderr)
        if part.skipped:
            print(f"skipped {len(part.skipped)} of {len(part.skipped) + len(part)} images", file=sys.stderr)
    data = found[0].split(seed=args.seed) if len(found) == 1 else train.Split(found[0], found[1])
    print(f"classes {', '.join(found[0].classes)}")
    return data, len(found[0].classes), channels
