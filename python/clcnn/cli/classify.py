"""`clcnn classify IMAGE...`"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from clcnn import zoo
from clcnn._progress import watched
from clcnn.classify import DEFAULT_MODEL, Classifier, Result
from clcnn.cli import options
from clcnn.cli.demo import describe, result_text

HELP = "classify photos"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("images", nargs="+", metavar="IMAGE", help="an image file")
    parser.add_argument(
        "--model",
        default=DEFAULT_MODEL,
        choices=zoo.NETS,
        metavar="NAME",
        help=f"a net of the zoo ({DEFAULT_MODEL}): {', '.join(zoo.NETS)}",
    )
    parser.add_argument(
        "--weights",
        metavar="FILE",
        help="safetensors, npz or .pth; every model but the default one needs them",
    )
    options.add_device(parser)
    options.add_top(parser)
    parser.add_argument(
        "--batch", type=options.positive, default=1, metavar="N", help="images in one run (1)"
    )
    options.add_json(parser)


@contextmanager
def progress(total: int) -> Iterator[Callable[[], Any]]:
    """Something to call after each image: a bar where people look, if tqdm is there and images are many."""
    stream = watched()
    if total > 1 and stream is not None:
        try:
            from tqdm import tqdm
        except ImportError:
            pass
        else:
            with tqdm(total=total, unit="image", file=stream, leave=False) as bar:
                yield bar.update
            return
    yield lambda: None


def json_row(result: Result) -> dict[str, Any]:
    if result.error is not None:
        return {"image": result.source, "error": str(result.error)}
    top = [{"index": p.index, "name": p.name, "probability": p.probability} for p in result.predictions]
    return {"image": result.source, "top": top, "ms": result.ms}


def run(args: argparse.Namespace) -> int:
    with Classifier(args.model, args.weights, args.device, args.batch) as classifier:
        with progress(len(args.images)) as advance:
            results = []
            for result in classifier.stream(args.images, args.top):
                results.append(result)
                advance()
        failed = [result for result in results if result.error is not None]
        if args.json:
            print(
                json.dumps(
                    {
                        "model": args.model,
                        "device": classifier.plan.device.name,
                        "load_s": classifier.load_s,
                        "compile_s": classifier.compile_s,
                        "results": [json_row(result) for result in results],
                    },
                    indent=2,
                )
            )
        else:
            print(describe(classifier))
            print("\n".join(result_text(result) for result in results if result.error is None))
    for result in failed:
        print(f"clcnn: {result.error}", file=sys.stderr)
    return 1 if failed else 0
