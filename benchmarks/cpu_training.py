"""Steps of training on the CPU: clcnn beside eager PyTorch in both of its layouts, as many threads.

A step is forward, backward and an update by SGD with momentum. First loss and changed weights are compared
with float64 (without dropout) before anything is timed; then minimum of interleaved rounds in one process.
"""

from __future__ import annotations

import importlib.util
import sys

import common


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument(
        "--nets", type=common.names, help="names, with a batch as resnet18:4 (default: the goal's)"
    )
    parser.add_argument(
        "--peers", type=common.names, default=["contiguous", "channels_last"], help='or "none"'
    )
    parser.add_argument("--precision", type=common.names, default=["highest"], help="the trainer's words")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument("--short", action="store_true", help="only the table, not where time goes")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print(
            "skipped: torch says which weights are right, and it is not installed (pip install clcnn[bench])"
        )
        return 0
    import torch
    import training
    import training_nets

    import clcnn

    torch.set_num_threads(common.cores())
    formats = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
    args.nets = training_nets.chosen(args.nets or training_nets.GOAL)
    peers = {name: {"memory_format": formats[name]} for name in args.peers}
    return training.run(args, clcnn.Device(args.device), peers)


if __name__ == "__main__":
    sys.exit(main())
