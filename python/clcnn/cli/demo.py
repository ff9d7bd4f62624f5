"""`clcnn demo`: the main job on photos that are there."""

from __future__ import annotations

import argparse

import numpy as np

from clcnn.classify import DEFAULT_MODEL, Classifier, Result, sample_photos
from clcnn.cli import options

HELP = "classify sample photos with EfficientNet-Lite0 and its ImageNet weights"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_device(parser)
    options.add_top(parser)
    parser.add_argument(
        "--layers", action="store_true", help="also print a table of the net's layers and their times"
    )


def describe(classifier: Classifier) -> str:
    """Device, net and times, for people."""
    device, stats = classifier.plan.device, classifier.plan.device.stats()
    size = "x".join(map(str, classifier.net.input_shape[1:]))
    programs = f"{stats['programs_built']} programs built, {stats['programs_loaded']} from the cache"
    return (
        f"device   {device.name} ({device.platform}, {device.driver})\n"
        f"model    {classifier.model}, {size}\n"
        f"load     {classifier.load_s:.2f} s (net and weights)\n"
        f"compile  {classifier.compile_s:.2f} s ({programs})"
    )


def result_text(result: Result) -> str:
    """A line for the image, and one for each class."""
    if result.error is not None:
        return f"\n{result.source}: {result.error}"
    lines = [f"{100 * p.probability:6.1f} %  {p.name}" for p in result.predictions]
    return "\n".join([f"\n{result.source}  ({result.ms:.1f} ms)", *lines])


def run(args: argparse.Namespace) -> int:
    photos = sample_photos()
    with Classifier(DEFAULT_MODEL, device=args.device) as classifier:
        print(describe(classifier))
        times = []
        for photo, result in zip(photos, classifier.stream(photos, args.top), strict=True):
            if result.error is not None:
                raise result.error
            times.append(result.ms)
            print(result_text(result).replace(str(photo), photo.stem))
        print(f"\ninference {np.median(times):.1f} ms (median of {len(times)} photos)")
        if args.layers:
            print(f"\n{classifier.plan.summary()}")
            print(f"\n{classifier.plan.profile(classifier.preset.apply(photos[0]))}")
    return 0
