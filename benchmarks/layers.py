"""Time of every layer of a net, or of cases (tests/lib/caselib.py), by device events, beside the ceilings.

    layers.py --net resnet50 --batch 8
    layers.py --cases nets_conv --match vgg19 --algorithms     # the algorithm chosen beside every other one
    layers.py --cases functions                                # functions of 16 M elements beside relu
    layers.py --cases groups --inner                           # without reorders at the ends, as inside a net
    layers.py --cases nets_conv --batch 8 --pass filter        # gradients of weights, or of maps (data)

Each figure is the minimum over rounds of the sum of a layer's steps. Bytes are those that must be read and
written. The ceilings of a CPU device are measured (ceilings.py; multiply-adds with pyopencl); --gflops and
--gbs give those of other devices.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ceilings
import common
import layer_passes
import numpy as np

import clcnn
from clcnn.graph import Graph, trace
from clcnn.ops import MADE_BY_LAYOUT

HEAD = ["layer", "algorithm", "steps", "ms", "%", "GFLOP/s", "GB/s", "% FMA", "% GB/s", "peer", "ratio"]
WIDTHS = [40, 10, 5, 9, 5, 8, 7, 6, 6, 14, 6]


def layer_times(plan: clcnn.Plan, inputs: list[np.ndarray], rounds: int) -> dict[str, dict[str, Any]]:
    """{layer: algorithm, steps, ms, macs, bytes}, in order of running; ms is the least over the rounds."""
    layers: dict[str, dict[str, Any]] = {}
    for _ in range(rounds + 2):  # the first two warm caches up and are as good as any for a minimum
        sums: dict[str, dict[str, Any]] = {}
        for step in plan.profile(*inputs).rows:
            empty = {"op": step.op, "algorithm": step.algo, "steps": 0, "ms": 0.0, "macs": 0.0, "bytes": 0.0}
            row = sums.setdefault(step.layer, empty)
            for key, value in (("steps", 1), ("ms", step.ms), ("macs", step.macs), ("bytes", step.bytes)):
                row[key] += value
        for name, row in sums.items():
            row["ms"] = min(row["ms"], layers.get(name, row)["ms"])
        layers = sums
    return layers


def figures(row: dict[str, Any], ceilings: dict[str, float | None]) -> dict[str, Any]:
    """What a JSON result says of a layer: rates, and their shares of the ceilings that are known."""
    seconds = max(row["ms"], 1e-6) / 1e3
    rates = {"gflops": 2e-9 * row["macs"] / seconds, "gbs": 1e-9 * row["bytes"] / seconds}
    shares = {f"{key}_share": rates[key] / top for key, top in ceilings.items() if top}
    return {"algorithm": row["algorithm"], "steps": row["steps"], "clcnn_ms": row["ms"], **rates, **shares}


def case_graph(case: Any, batch: int | None) -> tuple[Graph, list[np.ndarray]]:
    """A case as a graph and its inputs; batch replaces the case's own."""
    graph, inputs = Graph(), []
    known: dict[str | None, Any] = {None: None}
    for given, array in zip(case.inputs, case.data()):
        if given.constant:
            known[given.name] = graph.constant(array, given.name)
        else:
            if batch:
                array = np.resize(array, (batch, *array.shape[1:]))
            known[given.name] = graph.input(given.name, array.shape, given.dtype)
            inputs.append(array)
    for node in case.graph:
        known[node.output] = graph.apply(
            node.op, *(known[i] for i in node.inputs), name=node.output, **node.attrs
        )
    graph.output(known[case.graph[-1].output])
    return graph, inputs


