"""benchmarks/population.py: which networks are meant, its figures, and cases that go wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(FOLDER))

import population  # noqa: E402
import population_nets  # noqa: E402

ORDER = {"name": "net"}
CASE = {"case": "a", "batch": 1, "precision": "highest"}


def record(ours: float, **peers: float) -> dict[str, Any]:
    return CASE | {
        "clcnn_ms": ours,
        "peers": {name: {"ms": ms, "rms_error": 0.0} for name, ms in peers.items()},
    }


def failed(phase: str) -> dict[str, Any]:
    return CASE | {"case": "b", "failed": {"phase": phase, "kind": "Error", "message": "no"}}


# ---- names ----


def test_networks_are_chosen_by_name_group_and_pattern() -> None:
    assert list(population_nets.select(["unet", "dcgan", "unet"])) == ["unet", "dcgan"]
    assert list(population_nets.select(["mobilenet_v*", "-mobilenet_v2"])) == [
        "mobilenet_v3_large",
        "mobilenet_v3_small",
    ]
    core = population_nets.select(["core"])
    assert "dcgan" in core and "swin_t" not in core
    assert list(population_nets.select(["all"])) == list(population_nets.NETS)
    assert list(population_nets.select(["all", "-all"])) == []
    other = population_nets.select(["timm:edgenext_xx_small"])["timm:edgenext_xx_small"]
    assert (other.source, other.shape) == ("timm:edgenext_xx_small", None)


def test_a_name_that_is_nothing_is_told_with_those_that_are() -> None:
    with pytest.raises(
        ValueError, match=r"no network or group 'resnet5000'; networks: dcgan, .*; groups: all, "
    ):
        population_nets.select(["unet", "resnet5000"])


def test_names_and_groups_are_apart_and_sources_can_be_read() -> None:
    assert not set(population_nets.groups()) & set(population_nets.NETS)
    for name, entry in population_nets.NETS.items():
        library, _, found = entry.source.partition(":")
        assert library in ("torchvision", "timm", "own") and found, name
        if library == "own":
            file, _, function = found.partition(".")
            assert f"def {function}(" in (FOLDER / "population_nets" / f"{file}.py").read_text(), name


# ---- figures ----


def test_ratio_is_that_to_the_faster_peer() -> None:
    assert population.fastest(record(2.0, openvino=3.0, onnxruntime=5.0)) == ("openvino", 1.5)
    assert population.fastest(record(2.0)) is None
    assert population.fastest(failed("compile")) is None
    out = record(2.0, openvino=3.0)
    out["peers"]["onnxruntime"] = {"left_out": "RuntimeError: no"}
    assert population.fastest(out) == ("openvino", 1.5)
    (row,) = population.rows_of(out)
    assert (row["peer"], row["peer_ms"], row["ratio"]) == ("openvino", 3.0, 1.5)
    assert [row["peer"] for row in population.rows_of(record(2.0))] == [None]
    assert population.rows_of(failed("run")) == []


def test_summary_counts_what_failed_but_not_what_was_never_exported() -> None:
    records = [
        record(1.0, openvino=8.0, onnxruntime=4.0),
        record(2.0, openvino=2.0, onnxruntime=3.0) | {"case": "slow"},
        record(4.0, openvino=1.0) | {"case": "slower"},
        failed("compile"),
        failed("export") | {"case": "c"},
        record(1.0, openvino=9.0) | {"batch": 8},
    ]
    got = population.summary(records)
    assert list(got) == ["highest, batch 1", "highest, batch 8"]
    one = got["highest, batch 1"]
    assert (one["cases"], one["failed"], one["below_1"]) == (4, ["b"], ["slower"])
    assert one["worst"] == ["slower", 0.25]
    assert one["geomean"] == pytest.approx((4.0 * 1.0 * 0.25) ** (1 / 3))
    assert population.summary([failed("run")])["highest, batch 1"]["geomean"] is None


def test_shares_are_told_for_the_first_operators() -> None:
    rows = [{"op": "conv", "algorithm": f"a{i}", "share": 0.2} for i in range(5)]
    assert population.shares_line(rows, 2) == "conv a0 20 %, conv a1 20 %"
    assert population.shares_line(rows, None).count("%") == 5


def test_shares_sum_the_steps_of_an_operator_and_algorithm() -> None:
    from types import SimpleNamespace

    from population_case import shares

    def steps(*times: float) -> Any:
        names = [("c1", "conv", "rows"), ("c2", "conv", "rows"), ("r", "relu", "ref")]
        rows = [SimpleNamespace(layer=n, op=o, algo=a, ms=t, macs=1.0) for (n, o, a), t in zip(names, times)]
        return SimpleNamespace(rows=rows)

    runs = iter([steps(1, 5, 2), steps(3, 2, 1)])
    got = shares(SimpleNamespace(profile=lambda x: next(runs)), None, 2)
    assert [(r["op"], r["steps"], r["ms"], r["share"]) for r in got["operators"]] == [
        ("conv", 2, 3, 0.75), ("relu", 1, 1, 0.25),
    ]  # fmt: skip
    assert [row["layer"] for row in got["slowest_layers"]] == ["c2", "c1", "r"]
    assert got["profile_ms"] == 4


# ---- weights ----


def test_weights_are_repeatable_and_keep_activations_in_range() -> None:
    """Each batch norm gives what its own scale and shift say, and two images give two results."""
    torch = pytest.importorskip("torch")
    from population_nets import build

    entry = population_nets.NETS["dcgan"]
    net, again = build.make(entry), build.make(entry)
    for a, b in zip(net.parameters(), again.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    x = build.inputs(entry, 3)
    torch.testing.assert_close(x[0], x[2], rtol=0, atol=0)
    seen: list[Any] = []
    norm = net[4]
    norm.register_forward_hook(lambda module, given, result: seen.append(result))
    y = net(x[:2])
    torch.testing.assert_close(seen[0].mean((0, 2, 3)), norm.bias, rtol=0, atol=0.05)
    torch.testing.assert_close(seen[0].std((0, 2, 3)), norm.weight, rtol=0.05, atol=0)
    assert 0.1 < y.std() < 1 and (y[0] - y[1]).abs().mean() > 0.1


# ---- processes ----

TOLD = f"""
import json, os, sys, time
order = json.loads(sys.argv[sys.argv.index("--order") + 1])
def tell(**event):
    print("noise before\\n{population.MARK}" + json.dumps(event), flush=True)
