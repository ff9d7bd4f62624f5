"""Runs random networks by clcnn and by onnxruntime: a difference that rounding does not explain is a finding.

    make fuzz                                             (two minutes of it)
    python tests/fuzz_nets.py --seconds 3600 --seed 1     (longer; --count N for so many networks)
    python tests/fuzz_nets.py --replay build/fuzz_nets/seed17_0.onnx

Half of the networks are exported from PyTorch where that is installed. Each one is run twice, by default and
under random options; findings are made small and written with what reproduces them. A network is what its
seed makes it. Networks run in a process of their own, so that one that crashes or hangs is a finding too.
Exits with 1 where there was a finding.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[1]
NETS_A_PROCESS = 400
HANGS = 300.0  # seconds for one network, compiling and shrinking included


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0, help="stop after this time")
    parser.add_argument("--count", type=int, default=0, help="stop after so many networks, whatever the time")
    seed = int(time.time()) % 10**8
    parser.add_argument(
        "--seed", type=int, default=seed, help="of the first network; the clock's if not given"
    )
    parser.add_argument("--device", default=os.environ.get("CLCNN_TEST_DEVICE", "cpu"))
    parser.add_argument("--findings", type=Path, default=ROOT / "build" / "fuzz_nets", help="a folder")
    parser.add_argument("--no-torch", action="store_true", help="only graphs made here")
    parser.add_argument("--replay", type=Path, help="run the .onnx of a finding once more")
    return parser.parse_args(arguments)


# ---- the process that runs networks ------------------------------------------------------------------------


class Worker:
    """Runs networks one after the other and tells what became of each."""

    def __init__(self, given: argparse.Namespace, pipe: Any) -> None:
        import clcnn

        self.given, self.pipe = given, pipe
        self.device = clcnn.Device(given.device)
        self.torch = not given.no_torch and importlib.util.find_spec("torch") is not None

    def network(self, seed: int) -> tuple[Any, dict[str, Any], bool]:
        """Model, feed, and whether PyTorch made it."""
        from fuzz import net

        if self.torch and seed % 2:
            from fuzz import torch_nets

            made = torch_nets.make(seed)
            if made is not None:
                return *made, True
        return *net.make(seed), False

    def one(self, seed: int, seen: set[str]) -> None:
        """A network under its options."""
        from fuzz import runner
        from fuzz.oracle import Oracle

        model, feed, by_torch = self.network(seed)
        rng = random.Random(seed + 1)
        verdicts: Counter[str] = Counter()
        notes: Counter[str] = Counter()
        try:
            expected = [Oracle(model, feed)]
        except Exception as error:
            verdicts["no oracle"] += 1
            notes[f"onnxruntime: {str(error)[:100]}"] += 1
            expected = []
        for case in self._cases(model, feed, rng) if expected else ():
            self.pipe.send(("runs", seed))
            if case.feeds[0] is feed:
                verdict = runner.judged_by(case, expected, self.device)
            else:
                verdict = runner.judge(case, self.device)
            verdicts[verdict.kind + (", to the digit" if verdict.sure else "")] += 1
            if verdict.kind in ("excused", "not offered"):
                notes[verdict.what[:150]] += 1
            if verdict.finding and self._found(seed, case, verdict, seen):
                break
        if expected and rng.random() < 0.15:
            case = runner.Case(model, [feed], runner.some_options(rng, 1))
            case = replace(case, options=replace(case.options, chain=rng.random() < 0.3, batch_part=1))
            verdict = runner.judge_bits(case, self.device)
            verdicts[f"bits: {verdict.kind}"] += 1
            if verdict.finding:
                self._found(seed, case, verdict, seen, runner.judge_bits)
        ops = {node.op_type for node in model.graph.node}
        row = {"verdicts": verdicts, "notes": notes, "ops": dict.fromkeys(ops, 1), "torch": by_torch}
        row["algorithms"] = dict(runner.REACHED)
        runner.REACHED.clear()
        self.pipe.send(("net", row))

    def _cases(self, model: Any, feed: dict[str, Any], rng: random.Random) -> Any:
        """By default, under random options, and now and then at other batch sizes."""
        from fuzz.runner import Case, Options, other_batches, some_options

        yield Case(model, [feed], Options())
        batch = next((a.shape[0] for a in feed.values() if a.ndim), 1)
        yield Case(model, [feed], some_options(rng, batch))
        if rng.random() < 0.15:
            case = other_batches(model, feed, rng.choice([(batch, 1, batch), (3, batch, 2), (2, 4, 2)]))
            if case is not None:
                yield case

    def _found(self, seed: int, case: Any, verdict: Any, seen: set[str], judge: Any = None) -> bool:
        """Makes a finding small, writes it where its kind is new, and tells of it."""
        from fuzz import report, runner, shrink

        judge = judge or runner.judge

        def fails(smaller: Any) -> bool:
            self.pipe.send(("runs", seed))
            found = judge(smaller, self.device)
            return bool(found.kind == verdict.kind and found.symptom == verdict.symptom)

        rough = report.kind_of(case, verdict)
        small = shrink.shrink(case, fails) if rough not in seen else case
        last = judge(small, self.device)
        kind = report.kind_of(small, last if last.finding else verdict)
        text = ""
        if kind not in seen:
            path = report.write(self.given.findings, seed, len(seen), small, last)
            text = f"seed {seed}: {kind}\n  {last.what}\n{report.words(small)}\n  --replay {path}"
        seen |= {kind, rough}
        self.pipe.send(("found", (kind, rough, text)))
        return True


def work(given: argparse.Namespace, seeds: range, seen: set[str], pipe: Any) -> None:
    """The process's main: networks until it is told to end, or its seeds are used up."""
    from fuzz import rows_nets, rows_shape, rows_values  # noqa: F401  the table is complete then

    try:
        worker = Worker(given, pipe)
        for seed in seeds:
            pipe.send(("starts", seed))
            worker.one(seed, seen)
        pipe.send(("ends", None))
    except (BrokenPipeError, KeyboardInterrupt):
        return  # nobody listens any more


