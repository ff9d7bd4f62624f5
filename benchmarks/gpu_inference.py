"""Inference on a GPU: clcnn beside PyTorch and cuDNN (eager, CUDA graph, torch.compile), same weights.

Minimum of interleaved rounds in one process, each finished before the next starts; tensors stay on the GPU.
The JSON also has times from host array to host array (clcnn_host_ms, peer_host_ms). precision "highest"
meets PyTorch's strict float32, "high" its tf32. --peers tinygrad,opencv are others on OpenCL, in float32.
The last lines compare with the fastest of PyTorch's three. Without CUDA, those that need it are left out.
"""

from __future__ import annotations

import importlib.util
import sys

import common

PEERS = ["torch-eager", "torch-cudagraph", "torch-compile"]
ON_CUDA = frozenset(PEERS)


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=common.NETS, help="zoo names, with commas")
    parser.add_argument("--batch", type=common.ints, default=[1, 32], help="batch sizes (default 1,32)")
    parser.add_argument("--peers", type=common.names, default=PEERS, help='also tinygrad, opencv; or "none"')
    parser.add_argument("--precision", type=common.names, default=["highest"], help="clcnn.compile's words")
    parser.add_argument("--device", default="gpu", help="OpenCL device (default gpu)")
    args = parser.parse_args()
    if not importlib.util.find_spec("torch"):
        print(
            "skipped: torch says which logits are right, and it is not installed (pip install clcnn[bench])"
        )
        return 0
    import inference
    import peers
    import sessions
    import torch

    device = sessions.opened(args.device)
    if device is None:
        return 0
    if not torch.cuda.is_available():
        print("PyTorch sees no CUDA device: no figures of its own")
        args.peers = [name for name in args.peers if name not in ON_CUDA]
    return inference.run(args, device, peers.GPU)


if __name__ == "__main__":
    sys.exit(main())
