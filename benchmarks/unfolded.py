"""Convolutions of nets by lists of what is not zero, beside cuSPARSE's product of the unfolded map.

The unfolded map has a row for each output pixel and a column for each place of its window, as a CSR matrix;
making it is left out of its time, while the lists of `ecr` are made in every run. The filters are dense. Half
of each map's elements are zeros, at random places, as a ReLU leaves them of normal numbers. Beside them: what
the rules choose for the same layer, on tensor cores where the device has them.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import algorithms
import common
import numpy as np
import strategy

import clcnn
from clcnn import zoo
from clcnn.graph import trace

NETS = ("vgg19", "resnet50", "densenet121", "regnet_x_16gf")
BATCH = 32
ERROR_LIMIT = 4e-6  # of the rms
WAIT_CYCLES = 10_000_000  # of a GPU's clock: a few ms
PEER_LIMIT = 1e-5  # the same of cuSPARSE
HEAD = ["layer", "times", "density", "ecr ms", "cuSPARSE ms", "ratio", "rules", "ms", "ratio"]
WIDTHS = [34, 5, 7, 9, 11, 6, 14, 8, 6]


def points_of(net: str) -> Counter[algorithms.Point]:
    """Its convolutions but the first, whose input has no zeros, and how often each comes."""
    graph = trace(zoo.get(net), (BATCH, *zoo.find(net).input_shape))
    found: Counter[algorithms.Point] = Counter()
    for record in graph.records:
        if record.kind == "node" and record.op == "conv" and graph.shape(record.inputs[0])[1] > 3:
            x, w = (graph.shape(value) for value in record.inputs[:2])
            a = record.attrs
            point = algorithms.Point(w[2], x[1], w[0], x[2], BATCH, a["stride"][0], True, a["groups"])
            if tuple(a["padding"]) != (point.padding,) * 2 or x[2] != x[3] or w[2] != w[3]:
                raise common.Wrong(f"{net}: {record.name} is no square convolution with usual padding")
            found[point] += 1
    return found


def torch_with_gpu() -> Any:
    """PyTorch; None where it, or a GPU of its, is missing, which is told."""
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch, through which cuSPARSE is called")
        return None
    if torch.cuda.is_available():
        return torch
    print("skipped: PyTorch has no GPU, on which cuSPARSE would run")
    return None


class Csr:
    """A layer as products of CSR matrices, one for each group, by filters."""

    def __init__(self, torch: Any, point: algorithms.Point, x: np.ndarray, w: np.ndarray, place: str) -> None:
        self.torch, self.place = torch, place
        pad = point.padding
        groups = torch.from_numpy(x).to(place).chunk(point.groups, 1)
        filters = torch.from_numpy(w).to(place).chunk(point.groups, 0)
        self.filters = [f.flatten(1).t().contiguous() for f in filters]
        self.matrices = []
        for part in groups:
            windows = torch.nn.functional.unfold(part, point.kernel, padding=pad, stride=point.stride)
            dense = windows.transpose(1, 2).reshape(-1, windows.shape[1])
            csr = dense.to_sparse_csr()
            del windows, dense
            index = csr.crow_indices().int(), csr.col_indices().int()
            self.matrices.append(torch.sparse_csr_tensor(*index, csr.values(), csr.shape))

    def __call__(self) -> list[Any]:
        return [m @ f for m, f in zip(self.matrices, self.filters)]

    def result(self, like: tuple[int, ...]) -> np.ndarray:
        """As NCHW."""
        n, k, h, w = like
        return self.torch.cat(self(), 1).reshape(n, h, w, k).permute(0, 3, 1, 2).contiguous().cpu().numpy()

    def ms(self) -> float:
        """Of one pass, on the GPU, which is kept waiting until all is launched."""
        events = [self.torch.cuda.Event(enable_timing=True) for _ in range(2)]
        self.torch.cuda._sleep(WAIT_CYCLES)
        events[0].record()
        self()
        events[1].record()
        self.torch.cuda.synchronize()
        return float(events[0].elapsed_time(events[1]))


def measured(
    torch: Any, point: algorithms.Point, device: clcnn.Device, args: argparse.Namespace
) -> dict[str, Any]:
    """A layer by all three. Raises Wrong where a result is off."""
    graph, x, w = algorithms.graph_of(point)
    x = np.maximum(x, 0, out=x)
    with ExitStack() as stack:
        given = {"device": device, "tune": "off"}
        plans = {"rules": stack.enter_context(clcnn.compile(graph, **given))}
        plans["ecr"] = stack.enter_context(clcnn.compile(graph, algorithms={"conv": "ecr"}, **given))
        y = {name: plan(x) for name, plan in plans.items()}
        peer = Csr(torch, point, x, w, "cuda")
        y["cuSPARSE"] = peer.result(y["ecr"].shape)
        error = {name: algorithms.rms_error(point, found, x, w) for name, found in y.items()}
        for name, off in error.items():
            if not off <= (PEER_LIMIT if name == "cuSPARSE" else ERROR_LIMIT):
                raise common.Wrong(f"{name} is off by {off:.2g} of the rms")
        times: dict[str, list[float]] = {name: [] for name in y}
        for _ in range(args.rounds):
            times["cuSPARSE"].append(peer.ms())
            for name, plan in plans.items():
                times[name].append(algorithms.layer_time(plan, x)[0])
        (row,) = (row for row in plans["rules"].layers if row["layer"] == "conv")
    best = {name: min(found) for name, found in times.items()}
    case = {"case": point.name, "batch": point.batch, "precision": "highest", "algorithm": "ecr"}
    case |= {"density": float(np.count_nonzero(x)) / x.size, "rms_error": error["ecr"]}
    case |= strategy.beside(best["ecr"], "cuSPARSE", best["cuSPARSE"])
    return case | {"rules": row["algo"], "rules_ms": best["rules"]}


def show(row: dict[str, Any]) -> None:
    cells = [
        row["case"],
        row["times"],
        f"{row['density']:.2f}",
        f"{row['clcnn_ms']:.3f}",
        f"{row['peer_ms']:.3f}",
    ]
    cells += [f"{row['ratio']:.2f}", row["rules"], f"{row['rules_ms']:.3f}"]
    print(common.table([], [[*cells, f"{row['rules_ms'] / row['clcnn_ms']:.2f}"]], WIDTHS), flush=True)


def layers_of(
    torch: Any, net: str, device: clcnn.Device, args: argparse.Namespace
) -> Iterator[dict[str, Any] | None]:
    """The layers of a net, None for one that failed."""
    for point, count in points_of(net).items():
        try:
            row = {"net": net, "times": count} | measured(torch, point, device, args)
            show(row)
            yield row
        except (clcnn.Error, common.Wrong, torch.cuda.OutOfMemoryError) as error:
            print(f"{net}, {point.name}: {type(error).__name__}: {error}"[:300])
            yield None


def cusparse(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """The layers of each net, and the net together."""
    torch = torch_with_gpu()
    if not torch:
        return [], 0
    torch.backends.cuda.matmul.allow_tf32 = False
    print(common.table(HEAD, [], WIDTHS))
    results: list[dict[str, Any]] = []
    failed = 0
    for net in NETS:
        rows = list(layers_of(torch, net, device, args))
        found = [row for row in rows if row]
        failed += len(rows) - len(found)
        if not found:
            continue
        whole = {
            key: sum(row["times"] * row[key] for row in found) for key in ("clcnn_ms", "peer_ms", "rules_ms")
        }
        ours, csr, rules = whole.values()
        print(f"{net}: ecr {ours:.2f} ms, cuSPARSE {csr / ours:.2f} times that, the rules {rules / ours:.2f}")
        results += found
    return results, failed
