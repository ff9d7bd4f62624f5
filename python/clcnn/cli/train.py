"""`clcnn train digits`"""

from __future__ import annotations

import argparse
import time

from clcnn import nn, optim, train, zoo
from clcnn.cli import options
from clcnn.nn import init

HELP = "train LeNet-5 on scikit-learn's handwritten digits, and print its accuracy"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", choices=("digits",), help="what to train on")
    options.add_device(parser)
    parser.add_argument(
        "--epochs", type=options.positive, default=30, metavar="N", help="walks over the data (30)"
    )
    parser.add_argument(
        "--batch", type=options.positive, default=32, metavar="N", help="samples of a step (32)"
    )
    parser.add_argument("--lr", type=float, default=2e-3, help="largest learning rate (0.002)")
    parser.add_argument("--seed", type=int, default=0, help="of weights, order, split and augmentation (0)")
    parser.add_argument("--save", metavar="FILE", help="write a checkpoint there in the end")


def run(args: argparse.Namespace) -> int:
    data = train.digits(args.seed)
    init.manual_seed(args.seed)
    net = zoo.get("lenet5")
    adam = optim.AdamW(net.parameters(), lr=args.lr)
    steps = args.epochs * -(-len(data.train) // args.batch)
    schedule = optim.lr_scheduler.OneCycleLR(adam, args.lr, total_steps=steps)
    start = time.perf_counter()
    with train.Trainer(
        net, nn.CrossEntropyLoss(), adam, device=args.device, schedule=schedule, seed=args.seed
    ) as trainer:
        print(f"device {trainer.device.name}: {len(data.train)} samples, {len(data.test)} for testing")
        for epoch in range(args.epochs):
            losses = [trainer.step(x, y) for x, y in data.train.batches(args.batch, augment=data.augment)]
            print(
                f"epoch {epoch + 1:3}  loss {sum(losses) / len(losses):.4f}  "
                f"{time.perf_counter() - start:6.1f} s",
                flush=True,
            )
        found = trainer.evaluate(data.test)
        if args.save:
            trainer.save(args.save)
    print(f"loss {found['loss']:.4f}")
    print(f"accuracy {found['accuracy']:.4f}")
    return 0
