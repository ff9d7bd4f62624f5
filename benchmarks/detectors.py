"""Detectors of torchvision out of ONNX files, random weights, beside onnxruntime: whole runs, boxes included.

What is beside the convolutions decides: the best scores of each class, boxes without those that overlap
better ones, regions of interest. With random weights nearly every box counts, so these are the worst case.
The numbers of boxes must agree, and the boxes, before anything is timed.
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import common
import numpy as np

NETS = {  # torchvision's name, and the least and the most pixels of a side
    "ssdlite": ("ssdlite320_mobilenet_v3_large", None),
    "ssd": ("ssd300_vgg16", None),
    "fasterrcnn": ("fasterrcnn_mobilenet_v3_large_320_fpn", None),
    "retinanet": ("retinanet_resnet50_fpn", 320),
    "fcos": ("fcos_resnet50_fpn", 320),
}
SIDE = 320
LIMIT = 1e-3  # rms error of boxes and scores, over their rms


def exported(name: str) -> bytes:
    """The detector for one image of SIDE pixels."""
    import torch
    from torchvision.models import detection

    builder, side = NETS[name]
    sides = {"min_size": side, "max_size": side} if side else {}
    torch.manual_seed(0)
    net = getattr(detection, builder)(weights=None, weights_backbone=None, **sides).eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(net, (torch.rand(1, 3, SIDE, SIDE),), file, opset_version=17, dynamo=False)
    return file.getvalue()


def feed_of(inputs: list[Any]) -> dict[str, np.ndarray]:
    """An image, with the batch's dimension where the model has one."""
    image = np.random.default_rng(0).random((1, 3, SIDE, SIDE), np.float32)
    return {inputs[0].name: image if len(inputs[0].shape) == 4 else image[0]}


def error_of(got: list[np.ndarray], want: list[np.ndarray]) -> float:
    """The largest rms error of boxes and scores. Raises common.Wrong, also for other numbers of boxes."""
    error = 0.0
    for mine, other in zip(got, want, strict=True):
        if mine.shape != other.shape:
            raise common.Wrong(f"a result's shape is {mine.shape}, not {other.shape}")
        if other.size and other.dtype == np.float32:
            error = max(error, common.checked(mine, other, LIMIT)["rms_error"])
    return error


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=list(NETS), help=f"of {', '.join(NETS)}")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    import sessions

    results: list[dict[str, Any]] = []
    for name in args.nets:
        row = sessions.beside_onnxruntime(name, exported(name), feed_of, error_of, args)
        results.append(row)
        print(
            f"{name:12} clcnn {row['clcnn_ms']:8.1f} ms  onnxruntime {row['peer_ms']:8.1f} ms  "
            f"ratio {row['ratio']:5.2f}  rms error {row['rms_error']:.0e}",
            flush=True,
        )
    common.finish(results, args.json, device=args.device)
    return 0


if __name__ == "__main__":
    sys.exit(main())
