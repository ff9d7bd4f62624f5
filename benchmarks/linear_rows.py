"""Linear layers of one row whose inputs have zeros, with skipping and without: `sparsity.py --linear`."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

import algorithms
import common
import numpy as np
import strategy

import clcnn
from clcnn import ops
from clcnn.graph import Graph

ERROR_LIMIT = 4e-6  # of the rms, as the tests hold normal distributions to it
HEAD = ["layer", "algorithm", "density", "rms error", "skip ms", "all ms", "ratio"]
WIDTHS = [14, 10, 7, 9, 8, 8, 6]
INPUTS, OUTPUTS = (9216, 4096, 25088), 4096
DENSITIES = (1.0, 0.5, 0.35, 0.2)


def row_of(inputs: int, density: float) -> np.ndarray:
    """Positive numbers, and zeros at random places."""
    rng = np.random.default_rng(1)
    x = np.abs(rng.standard_normal((1, inputs), np.float32)) + np.float32(0.1)
    x[0, rng.permutation(inputs)[round(density * inputs) :]] = 0.0
    return x


def linear(device: clcnn.Device, args: argparse.Namespace) -> tuple[list[dict[str, Any]], int]:
    """Linear layers behind a relu, as the rules choose them with skipping and without."""
    print(common.table(HEAD, [], WIDTHS))
    results: list[dict[str, Any]] = []
    for inputs in INPUTS:
        w = np.random.default_rng(0).standard_normal((OUTPUTS, inputs), np.float32)
        graph = Graph()
        graph.output(ops.linear(ops.relu(graph.input("x", (1, inputs))), w, name="linear"), "y")
        with ExitStack() as stack:
            plans = {
                skip: stack.enter_context(clcnn.compile(graph, device=device, skip=skip, tune="off"))
                for skip in (True, False)
            }
            (row,) = (row for row in plans[True].layers if row["layer"] == "linear")
            for density in DENSITIES:
                x = row_of(inputs, density)
                wanted = x.astype(np.float64) @ w.astype(np.float64).T
                found = [common.checked(plan(x), wanted, ERROR_LIMIT) for plan in plans.values()]
                times = algorithms.paired(plans, x, args.rounds, "linear")
                case = {"case": f"{inputs} to {OUTPUTS}", "batch": 1, "precision": "highest"}
                case |= {"algorithm": row["algo"], "density": density} | found[0]
                results.append(case | strategy.beside(times[True], "own:skip=False", times[False]))
                show(results[-1])
    return results, 0


def show(row: dict[str, Any]) -> None:
    cells = [row["case"], row["algorithm"], f"{row['density']:.2f}", f"{row['rms_error']:.0e}"]
    cells += [f"{row['clcnn_ms']:.3f}", f"{row['peer_ms']:.3f}", f"{row['ratio']:.3f}"]
    print(common.table([], [cells], WIDTHS), flush=True)