# ---- the process that watches ------------------------------------------------------------------------------


def watch(given: argparse.Namespace) -> Any:
    """Starts workers until time or networks are used up; the numbers."""
    from fuzz.report import Numbers

    numbers, seen, next_seed = Numbers(), set(), given.seed
    last = given.seed + given.count if given.count else sys.maxsize
    end = sys.maxsize if given.count else time.monotonic() + given.seconds
    context = multiprocessing.get_context("spawn")
    while next_seed < last and time.monotonic() < end:
        seeds = range(next_seed, min(next_seed + NETS_A_PROCESS, last))
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(given, seeds, seen, theirs), daemon=True)
        process.start()
        theirs.close()
        next_seed = _listen(process, ours, numbers, seen, seeds.start, end)
    return numbers


def _listen(process: Any, pipe: Any, numbers: Any, seen: set[str], seed: int, end: float) -> int:
    """Takes a worker's messages until it ends; the seed to go on with."""
    stage = "starts"
    while time.monotonic() < end:
        try:
            if not pipe.poll(HANGS):
                _note(numbers, seen, f"hangs | seed {seed}, {stage}", "")
                break
            stage, told = pipe.recv()
        except EOFError:
            process.join()
            _note(numbers, seen, f"crashes with {process.exitcode} | seed {seed}, {stage}", "")
            break
        if stage == "starts":
            seed = told
        elif stage == "net":
            numbers.add(told)
            numbers.show()
        elif stage == "found":
            kind, rough, text = told
            seen.add(rough)
            _note(numbers, seen, kind, text)
        elif stage == "ends":
            break
    process.terminate()
    process.join()
    return seed + 1


def _note(numbers: Any, seen: set[str], kind: str, text: str) -> None:
    numbers.kinds[kind] += 1
    seen.add(kind)
    if text or kind.startswith(("crashes", "hangs")):
        print(f"FINDING {text or kind}", flush=True)


def replay(path: Path, device: str) -> int:
    """One finding again."""
    from fuzz import report, runner

    import clcnn

    case = report.read(path)
    print(report.words(case), case.options, sep="\n")
    verdict = runner.judge(case, clcnn.Device(device))
    if not verdict.finding:
        bits = runner.judge_bits(case, clcnn.Device(device))
        verdict = bits if bits.finding else verdict
    print(verdict.kind, verdict.what)
    return int(verdict.finding)


def main() -> int:
    given = parse()
    # Kernels are kept from one session to the next, apart from the user's own.
    kernels = ROOT / "build" / "fuzz_kernels"
    kernels.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("CLCNN_CACHE_DIR", str(kernels))
    os.environ.setdefault("POCL_CACHE_DIR", str(kernels))
    if given.replay is not None:
        return replay(given.replay, given.device)
    print(f"networks from seed {given.seed} on", flush=True)
    numbers = watch(given)
    print(numbers.text())
    return int(bool(numbers.kinds))


if __name__ == "__main__":
    sys.exit(main())
