"""Measures the fastest algorithm of every layer of the nets and writes the table of a device (clcnn.wisdom).

    tune.py --device nvidia --out python/clcnn/wisdom/nvidia_h200.txt

A table holds only layers for which the rules choose something slower; it is used by default where a device
has the file's name. Run again after changes to kernels or rules.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import common
import sessions

from clcnn import wisdom, zoo
from clcnn.graph import trace
from clcnn.wisdom.measure import measure


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=common.NETS, help="zoo names, with commas")
    parser.add_argument("--batch", type=common.ints, default=[1, 32], help="batch sizes (default 1,32)")
    parser.add_argument("--precision", type=common.names, default=["highest", "high"])
    parser.add_argument("--device", default="gpu", help="OpenCL device (default gpu)")
    parser.add_argument("--out", type=Path, help="file of the table (default: the user's own)")
    args = parser.parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    path = args.out or wisdom.own_file(device)
    table: wisdom.Wisdom = {}
    for name in args.nets:
        module, shape = zoo.get(name), zoo.find(name).input_shape
        for batch in args.batch:
            for precision in args.precision:
                start = time.perf_counter()
                graph = trace(module, (batch, *shape))
                found = measure(graph, device, precision=precision, rounds=args.rounds)
                table |= found.choices
                seconds = time.perf_counter() - start
                choices = f"{len(found.choices)} choices"
                print(f"{name} batch {batch} {precision}: {choices}, {seconds:.1f} s", flush=True)
                if path:
                    wisdom.write(path, table, f"{device.name}, by benchmarks/tune.py: layer, algorithm")
    print(f"{len(table)} choices{f', wrote {path}' if path else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
