"""Two nets beside the way that frameworks of their time computed them: a column matrix and CLBlast's product
for every convolution, group by group, and every layer by itself.

    baselines.py                                # on the CPU
    baselines.py --device nvidia --batch 1

MobileNet v1's depthwise layers are then a loop over their groups; the 21-layer ResNet is zoo's resnet18. The
ratio is the time of that over the default plan's.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

import common
import sessions
import strategy

NETS = ["mobilenet_v1", "resnet18"]
BASELINE = "im2col"
HEAD = ["net", "batch", "precision", "clcnn ms", "baseline", "its ms", "ratio"]


def main() -> int:
    args = strategy.arguments(__doc__, NETS).parse_args()
    device = sessions.opened(args.device)
    if device is None:
        return 0
    print(common.table(HEAD, [], strategy.SINGLE_WIDTHS))
    results: list[dict[str, Any]] = []
    failed = 0
    for case, graph, x in strategy.cases(args.nets, args):
        row = partial(strategy.single, case, BASELINE, graph, x, device, args, fuse=False, chain=False)
        failed += strategy.attempt(results, row, case["case"])
    common.finish(results, args.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
