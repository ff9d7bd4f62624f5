"""Steps of training on a GPU: clcnn beside eager PyTorch and cuDNN in both of its layouts, same weights.

A step is forward, backward and an update by SGD with momentum of a batch that lies on the GPU. First loss and
changed weights are compared with float64 (without dropout) before anything is timed; then minimum of
interleaved rounds in one process. --precision highest meets PyTorch's strict float32, high its tf32.
--devices 2 compares the throughput of two devices that train together with that of one.
"""

from __future__ import annotations

import importlib.util
import sys

import common

GOAL = [
    "alexnet:128",
    "overfeat:128",
    "googlenet:128",
    "vgg_a:64",
    "vgg19:64",
    "resnet50:64",
    "mobilenet_v1:64",
]


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=GOAL, help="names with a batch, as resnet50:64")
    parser.add_argument(
        "--peers", type=common.names, default=["contiguous", "channels_last"], help='or "none"'
    )
    parser.add_argument("--precision", type=common.names, default=["highest"], help="the trainer's words")
    parser.add_argument("--device", default="gpu", help="OpenCL device (default gpu)")
    parser.add_argument(
        "--devices", type=int, default=1, help="so many devices against one of them, instead of PyTorch"
    )
    parser.add_argument("--short", action="store_true", help="only the table, not where time goes")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print(
            "skipped: torch says which weights are right, and it is not installed (pip install clcnn[bench])"
        )
        return 0
    import sessions
    import torch
    import training
    import training_devices
    import training_nets

    device = sessions.opened(args.device)
    if device is None:
        return 0
    if args.devices > 1:
        args.nets = training_nets.chosen(args.nets)
        return training_devices.run(args)
    if not torch.cuda.is_available():
        print("PyTorch sees no CUDA device: no figures of its own")
        args.peers = []
    formats = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
    args.nets = training_nets.chosen(args.nets)
    where = {name: {"device": "cuda", "memory_format": formats[name]} for name in args.peers}
    return training.run(args, device, where)


if __name__ == "__main__":
    sys.exit(main())