for batch in order["prepare"]:
    if batch == 2: os._exit(3)
    if batch == 4: tell(failed={{"message": "not so"}})
    else: tell(done={{}})
for batch, precision in order["cases"]:
    tell(phase="compile", known=batch)
    if batch == 2: os._exit(3)
    if batch == 3: time.sleep(60)
    if batch == 6:
        tell(waits=True)
        time.sleep(3.5)
        tell(phase="time")
    if batch == 4: tell(failed={{"phase": "compile", "kind": "E", "message": "not so"}})
    else: tell(done={{"clcnn_ms": batch}})
"""


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[int], float], list[dict[str, Any]]]:
    """Records of some batches from a process that crashes, hangs or fails at some of them."""
    script = tmp_path / "case.py"
    script.write_text(TOLD)
    monkeypatch.setattr(population, "SCRIPT", script)
    return lambda batches, limit: list(population.measured(ORDER, [(b, "highest") for b in batches], limit))


def test_a_case_that_fails_leaves_the_others(told: Any) -> None:
    got = told([1, 2, 4, 5], 60.0)
    assert [row["batch"] for row in got] == [1, 2, 4, 5]
    assert [row.get("clcnn_ms") for row in got] == [1, None, None, 5]
    crashed, said = got[1]["failed"], got[2]["failed"]
    assert (crashed["phase"], crashed["message"][:33]) == ("compile", "its process ended with status 3: ")
    assert said["message"] == "not so"
    assert [row.get("known") for row in got] == [None, 2, 4, None]


def test_a_case_that_takes_too_long_is_ended(told: Any) -> None:
    got = told([3, 1], 3.0)
    assert got[0]["failed"]["message"] == "too slow: not done within 3 s"
    assert got[1]["clcnn_ms"] == 1


def test_waits_for_the_device_are_not_the_cases_time(told: Any) -> None:
    assert [row.get("clcnn_ms") for row in told([6, 1], 3.0)] == [6, 1]


def test_files_that_cannot_be_made_are_told(told: Any) -> None:
    assert population.prepared(ORDER, [1, 5], 1, 60.0).startswith("net: exported, ")
    assert population.prepared(ORDER, [1, 4], 1, 60.0) == "net: not so"
    assert population.prepared(ORDER, [4, 2, 1], 1, 60.0).startswith(
        "net: not so; its process ended with status 3"
    )


def test_missing_packages_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["population.py"])
    monkeypatch.setattr(population, "NEEDED", ("numpy", "no_such_module_anywhere"))
    assert population.main() == 0
    assert (
        "skipped: no_such_module_anywhere, of numpy, no_such_module_anywhere: not installed"
        in capsys.readouterr().out
    )
