"""Measured choices: keys, what plans do with them, the files they are kept in, and measuring."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from caselib import parse_case
from clcnn import _core, nn, wisdom
from clcnn.graph import trace
from clcnn.wisdom import measure as measuring
from clcnn.wisdom import profile as profiles
from runner import MAIN, build_graph

CASE = parse_case("conv n2 c6 h9 w9 k8 r3 s3 p1 e:relu")


def plan_of(device: _core.Device, case: Any = CASE, **options: Any) -> _core.Plan:
    return _core.Plan(device, build_graph(case, case.data()), **options)


def key_of(device: _core.Device, case: Any = CASE, **options: Any) -> str:
    with plan_of(device, case, **options) as plan:
        return str(next(row["key"] for row in plan.layers() if MAIN in row["layer"]))


def verdicts(plan: _core.Plan) -> dict[str, str]:
    row = next(row for row in plan.layers() if MAIN in row["layer"])
    return {c["algo"]: c["verdict"] for c in row["candidates"]}


# ---- keys ----


def test_keys_tell_apart_what_time_depends_on(device):
    others = [
        "conv n1 c6 h9 w9 k8 r3 s3 p1 e:relu",
        "conv n2 c6 h9 w9 k8 r3 s3 p1",
        "conv n2 c6 h9 w9 k8 r3 s3 p1 b0 e:relu",
        "conv n2 c6 h9 w9 k8 r3 s3 p1 g2 e:relu",
        "conv n2 c6 h9 w9 k8 r3 s3 p1 u2 e:relu",
        "conv n2 c6 h9 w9 k8 r3 s3 p1 e:add+relu",
        "separable n2 c6 h9 w9 k8 r3 s3 p1",
        "separable n2 c6 h9 w9 k8 r3 s3 p1 u2",
    ]
    keys = {key_of(device), key_of(device, precision="high")}
    keys |= {key_of(device, parse_case(text)) for text in others}
    assert len(keys) == len(others) + 2
    assert all(keys) and all("\t" not in key for key in keys)


def test_a_key_that_would_be_too_long_is_none(device):
    graph = _core.Graph()
    parts = [graph.input(f"x{i}", (1, 2, 1234567)) for i in range(40)]
    graph.output(graph.node("concat", "c", parts, {"dim": 1})[0], "y")
    with _core.Plan(device, graph) as plan:
        assert [row["key"] for row in plan.layers()] == [""]


# ---- what plans do with choices ----


def test_a_choice_is_followed_unless_an_override_says_otherwise(device):
    key = key_of(device)
    with plan_of(device, wisdom={"other": "direct", key: "ref"}) as plan:
        assert verdicts(plan)["ref"] == "chosen by measurement"
        assert {row["algo"] for row in plan.steps() if row["op"] == "conv"} == {"ref"}
        assert not any("measured" in note for note in plan.rewrites())
    with plan_of(device, wisdom={key: "ref"}, overrides={MAIN: "direct"}) as plan:
        assert verdicts(plan)["direct"] == "chosen by override"
        assert "chosen by measurement" not in verdicts(plan).values()


@pytest.mark.parametrize(
    ("algorithm", "why"),
    [("depthwise", "each group must have one input channel"), ("magic", "there is no such algorithm")],
)
def test_a_choice_that_cannot_be_followed_is_noted(device, algorithm, why):
    with plan_of(device) as rules, plan_of(device, wisdom={key_of(device): algorithm}) as plan:
        assert verdicts(plan) == verdicts(rules)
        (note,) = [note for note in plan.rewrites() if "measured" in note]
    assert f"'{algorithm}' of {MAIN} is not followed: {why}" in note


def test_choices_are_strings(device):
    with pytest.raises(_core.DtypeError, match="wisdom: expected {key: algorithm} of strings"):
        plan_of(device, wisdom={"key": 3})


# ---- files ----


def test_files_come_back_as_they_were(tmp_path):
    path, table = tmp_path / "deep" / "t.txt", {"b x1": "direct", "a x2": "ref"}
    wisdom.write(path, table, "made by a test")
    assert path.read_text().startswith("# made by a test\na x2\tref\n")
    assert wisdom.read(path) == table
    assert [p.name for p in path.parent.iterdir()] == ["t.txt"]


@pytest.mark.parametrize("line", ["no tab", "key\t", "\tref", "key\ttwo words"])
def test_a_bad_line_is_named(tmp_path, line):
    path = tmp_path / "t.txt"
    path.write_text(f"# fine\n{line}\n")
    with pytest.raises(clcnn.ArgumentError, match=r"t\.txt:2: expected a key, a tab"):
        wisdom.read(path)


def test_shipped_tables_name_what_there_is():
    for path in wisdom.SHIPPED.glob("*.txt"):
        assert path.name == wisdom.file_name(path.stem)
        for key, algorithm in wisdom.read(path).items():
            assert algorithm in _core.ops()[key.split()[0]]["algos"], (path.name, key)


# ---- compile(tune=...) ----


def model() -> nn.Module:
    return nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU())


def algorithm_of(device: _core.Device, **options: Any) -> str:
    with clcnn.compile(model(), (2, 6, 9, 9), device, **options) as plan:
        return str(next(row for row in plan.layers if row["op"] == "conv")["algo"])


def test_compile_follows_the_users_table(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("CLCNN_TUNE", raising=False)
    rules = algorithm_of(device)
    with clcnn.compile(model(), (2, 6, 9, 9), device) as plan:
        key = next(row["key"] for row in plan.layers if row["op"] == "conv")
    path = wisdom.own_file(device)
    assert path is not None and path.is_relative_to(tmp_path)
    wisdom.write(path, {key: "ref"}, "")
    assert algorithm_of(device) == "ref"
    assert algorithm_of(device, tune="off") == rules
    monkeypatch.setenv("CLCNN_TUNE", "off")
    assert algorithm_of(device) == rules
    assert algorithm_of(device, tune="table") == "ref"
    path.write_text("damaged")
    assert algorithm_of(device, tune="table") == rules
    monkeypatch.setenv("CLCNN_CACHE_DIR", "0")
    assert wisdom.own_file(device) is None


def test_words_for_tune(device, monkeypatch):
    with pytest.raises(clcnn.ArgumentError, match="tune: must be one of 'off', 'table', 'measure', got 'on'"):
        algorithm_of(device, tune="on")
    monkeypatch.setenv("CLCNN_TUNE", "maybe")
    with pytest.raises(clcnn.ArgumentError, match="got 'maybe'"):
        algorithm_of(device)


def test_measure_remembers(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    x = np.random.default_rng(0).standard_normal((2, 6, 9, 9), np.float32)
    net = model()
    with clcnn.compile(net, x.shape, device, tune="measure") as tuned:
        got = tuned(x)
    path = wisdom.own_file(device)
    assert path is not None and wisdom.known(device) == wisdom.read(path)
    with clcnn.compile(net, x.shape, device, tune="off") as rules:
        np.testing.assert_allclose(got, rules(x), rtol=1e-4, atol=1e-5)


# ---- measuring ----


class Clock:
    """Made-up times instead of the device's: us of a step by its algorithm, and seconds of a run by the
    algorithms of its layers, each with noise of so large a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, noise: float = 0.0, **us: float) -> None:
        self.us = {"block": 0.0, "unblock": 0.0} | us  # reorders that a choice brings cost nothing here
        self.noise, self.rng = noise, np.random.default_rng(0)
        self.tried: list[str] = []
        monkeypatch.setattr(measuring, "_step_times", self.steps)
        monkeypatch.setattr(measuring, "_seconds", self.seconds)

    def _of(self, algorithm: str) -> float:
        return self.us.get(algorithm, 100.0) * (1 + self.noise * self.rng.random())

    def steps(self, plan: _core.Plan, inputs: Any) -> list[float]:
        first = {row["layer"]: row["algo"] for row in reversed(plan.layers())}
        self.tried += [row["algo"] for row in plan.layers() if row["op"] == "conv"]
        layers = [step["layer"] for step in plan.steps()]
        return [0.0 if layers.index(n) < i else self._of(first[n]) for i, n in enumerate(layers)]

    def seconds(self, plan: _core.Plan, inputs: Any, results: Any = None) -> float:
        return sum(self._of(row["algo"]) for row in plan.layers()) / 1e6


