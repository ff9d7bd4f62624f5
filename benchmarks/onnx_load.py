"""Loading an ONNX file: session creation beside onnxruntime's, and the memory it takes.

Every figure comes from a fresh process whose imports are done and, on our side, whose device is open; the
kernel cache is warm. ResNet-50 (102 MB) should take at most twice onnxruntime's time to a session that can
run, and at most twice the file of memory: what the session holds, and what was needed on the way. To parse
the file in one piece takes more than that; it is measured too, for comparison.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import common
import numpy as np

TIME_LIMIT = 2.0  # of onnxruntime's
MEMORY_LIMIT = 2.0  # of the file
MIB = 1 << 20


def export(net: str, path: Path) -> None:
    """The zoo's net with random weights and a batch of one."""
    import clcnn

    clcnn.onnx.save(clcnn.zoo.get(net), path, (1, *clcnn.zoo.find(net).input_shape))


# ---- in a fresh process ----


def _clcnn(device: str) -> Any:
    import clcnn
    import clcnn.onnx
    import clcnn.session

    opened = clcnn.Device(device)
    return lambda path: clcnn.InferenceSession(path, device=opened)


def _onnxruntime(device: str) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = common.cores()
    return lambda path: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _parser(device: str) -> Any:
    import onnx

    return lambda path: onnx.ModelProto.FromString(Path(path).read_bytes())


CHILDREN = {"clcnn": _clcnn, "onnxruntime": _onnxruntime, "parser": _parser}


def child(who: str, path: str, device: str) -> dict[str, Any]:
    """Milliseconds to a session and to its first result, MiB that the process gained at the end and at most,
    and the output's checksum; of the parser alone the memory at most."""
    create = CHILDREN[who](device)
    before = common.rss_mib()
    start = time.perf_counter()
    session = create(path)
    load_ms = 1e3 * (time.perf_counter() - start)
    loaded, peak = common.rss_mib(), common.rss_mib("VmHWM")
    if who == "parser":
        return {"peak_rss_mib": peak - before}
    (given,) = session.get_inputs()
    x = np.random.default_rng(0).standard_normal(given.shape).astype(np.float32)
    start = time.perf_counter()
    (y,) = session.run(None, {given.name: x})
    return {
        "load_ms": load_ms,
        "first_run_ms": 1e3 * (time.perf_counter() - start),
        "rss_mib": loaded - before,
        "peak_rss_mib": peak - before,
        "output": [float(v) for v in y.ravel()[:8]],
        "scale": float(np.abs(y).max()),
    }


def fresh(who: str, path: Path, device: str) -> dict[str, Any]:
    """child() in a new process."""
    command = [sys.executable, __file__, "--child", who, "--file", str(path), "--device", device]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout))


# ---- the comparison ----


def best(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The least of each figure over several processes."""
    keys = [key for key, value in rows[0].items() if isinstance(value, float)]
    return {key: min(row[key] for row in rows) for key in keys}


def compare(net: str, args: argparse.Namespace, peers: list[str]) -> list[dict[str, Any]]:
    """Result rows of a net, one a peer, or one alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"{net}.onnx")
        export(net, path)
        size = path.stat().st_size / MIB
        fresh("clcnn", path, args.device)  # fills the kernel cache
        rows: dict[str, list[dict[str, Any]]] = {who: [] for who in ["clcnn", "parser", *peers]}
        for _ in range(args.repeats):
            for who, found in rows.items():
                found.append(fresh(who, path, args.device))
    ours = best(rows["clcnn"])
    base = {"case": net, "batch": 1, "precision": "highest", "file_mib": size, "clcnn_ms": ours["load_ms"]}
    base |= {key: ours[key] for key in ("first_run_ms", "rss_mib", "peak_rss_mib")}
    base["parser_peak_rss_mib"] = best(rows["parser"])["peak_rss_mib"]
    base["memory_pass"] = max(ours["rss_mib"], ours["peak_rss_mib"]) <= MEMORY_LIMIT * size
    made = []
    for who in peers:
        theirs = best(rows[who])
        a, b = (np.array(rows[name][0]["output"]) for name in ("clcnn", who))
        error = float(np.abs(a - b).max() / rows[who][0]["scale"])
        if error > 1e-3:
            raise SystemExit(f"{net}: clcnn and {who} disagree by {error:.2g}")
        ratio = theirs["load_ms"] / ours["load_ms"]
        made.append(
            base
            | {"peer": who, "peer_ms": theirs["load_ms"], "ratio": ratio, "max_error": error}
            | {f"peer_{key}": theirs[key] for key in ("rss_mib", "peak_rss_mib")}
            | {"time_pass": ratio >= 1 / TIME_LIMIT}
        )
    return made or [base | {"peer": None}]


def show(row: dict[str, Any]) -> None:
    """A result for people."""
    print(
        f"{row['case']}: file {row['file_mib']:.1f} MiB, session {row['clcnn_ms']:.0f} ms, first run "
        f"{row['first_run_ms']:.0f} ms; memory {row['rss_mib']:.0f} MiB "
        f"({row['rss_mib'] / row['file_mib']:.2f} x file, limit {MEMORY_LIMIT:g}), at most "
        f"{row['peak_rss_mib']:.1f} MiB on the way ({row['peak_rss_mib'] / row['file_mib']:.3f} x, limit "
        f"{MEMORY_LIMIT:g}): {'pass' if row['memory_pass'] else 'FAIL'}; parsed in one piece "
        f"{row['parser_peak_rss_mib'] / row['file_mib']:.3f} x"
    )
    if row["peer"]:
        print(
            f"    {row['peer']}: session {row['peer_ms']:.0f} ms, ratio {row['ratio']:.2f} "
            f"(limit {1 / TIME_LIMIT:g}: {'pass' if row['time_pass'] else 'FAIL'}); memory "
            f"{row['peer_rss_mib']:.0f} MiB, at most {row['peer_peak_rss_mib']:.0f} MiB",
            flush=True,
        )


def main() -> int:
    parser = common.arguments(__doc__)
    parser.add_argument("--nets", type=common.names, default=["resnet50"], help="zoo names, with commas")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes for a minimum (default 5)")
    parser.add_argument("--child", choices=CHILDREN, help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(child(args.child, args.file, args.device)))
        return 0
    if importlib.util.find_spec("onnx") is None:
        print("skipped: the package onnx is not installed (pip install clcnn[onnx])")
        return 0
    peers = [who for who in ("onnxruntime",) if importlib.util.find_spec(who)]
    if not peers:
        print("onnxruntime: skipped, it is not installed (pip install clcnn[bench])")
    results: list[dict[str, Any]] = []
    for net in args.nets:
        made = compare(net, args, peers)
        for row in made:
            show(row)
        results += made
        common.write(results, args.json, device=args.device)
    common.finish(results, args.json, device=args.device)
    return int(not all(row["memory_pass"] and row.get("time_pass", True) for row in results))


if __name__ == "__main__":
    sys.exit(main())
