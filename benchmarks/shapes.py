"""New shapes: a session's first run at each of 12 sizes and 4 batches never seen, beside onnxruntime.

ResNet-50 and FCN-ResNet-50 (torchvision's, random weights) as ONNX files of open height, width and batch. A
session has run one size, whose kernels were built; then every other one comes, each for the first time, and
once more. The first call should take 0.1 s in the median and 0.3 s at most, beyond what the second one takes.
"""

from __future__ import annotations

import io
import random
import statistics
import sys
import time
from typing import Any

import common
import numpy as np

MEDIAN_LIMIT_S, WORST_LIMIT_S = 0.1, 0.3
ERROR_LIMIT = 1e-3  # rms, over the result's rms
FIRST = (1, 3, 224, 224)
SIZES = {"resnet50": (128, 448), "fcn_resnet50": (160, 520)}  # pixels of a side, from and to
BATCHES = (2, 3, 4, 8)


def exported(name: str) -> bytes:
    """torchvision's net with random weights, whose batch norms have moved a little."""
    import torch
    import torchvision

    torch.manual_seed(0)
    zoo = torchvision.models.segmentation if name.startswith("fcn") else torchvision.models
    extra = {"weights_backbone": None} if name.startswith("fcn") else {}

    class Main(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = getattr(zoo, name)(weights=None, **extra)

        def forward(self, x: Any) -> Any:
            y = self.net(x)
            return y["out"] if isinstance(y, dict) else y

    file = io.BytesIO()
    open_dims = {0: "n", 2: "h", 3: "w"}
    torch.onnx.export(
        Main().eval(), (torch.zeros(FIRST),), file, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": open_dims}, dynamo=False,
    )  # fmt: skip
    return file.getvalue()


def shapes_of(name: str) -> list[tuple[int, int, int, int]]:
    """12 sizes, the same every time, and 4 batches of the first one."""
    rng, (least, most) = random.Random(name), SIZES[name]
    sizes = [(1, 3, rng.randrange(least, most), rng.randrange(least, most)) for _ in range(12)]
    return [*sizes, *((n, *FIRST[1:]) for n in BATCHES)]


def timed(session: Any, x: np.ndarray) -> tuple[np.ndarray, float]:
    start = time.perf_counter()
    (y,) = session.run(None, {"x": x})
    return y, time.perf_counter() - start


def measure(name: str, device: str) -> list[dict[str, Any]]:
    """A row for each shape: the first and the second call of clcnn's and onnxruntime's session."""
    import onnxruntime

    import clcnn

    data = exported(name)
    ours = clcnn.InferenceSession(data, device=device, max_plans=64)
    theirs = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    rows = []
    for shape in [FIRST, *shapes_of(name)]:
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        built = ours.device.stats()["programs_built"]
        got, first = timed(ours, x)
        again = timed(ours, x)[1]
        want, peer_first = timed(theirs, x)
        peer_again = timed(theirs, x)[1]
        error = common.checked(got, want, ERROR_LIMIT)["rms_error"]
        rows.append({
            "case": f"{name} {'x'.join(map(str, shape))}", "batch": shape[0], "precision": "highest",
            "clcnn_ms": first * 1e3, "clcnn_again_ms": again * 1e3, "peer": "onnxruntime",
            "peer_ms": peer_first * 1e3, "peer_again_ms": peer_again * 1e3,
            "programs_built": ours.device.stats()["programs_built"] - built, "rms_error": error,
        })  # fmt: skip
        print(
            f"{rows[-1]['case']:32} first {first * 1e3:8.1f} ms  again {again * 1e3:7.1f}  onnxruntime "
            f"{peer_first * 1e3:7.1f}  {peer_again * 1e3:7.1f}  programs built {rows[-1]['programs_built']}",
            flush=True,
        )
    return rows


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=list(SIZES), help="nets (default both)")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    bad = False
    for net in args.nets:
        rows = measure(net, args.device)
        beyond = [max(0.0, row["clcnn_ms"] - row["clcnn_again_ms"]) / 1e3 for row in rows[1:]]
        median, worst = statistics.median(beyond), max(beyond)
        bad |= median > MEDIAN_LIMIT_S or worst > WORST_LIMIT_S
        print(f"{net}: first call beyond the second, median {median:.3f} s, worst {worst:.3f} s")
        results += rows
        for what, value, limit in (("median", median, MEDIAN_LIMIT_S), ("worst", worst, WORST_LIMIT_S)):
            results.append(
                {"case": f"{net} {what}", "peer": None, "value": value, "unit": "s", "limit": limit}
            )
    common.finish(results, args.json, device=args.device)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