def parts_of_attention(case: Any) -> tuple[Graph, list[np.ndarray]]:
    """The same as products and a softmax."""
    graph, inputs = Graph(), [array for given, array in zip(case.inputs, case.data()) if not given.constant]
    q, k, v = (graph.input(name, array.shape) for name, array in zip("qkv", inputs))
    rank = len(k.shape)
    turned = graph.apply("transpose", k, name="turned", perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = graph.apply("matmul", q, turned, name="scores")
    weights = graph.apply("softmax", scores, name="weights")
    graph.output(graph.apply("matmul", weights, v, name="product"))
    return graph, inputs


def net_results(
    args: argparse.Namespace, device: clcnn.Device, show: Callable[..., None]
) -> Iterator[dict[str, Any]]:
    """A result for each layer of the net at each batch."""
    module, shape = clcnn.zoo.get(args.net), clcnn.zoo.find(args.net).input_shape
    for batch in args.batch or [1]:
        x = np.random.default_rng(0).standard_normal((batch, *shape), np.float32)
        with clcnn.compile(trace(module, x.shape), device=device, precision=args.precision) as plan:
            layers = layer_times(plan, [x], args.rounds)
        total = sum(row["ms"] for row in layers.values())
        for name, row in layers.items():
            result = {"case": f"{args.net}:{name}", "batch": batch, "precision": args.precision, "peer": None}
            yield show(result | figures(row, args.ceilings), total)
        macs, moved = (sum(row[key] for row in layers.values()) for key in ("macs", "bytes"))
        whole = {
            "algorithm": "-",
            "steps": sum(r["steps"] for r in layers.values()),
            "ms": total,
            "macs": macs,
        }
        result = {"case": args.net, "batch": batch, "precision": args.precision, "peer": None}
        yield show(result | figures(whole | {"bytes": moved}, args.ceilings), total)


def case_results(
    args: argparse.Namespace, device: clcnn.Device, show: Callable[..., None]
) -> Iterator[dict[str, Any]]:
    """A result for each case, or with --algorithms one for each other algorithm that applies to it."""
    from caselib import cases_named

    for case in cases_named(args.cases):
        name = case.label or case.text
        if args.match not in name:
            continue
        for batch in args.batch or [None]:
            graph, inputs = case_graph(case, batch)
            with clcnn.compile(graph, device=device, precision=args.precision) as plan:
                first = next(row for row in plan.layers if row["op"] not in MADE_BY_LAYOUT)
                mine = {"algorithm": first["algo"]} | _sum(layer_times(plan, inputs, args.rounds), args.inner)
            others = [c["algo"] for c in first["candidates"] if c["verdict"] in ("not needed", "passed over")]
            result = {"case": name, "batch": inputs[0].shape[0], "precision": args.precision, "peer": None}
            result |= figures(mine, args.ceilings)
            if case.op == "scaled_dot_product_attention" and len(case.inputs) == 3 and args.algorithms:
                parts, given = parts_of_attention(case)
                with clcnn.compile(parts, device=device, fuse=False) as plan:
                    other = _sum(layer_times(plan, given, max(1, args.rounds // 4)))["ms"]
                against = {"peer": "products", "peer_ms": other, "ratio": other / mine["ms"]}
                yield show(result | against, mine["ms"])
            if not args.algorithms or not others:
                yield show(result, mine["ms"])
            for algorithm in others if args.algorithms else []:
                forced = {first["layer"]: algorithm}
                with clcnn.compile(graph, device=device, precision=args.precision, algorithms=forced) as plan:
                    other = _sum(layer_times(plan, inputs, max(1, args.rounds // 4)), args.inner)["ms"]
                against = {"peer": f"own:{algorithm}", "peer_ms": other, "ratio": other / mine["ms"]}
                yield show(result | against, mine["ms"])


def pass_results(
    args: argparse.Namespace, device: clcnn.Device, show: Callable[..., None]
) -> Iterator[dict[str, Any]]:
    """The gradient that --pass names, for each convolution of the cases, without reorders at the ends."""

    def figure(plan: clcnn.Plan, inputs: list[np.ndarray], rounds: int) -> dict[str, Any]:
        layers = layer_times(plan, inputs, rounds)
        return figures({"algorithm": layers["layer"]["algorithm"]} | _sum(layers, inner=True), args.ceilings)

    return layer_passes.results(args, device, figure, show)


# Name, operator, attributes, exponent: what `--cases functions` times, relu first.
FUNCTIONS: list[tuple[str, str, dict[str, Any], float | None]] = [
    *((name, name, {}, None) for name in ("relu", "exp", "log", "erf", "tanh", "sigmoid", "silu", "gelu")),
    ("gelu tanh", "gelu", {"approximate": "tanh"}, None),
    *((name, name, {}, None) for name in ("softplus", "mish", "hard_swish", "elu", "sqrt")),
    *((f"pow {exponent:g}", "pow", {}, exponent) for exponent in (0.5, 2.0, 3.0, -0.5, 1.7)),
]


def function_results(
    args: argparse.Namespace, device: clcnn.Device, show: Callable[..., None]
) -> Iterator[dict[str, Any]]:
    """A result for each function of elements over 16 M floats; relu's time over its own is the ratio."""
    x = np.abs(np.random.default_rng(0).standard_normal((16, 1024, 1024), np.float32)) + np.float32(0.1)
    relu = 0.0
    for name, op, attrs, exponent in FUNCTIONS:
        if args.match not in name and name != "relu":
            continue
        graph = Graph()
        more = [] if exponent is None else [graph.constant(np.array(exponent, np.float32), "exponent")]
        graph.output(graph.apply(op, graph.input("x", x.shape), *more, name="f", **attrs))
        with clcnn.compile(graph, device=device, precision=args.precision) as plan:
            whole = _sum(layer_times(plan, [x], args.rounds), args.inner)
            mine = {"algorithm": plan.layers[0]["algo"]} | whole
        relu = relu or mine["ms"]
        result = {"case": name, "batch": x.shape[0], "precision": args.precision, "peer": "own:relu"}
        result |= {"peer_ms": relu, "ratio": relu / mine["ms"]}
        yield show(result | figures(mine, args.ceilings), mine["ms"])


def _sum(layers: dict[str, dict[str, Any]], inner: bool) -> dict[str, Any]:
    """Everything that the layers of a case cost together; inner: without moves between layouts."""
    rows = [row for row in layers.values() if not inner or row["op"] not in MADE_BY_LAYOUT]
    return {key: sum(row[key] for row in rows) for key in ("steps", "ms", "macs", "bytes")}


def show(result: dict[str, Any], total: float) -> dict[str, Any]:
    """Prints a result as a table line and returns it."""
    shares = [f"{100 * result[key]:.1f}" if key in result else "-" for key in ("gflops_share", "gbs_share")]
    cells = [
        result["case"][-WIDTHS[0] :], result["algorithm"], result["steps"], f"{result['clcnn_ms']:.4f}",
        f"{100 * result['clcnn_ms'] / total:.1f}", f"{result['gflops']:.1f}", f"{result['gbs']:.1f}", *shares,
        result["peer"] or "-", f"{result['ratio']:.3f}" if result["peer"] else "-",
    ]  # fmt: skip
    print(common.table([], [cells], WIDTHS), flush=True)
    return result


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--net", default="resnet50", help="zoo name (default resnet50)")
    parser.add_argument("--cases", help="cases of tests or benchmarks, or functions, instead of a net")
    parser.add_argument("--match", default="", help="only cases whose label contains this")
    parser.add_argument(
        "--algorithms", action="store_true", help="with --cases: time every algorithm that applies"
    )
    parser.add_argument(
        "--inner", action="store_true", help="with --cases: without reorders, which the middle of a net lacks"
    )
    parser.add_argument(
        "--pass",
        dest="which",
        choices=["data", "filter"],
        help="with --cases: gradients of the convolutions, beside their own forward pass and PyTorch",
    )
    parser.add_argument("--batch", type=common.ints, help="batch sizes (default 1, or a case's own)")
    parser.add_argument("--precision", default="highest", help="clcnn.compile's word (default highest)")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument("--gflops", type=float, help="the device's FMA ceiling in GFLOP/s")
    parser.add_argument("--gbs", type=float, help="the device's bandwidth ceiling in GB/s")
    args = parser.parse_args()
    device = clcnn.Device(args.device)
    if device.type == "cpu":
        args.gbs = args.gbs or ceilings.copy_bandwidth()
        args.gflops = args.gflops or ceilings.fma_rate(device)
    args.ceilings = {"gflops": args.gflops, "gbs": args.gbs}
    known = ", ".join(f"{value:.0f} {key}" for key, value in args.ceilings.items() if value)
    print(f"{device.name}; ceilings: {known or 'none given'}")
    print(common.table(HEAD, [], WIDTHS))
    chosen = {None: net_results, "functions": function_results}.get(args.cases, case_results)
    if args.which and args.cases:
        chosen = pass_results
    results = list(chosen(args, device, show))
    common.finish(results, args.json, device=device.name, ceilings=args.ceilings)
    return 0


if __name__ == "__main__":
    sys.exit(main())
