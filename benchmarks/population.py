"""Networks that no rule was made for, beside OpenVINO and onnxruntime or, on GPUs, PyTorch.

    population.py --list
    population.py --nets core --batch 1,8                                  # a group, two batches
    population.py --nets 'mobilenet*,timm:edgenext_xx_small,-mobilenet_v2' --profile
    population.py --device nvidia --batch 1,32 --precision highest,high --jobs 8 --workers 4 --seconds 0.5
    population.py --prepare --jobs 4                                       # only make the files

Networks come from torchvision and timm, or are written out in population_nets/, and are exported to ONNX on
the spot, with seeded weights and batch norms' statistics measured. The files are kept below --cache, about
6 GB for all networks at one batch. On CPU devices the peers are OpenVINO and onnxruntime (and torch, if asked
for) with as many threads as cores and float32, on GPUs PyTorch's CUDA graphs in both layouts: strict float32,
and tf32 for "high". The result is compared first: with onnxruntime's, or with PyTorch's strict float32.

Each network runs in a process of its own. One that is not exported is told and left aside; one that clcnn
cannot import, compile or run, that is wrong or that takes longer than --limit counts as failed, and so does
the script. The ratio is that to the faster peer: above 1 clcnn is faster. Then come the shares of the
operators and their algorithms in clcnn's time. A machine that reaches no other needs no files from elsewhere:
torch, torchvision, timm, onnx and onnxscript make all of them there.
"""

from __future__ import annotations

import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from argparse import SUPPRESS, Namespace
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import zip_longest
from pathlib import Path
from typing import Any

import common
import population_nets
from population_case import MARK, obey

SCRIPT = Path(__file__)
NEEDED = ("torch", "torchvision", "timm", "onnx", "onnxscript")
PEERS = ["openvino", "onnxruntime", "torch-nchw", "torch-nhwc"]
HEAD = [
    "network",
    "batch",
    "precision",
    "clcnn ms",
    "peer",
    "peer ms",
    "peer",
    "peer ms",
    "ratio",
    "rms error",
    "compile s",
]
WIDTHS = [20, 5, 9, 9, 11, 9, 11, 9, 6, 9, 9]
SHOWN = 4
Record = dict[str, Any]


# ---- figures ----


def fastest(record: Record) -> tuple[str, float] | None:
    """The peer with the least time, and its time over ours; None where no peer was timed."""
    timed = {name: fact["ms"] for name, fact in record.get("peers", {}).items() if "ms" in fact}
    if not timed or "clcnn_ms" not in record:
        return None
    name = min(timed, key=lambda n: timed[n])
    return name, timed[name] / record["clcnn_ms"]


def rows_of(record: Record) -> list[Record]:
    """The JSON's results of a case: one for each peer that was timed, or one without a peer."""
    if "clcnn_ms" not in record:
        return []
    plain = {
        key: value for key, value in record.items() if key not in ("peers", "operators", "slowest_layers")
    }
    made = []
    for name, fact in record["peers"].items():
        if "ms" in fact:
            told = {f"peer_{key}": value for key, value in fact.items()}
            made.append(plain | {"peer": name, **told, "ratio": fact["ms"] / record["clcnn_ms"]})
    return made or [plain | {"peer": None}]


def summary(records: Iterable[Record]) -> dict[str, Record]:
    """For each precision and batch: cases, geometric mean of the ratios to the faster peer, the worst, those
    below 1, and those that failed. What was not exported does not count."""
    found: dict[str, Record] = {}
    for record in records:
        key = f"{record['precision']}, batch {record['batch']}"
        empty: Record = {"cases": 0, "rows": [], "failed": []}
        here = found.setdefault(key, empty)
        if left_aside(record):
            continue
        here["cases"] += 1
        best = fastest(record)
        if "failed" in record:
            here["failed"].append(record["case"])
        elif best:
            here["rows"].append({"peer": key, "ratio": best[1], "case": record["case"]})
    for key, here in found.items():
        rows = sorted(here.pop("rows"), key=lambda row: row["ratio"])
        here["geomean"] = common.geomeans(rows).get(key)
        here["worst"] = [rows[0]["case"], rows[0]["ratio"]] if rows else None
        here["below_1"] = [row["case"] for row in rows if row["ratio"] < 1]
    return found