def measured(device: _core.Device, **options: Any) -> measuring.Measured:
    return measuring.measure(trace(model(), (2, 6, 9, 9)), device, rounds=3, **options)


def rules_of(device: _core.Device) -> Any:
    with clcnn.compile(model(), (2, 6, 9, 9), device, tune="off") as plan:
        return next(row for row in plan.layers if row["op"] == "conv")


def another(device: _core.Device, monkeypatch: pytest.MonkeyPatch) -> str:
    """A candidate that is tried and can be followed."""
    clock = Clock(monkeypatch)
    found = measured(device)
    row = rules_of(device)
    for name in clock.tried:
        if name != row["algo"] and name in found.times[row["key"]]:
            return name
    pytest.skip("there is no other algorithm here")


def test_measuring_takes_what_is_clearly_faster(device, monkeypatch):
    row = rules_of(device)
    fast = another(device, monkeypatch)
    clock = Clock(monkeypatch, **{fast: 50.0})
    found = measured(device)
    assert found.choices == {row["key"]: fast} and "ref" not in clock.tried
    assert found.times[row["key"]][fast] < found.times[row["key"]][row["algo"]]
    assert found.rules[row["key"]] == row["algo"]
    Clock(monkeypatch, **{fast: 98.0})
    assert measured(device).choices == {}


def test_noise_chooses_nothing(device, monkeypatch):
    Clock(monkeypatch, noise=0.5)
    assert measured(device).choices == {}


