"""Inference on the CPU: clcnn beside OpenVINO, onnxruntime and PyTorch, same weights, as many threads.

Minimum of interleaved rounds in one process, NumPy array in and NumPy array out; errors against float64.
"""

from __future__ import annotations

import importlib.util
import sys

import common


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=common.NETS, help="zoo names, with commas")
    parser.add_argument("--batch", type=common.ints, default=[1, 8], help="batch sizes (default 1,8)")
    parser.add_argument(
        "--peers", type=common.names, default=["openvino", "onnxruntime", "torch"], help='or "none"'
    )
    parser.add_argument("--precision", type=common.names, default=["highest"], help="clcnn.compile's words")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print(
            "skipped: torch says which logits are right, and it is not installed (pip install clcnn[bench])"
        )
        return 0
    import inference
    import peers

    import clcnn

    return inference.run(args, clcnn.Device(args.device), peers.CPU)


if __name__ == "__main__":
    sys.exit(main())