def left_aside(record: Record) -> bool:
    """Whether the case says nothing of clcnn: there is no file, or no reference."""
    return record.get("failed", {}).get("phase") in ("export", "reference")


def shares_line(operators: list[Record], most: int | None = SHOWN) -> str:
    """matmul tiled 91 %, erf map 6 %, ..."""
    return ", ".join(f"{r['op']} {r['algorithm']} {100 * r['share']:.0f} %" for r in operators[:most])


# ---- a process for each network ----


def events(order: Record, limit_s: float) -> Iterator[Record]:
    """What a new process tells of the order; the last event has "ended". It has `limit_s` for each case, and
    then is ended with all that it started."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, str(SCRIPT), "--order", json.dumps(order)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
        told: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=_read_into, args=(child.stdout, told), daemon=True)
        reader.start()
        try:
            yield from _until_the_end(told, limit_s)
            status = child.wait(timeout=30)
            errors.seek(0)
            last = " ".join(errors.read()[-400:].split())
            yield {"ended": f"its process ended with status {status}: {last}"}
        except subprocess.TimeoutExpired:
            yield {"ended": f"too slow: not done within {limit_s:g} s"}
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
            reader.join()  # at the end of what the process wrote
            with child:  # closes its streams and waits for it
                pass


def _read_into(stream: Any, told: queue.Queue[str | None]) -> None:
    for line in stream:
        told.put(line)
    told.put(None)


def _until_the_end(told: queue.Queue[str | None], limit_s: float) -> Iterator[Record]:
    deadline = time.monotonic() + limit_s
    waiting_since: float | None = None  # for the device, which is not the case's own time
    while True:
        try:
            left = None if waiting_since else max(deadline - time.monotonic(), 0.01)
            line = told.get(timeout=left)
        except queue.Empty as error:
            raise subprocess.TimeoutExpired("", limit_s) from error
        if line is None:
            return
        if line.startswith(MARK):
            event = json.loads(line.removeprefix(MARK))
            if waiting_since:
                deadline += time.monotonic() - waiting_since
            waiting_since = time.monotonic() if "waits" in event else None
            if not event.keys() & {"phase", "waits"}:
                deadline = time.monotonic() + limit_s
            yield event


def measured(order: Record, cases: list[tuple[int, str]], limit_s: float) -> Iterator[Record]:
    """A record for each case of a network. A process that crashes or is too slow fails the case that it was
    at, and another one takes the rest."""
    left = list(cases)
    while left:
        phase, known = "start", {}
        for event in events(order | {"cases": list(left), "prepare": []}, limit_s):
            if "phase" in event:
                phase, known = event.pop("phase"), known | event
            if not left or not event.keys() & {"done", "failed", "ended"}:
                continue
            batch, precision = left.pop(0)
            record: Record = {"case": order["name"], "batch": batch, "precision": precision}
            if "ended" in event:
                event = {"failed": {"phase": phase, "kind": "ended", "message": event["ended"]}}
            yield record | event.get("done", known | event)
            phase, known = "start", {}


def prepared(order: Record, batches: list[int], threads: int, limit_s: float) -> str:
    """Makes a network's files; gives what to say of it."""
    start = time.perf_counter()
    found = list(events(order | {"cases": [], "prepare": batches, "threads": threads}, limit_s))
    trouble = [event["failed"]["message"] for event in found if "failed" in event]
    if len(found) - 1 < len(batches):
        trouble.append(found[-1]["ended"])
    return f"{order['name']}: {'; '.join(trouble) or f'exported, {time.perf_counter() - start:.0f} s'}"