def test_what_only_its_own_time_speaks_for_is_given_back(device, monkeypatch):
    """The step is faster, the whole net is not."""
    fast = another(device, monkeypatch)
    clock = Clock(monkeypatch, **{fast: 50.0})
    monkeypatch.setattr(measuring, "_seconds", lambda *_: 1e-3 * (1 + clock.rng.random()))
    assert measured(device).choices == {}


def test_one_bad_choice_does_not_drop_the_rest(device, monkeypatch):
    """Of four choices the third makes the net slower."""
    nets = measuring._Nets(trace(model(), (2, 6, 9, 9)), device)
    monkeypatch.setattr(
        measuring, "_better", lambda without, having, *_: "bad" not in having and len(having) > len(without)
    )
    monkeypatch.setattr(measuring._Nets, "plan", lambda self, table: Table(table))
    choices: wisdom.Wisdom = {}
    measuring._settle(
        choices, nets, {key: measuring._Trial("x", 0.02) for key in ("a", "b", "bad", "c")}, 1e-3
    )
    assert choices == {"a": "x", "b": "x", "c": "x"}


def test_what_saves_too_little_is_not_tried(device, monkeypatch):
    """The net must be faster by a hundredth: four choices of little more than half of that."""
    nets = measuring._Nets(trace(model(), (2, 6, 9, 9)), device)
    tried = []
    monkeypatch.setattr(measuring, "_better", lambda without, having, *_: tried.append(len(having)))
    monkeypatch.setattr(measuring._Nets, "plan", lambda self, table: Table(table))
    measuring._settle({}, nets, {key: measuring._Trial("x", 0.006) for key in "abcd"}, 1e-3)
    assert tried == [4, 2, 2]


class Table(dict[str, str]):
    """Stands for the plan of a table."""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_algorithms_without_a_chance_are_tried_on_request(device, monkeypatch):
    clock = Clock(monkeypatch)
    measured(device)
    usual = set(clock.tried)
    clock.tried.clear()
    measured(device, every=True)
    assert usual <= set(clock.tried) and "ref" not in clock.tried
    row = rules_of(device)
    if row["algo"] in ("winograd", "blocked", "rows", "mma", "wgmma"):
        assert "implicit" in set(clock.tried) - usual


def test_who_is_twice_as_slow_leaves(device, monkeypatch):
    row = rules_of(device)
    slow = another(device, monkeypatch)
    clock = Clock(monkeypatch, **{slow: 250.0})
    measuring.measure(trace(model(), (2, 6, 9, 9)), device, rounds=6)
    assert clock.tried.count(slow) == 1 < clock.tried.count(row["algo"])


def test_a_trial_that_fails_is_left_out(device, monkeypatch):
    row = rules_of(device)
    fast = another(device, monkeypatch)
    clock = Clock(monkeypatch, **{fast: 50.0})

    def failing(plan: _core.Plan, inputs: Any) -> list[float]:
        if any(layer["algo"] == fast for layer in plan.layers()):
            raise clcnn.DeviceMemoryError("no room for it")
        return clock.steps(plan, inputs)

    monkeypatch.setattr(measuring, "_step_times", failing)
    found = measured(device)
    assert found.choices == {} and fast not in found.times[row["key"]]


def test_outputs_that_differ_are_not_better(device):
    other = parse_case("conv n2 c6 h9 w9 k8 r3 s3 p1 l1")
    x = [a for a, given in zip(CASE.data(), CASE.inputs) if not given.constant]
    with plan_of(device) as plan, plan_of(device, other) as without_relu:
        assert not measuring._better(plan, without_relu, x, 1e-3)


def test_what_is_measured_overrules_what_was_known(device):
    found = measuring.Measured({"a": "x"}, {}, {"a": "r", "b": "r", "c": "r"})
    assert found.into({"a": "old", "b": "old", "d": "old"}) == {"a": "x", "b": "r", "d": "old"}


def test_files_keep_times_beside_choices(tmp_path):
    path = tmp_path / "w.txt"
    times = {"conv a": {"slow": 20.0, "fast": 10.5}}
    wisdom.write(path, {"conv a": "fast"}, "a device", times)
    assert wisdom.read(path) == {"conv a": "fast"} and wisdom.read_times(path) == times
    path.write_text(path.read_text() + "#= broken\tx=\n#= conv b\ty=1\n#=\n", encoding="utf-8")
    assert wisdom.read_times(path) == times | {"conv b": {"y": 1.0}}
    path.write_text("# of a former version\nconv a\tfast\n", encoding="utf-8")
    assert wisdom.read(path) == {"conv a": "fast"} and wisdom.read_times(path) == {}


def test_an_interrupt_leaves_the_file_as_it_was(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    path = wisdom.own_file(device)
    assert path is not None
    wisdom.write(path, {"k": "x"}, "before")
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "_step_times", interrupted)
    monkeypatch.setattr(profiles, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clcnn.compile(model(), (2, 6, 9, 9), device, tune="measure")
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == [path.name]