def prepare(orders: list[Record], args: Namespace) -> list[Future[str]]:
    """Begins to make the files of all networks, --jobs at a time, in their order; a message of each."""
    jobs = max(args.jobs, 1)
    pool = ThreadPoolExecutor(jobs)
    threads = max(common.cores() // jobs, 1)
    made = [pool.submit(prepared, order, args.batch, threads, args.limit) for order in orders]
    pool.shutdown(wait=False)
    return made


# ---- for people ----


def show(record: Record, profile: bool) -> None:
    """Table lines of a case."""
    where = [record["case"], record["batch"], record["precision"]]
    if "failed" in record:
        failed = record["failed"]
        print(
            f"{common.table([], [where], WIDTHS[:3])}  FAILED at {failed['phase']}: {failed['message']}",
            flush=True,
        )
        if "operators" in record:
            print(f"    {shares_line(record['operators'])}", flush=True)
        return
    cells: list[Any] = [*where, f"{record['clcnn_ms']:.3f}"]
    timed = [(name, f"{fact['ms']:.3f}") for name, fact in record["peers"].items() if "ms" in fact]
    for name, ms in (timed + [("-", "-")] * 2)[:2]:
        cells += [name, ms]
    best = fastest(record)
    cells += [f"{best[1]:.2f}" if best else "-", f"{record['rms_error']:.0e}", f"{record['compile_s']:.1f}"]
    print(common.table([], [cells], WIDTHS))
    print(f"    {shares_line(record['operators'], None if profile else SHOWN)}", flush=True)
    for name, fact in record["peers"].items():
        if "left_out" in fact:
            print(f"    {name} left out: {fact['left_out']}", flush=True)
    if profile:
        for row in record["slowest_layers"]:
            rate = 2e-6 * row["macs"] / max(row["ms"], 1e-9)
            what = f"{row['op']} {row['algorithm']}"
            print(f"    {row['ms']:9.3f} ms  {rate:7.1f} GFLOP/s  {what}  {row['layer']}", flush=True)


def show_summary(found: dict[str, Record]) -> None:
    """The lines that a goal is held against."""
    for key, here in found.items():
        print(f"{key}: {here['cases']} networks, {len(here['failed'])} failed", end="")
        if here["geomean"]:
            name, ratio = here["worst"]
            mean = f"geometric mean {here['geomean']:.3f} against the faster peer"
            print(f"; {mean}, worst {ratio:.3f} ({name}), {len(here['below_1'])} below 1", end="")
        print()
        for what in ("failed", "below_1"):
            if here[what]:
                print(f"    {what.replace('_', ' ')}: {', '.join(here[what])}")


def default_cache() -> Path:
    """A folder of the user's."""
    try:
        import platformdirs
    except ImportError:
        return Path.home() / ".cache" / "clcnn" / "population"
    return Path(platformdirs.user_cache_dir("clcnn")) / "population"


def arguments() -> Namespace:
    parser = common.arguments(__doc__)
    parser.add_argument(
        "--nets",
        type=common.names,
        default=["all"],
        help="names, groups, patterns, timm:NAME; -NAME takes one away, NAME@160x192 has other images",
    )
    parser.add_argument("--list", action="store_true", help="tell the networks and groups, and stop")
    parser.add_argument("--batch", type=common.ints, default=[1], help="batch sizes (default 1)")
    parser.add_argument("--precision", type=common.names, default=["highest"], help="clcnn.compile's words")
    parser.add_argument("--device", default="cpu", help="OpenCL device (default cpu)")
    parser.add_argument("--peers", type=common.names, default=PEERS, help='also torch, on the CPU; or "none"')
    parser.add_argument("--profile", action="store_true", help="all operators, and the slowest layers")
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds that a case may take (default 300)"
    )
    parser.add_argument(
        "--cache", type=Path, default=default_cache(), help="folder of the files (default: the user's cache)"
    )
    parser.add_argument(
        "--exporter", choices=["dynamo", "torchscript"], default="dynamo", help="PyTorch's (default dynamo)"
    )
    parser.add_argument(
        "--jobs", type=int, default=0, help="make the files ahead, so many at a time (default: as needed)"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        help="GPUs: networks at a time, loaded together but timed alone (default 1)",
    )
    parser.add_argument("--prepare", action="store_true", help="make the files, and stop")
    parser.add_argument("--order", type=json.loads, help=SUPPRESS)  # for a process of one network
    return parser.parse_args()


def orders_of(args: Namespace) -> list[Record]:
    """What each network's process is told. Raises SystemExit for a name that is not known."""
    try:
        chosen = population_nets.select(args.nets)
    except ValueError as error:
        raise SystemExit(str(error)) from error
    shared = {
        "cache": str(args.cache.absolute()), "exporter": args.exporter, "device": args.device,
        "peers": args.peers, "rounds": args.rounds, "seconds": args.seconds,
    }  # fmt: skip
    return [
        {"name": name, "source": e.source, "shape": e.shape, "options": e.options, **shared}
        for name, e in chosen.items()
    ]


def show_list() -> None:
    for name, entry in population_nets.NETS.items():
        shape = "x".join(map(str, entry.shape or ()))
        print(common.table([], [[name, shape, entry.source, " ".join(entry.groups)]], [20, 14, 34, 30]))
    for group, members in population_nets.groups().items():
        print(f"{group}: {len(members)} networks")


def main() -> int:
    args = arguments()
    if args.order:
        obey(args.order)
        return 0
    if args.list:
        show_list()
        return 0
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        print(
            f"skipped: {', '.join(missing)}, of {', '.join(NEEDED)}: not installed (pip install clcnn[bench])"
        )
        return 0
    orders = orders_of(args)
    if args.prepare:
        for file in prepare(orders, args):
            print(file.result(), flush=True)
        return 0
    for name in ("openvino", "onnxruntime"):
        if name in args.peers and not importlib.util.find_spec(name):
            print(f"{name}: skipped, it is not installed (pip install clcnn[bench])")
    import clcnn

    try:
        with clcnn.Device(args.device) as device:
            about = {"device": device.name, "driver": device.platform, "on_cpu": device.type == "cpu"}
    except clcnn.NoDeviceError as error:
        print(f"skipped: {str(error).splitlines()[0]}")
        return 0
    print(
        f"clcnn {clcnn.__version__} on {about['device']}, minimum of up to {args.rounds} interleaved rounds"
    )
    return compare(args, orders, about)


def compare(args: Namespace, orders: list[Record], about: Record) -> int:
    """All networks in turn; returns the exit status: 1 when one of ours failed."""
    files = prepare(orders, args) if args.jobs else []
    records: list[Record] = []
    cases = [(batch, precision) for batch in args.batch for precision in args.precision]
    try:
        if about["on_cpu"]:  # else cores are free while the device is timed
            wait(files)
        print(common.table(HEAD, [], WIDTHS))
        workers = 1 if about["on_cpu"] else args.workers
        for record in in_turn(orders, files, workers, lambda order: measured(order, cases, args.limit)):
            records.append(record)
            show(record, args.profile)
            write(records, args.json, about)
    finally:
        for file in files:
            file.cancel()  # else an interrupted run would first make them all
    show_summary(summary(records))
    if args.json:
        print(f"wrote {args.json}")
    return int(any("failed" in r and not left_aside(r) for r in records))


def in_turn(
    orders: list[Record],
    files: list[Future[str]],
    workers: int,
    records: Callable[[Record], Iterator[Record]],
) -> Iterator[Record]:
    """The records of all orders, `workers` at a time; only one is being timed at any moment."""
    with tempfile.TemporaryDirectory() as folder:

        def of(order: Record, file: Future[str] | None) -> Iterator[Record]:
            if file:
                file.result()
            yield from records(order | {"lock": str(Path(folder, "lock"))})

        if workers == 1:
            for order, file in zip_longest(orders, files):
                yield from of(order, file)
            return
        pool = ThreadPoolExecutor(workers)
        try:
            pairs = zip_longest(orders, files)
            for found in [pool.submit(lambda pair: list(of(*pair)), pair) for pair in pairs]:
                yield from found.result()
        finally:
            pool.shutdown(cancel_futures=True)


def write(records: list[Record], path: Path | None, about: Record) -> None:
    """The JSON so far: the rows that every benchmark has, and the cases whole."""
    rows = [row for record in records for row in rows_of(record)]
    common.write(rows, path, **about, summary=summary(records), cases=records)


if __name__ == "__main__":
    sys.exit(main())
