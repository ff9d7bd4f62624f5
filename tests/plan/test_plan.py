"""Plans: calling, naming, streaming, cloning, profiling and what they tell about themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from conftest import DEVICE

import clcnn
from clcnn import ops
from clcnn.graph import Graph


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def network(batch: int = 2) -> Graph:
    """conv + bias + relu -> batch norm -> max pool -> linear: something for every part of a plan to do."""
    g = Graph()
    x = g.input("x", (batch, 3, 8, 8))
    y = ops.relu(ops.conv(x, g.constant(random(4, 3, 3, 3), "w"), g.constant(random(4), "b"), padding=1))
    ones = [g.constant(np.full(4, v, np.float32), n) for n, v in (("g", 2), ("h", 1), ("m", 0.5), ("v", 4))]
    y = ops.max_pool(ops.batch_norm(y, *ones), kernel_size=2)
    y = ops.linear(ops.flatten(y), g.constant(random(5, 64, seed=2), "lw"), name="head")
    g.output(y, "logits")
    return g


@pytest.fixture
def plan(device: clcnn.Device) -> Iterator[clcnn.Plan]:
    with clcnn.compile(network(), device=device) as made:
        yield made


@pytest.fixture
def pair(device: clcnn.Device) -> Iterator[clcnn.Plan]:
    """Two inputs, two outputs."""
    g = Graph()
    a, b = g.input("a", (3,)), g.input("b", (3,))
    g.output(a + b, "sum")
    g.output(a * b, "product")
    with clcnn.compile(g, device=device) as made:
        yield made


def test_a_plan_is_called_with_an_array(plan: clcnn.Plan) -> None:
    x = random(2, 3, 8, 8, seed=5)
    y = plan(x)
    assert y.shape == (2, 5) and y.dtype == np.float32
    assert plan(x).tobytes() == y.tobytes(), "a repeat must be bit-identical"
    assert plan.inputs == {"x": (2, 3, 8, 8)} and plan.outputs == {"logits": (2, 5)}


def test_rewriting_and_running_layer_by_layer_agree(device: clcnn.Device, plan: clcnn.Plan) -> None:
    x = random(2, 3, 8, 8, seed=5)
    with clcnn.compile(network(), device=device, fuse=False) as plain:
        np.testing.assert_allclose(plan(x), plain(x), rtol=1e-4, atol=1e-5)
        assert plain.rewrites == [] and plan.rewrites
        assert len(plain.steps) > len(plan.steps)


def test_out_is_filled_and_returned(plan: clcnn.Plan) -> None:
    x, out = random(2, 3, 8, 8), np.full((2, 5), np.nan, np.float32)
    assert plan(x, out=out) is out
    np.testing.assert_array_equal(out, plan(x))


def test_tensors_in_and_out(device: clcnn.Device, plan: clcnn.Plan) -> None:
    x = random(2, 3, 8, 8)
    source, target = clcnn.Tensor.from_numpy(x, device), clcnn.Tensor(device, (2, 5))
    assert plan(source, out=target) is target
    np.testing.assert_array_equal(target.numpy(), plan(x))


def test_several_inputs_and_outputs(pair: clcnn.Plan) -> None:
    a, b = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    total, product = pair(a, b)
    np.testing.assert_array_equal(total, [5, 7, 9])
    np.testing.assert_array_equal(product, [4, 10, 18])
    out = [np.empty(3, np.float32), None]
    assert pair(a, b, out=out)[0] is out[0]
    by_name = pair.run({"b": b, "a": a})
    assert list(by_name) == ["sum", "product"]
    np.testing.assert_array_equal(by_name["sum"], total)
    given = np.empty(3, np.float32)
    assert pair.run([a, b], {"product": given})["product"] is given


def test_one_array_may_be_given_twice(pair: clcnn.Plan) -> None:
    a = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(pair(a, a)[1], [1, 4, 9])


def test_intermediate_outputs_by_layer_name(device: clcnn.Device) -> None:
    g = network()
    with clcnn.compile(g, device=device, outputs=["relu_1", "head"]) as plan:
        x = random(2, 3, 8, 8)
        assert plan(x).shape == (2, 5)
        results = plan.run(x)
        assert list(results) == ["logits", "relu_1", "head"]
        assert results["relu_1"].shape == (2, 4, 8, 8) and results["relu_1"].min() == 0
        np.testing.assert_array_equal(results["head"], results["logits"])
    assert list(g.outputs) == ["logits"], "the caller's graph keeps its own outputs"


def test_a_plan_does_not_need_its_graph_and_device(plan: clcnn.Plan) -> None:
    x = random(2, 3, 8, 8)
    lone = clcnn.compile(network(), device=clcnn.Device(DEVICE))
    np.testing.assert_allclose(lone(x), plan(x), rtol=1e-5, atol=1e-6)


def test_clones_share_weights(device: clcnn.Device, plan: clcnn.Plan) -> None:
    before = device.stats()["weights_bytes"]
    with plan.clone() as clone:
        assert device.stats()["weights_bytes"] == before
        x = random(2, 3, 8, 8)
        assert clone(x).tobytes() == plan(x).tobytes()
        assert clone.summary() == plan.summary()
    assert clone.closed and not plan.closed


def test_a_clone_outlives_its_origin(device: clcnn.Device) -> None:
    plan, x = clcnn.compile(network(), device=device), random(2, 3, 8, 8)
    expected, clone = plan(x), plan.clone()
    plan.close()
    np.testing.assert_array_equal(clone(x), expected)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_map_keeps_the_order(plan: clcnn.Plan, count: int) -> None:
    batches = [random(2, 3, 8, 8, seed=i) for i in range(count)]
    results = list(plan.map(iter(batches)))
    assert len(results) == count
    for batch, result in zip(batches, results, strict=True):
        np.testing.assert_array_equal(result, plan(batch))


def test_map_reads_no_more_than_it_needs(plan: clcnn.Plan) -> None:
    taken = []

    def batches() -> Iterator[np.ndarray]:
        for i in range(10):
            taken.append(i)
            yield random(2, 3, 8, 8, seed=i)

    stream = plan.map(batches())
    next(stream)
    assert len(taken) <= 3
    stream.close()
    assert len(taken) <= 3


def test_map_raises_in_the_place_of_the_bad_batch(device: clcnn.Device, plan: clcnn.Plan) -> None:
    before = device.stats()["bytes_now"]
    good, short = random(2, 3, 8, 8), random(1, 3, 8, 8)
    stream = plan.map([good, short, good])
    np.testing.assert_array_equal(next(stream), plan(good))
    with pytest.raises(clcnn.ShapeError, match=r"input x: expected shape \(2, 3, 8, 8\), got \(1, 3, 8, 8\)"):
        next(stream)
    assert device.stats()["bytes_now"] == before, "the clones must be gone"


def test_map_takes_tuples_for_several_inputs(pair: clcnn.Plan) -> None:
    a = np.array([1, 2, 3], np.float32)
    results = list(pair.map([(a, a), (a, 2 * a)]))
    np.testing.assert_array_equal(results[1][1], [2, 8, 18])


# ---- what a plan tells ----


def test_explain_has_every_candidate_with_a_verdict(plan: clcnn.Plan) -> None:
    text = plan.explain(verbose=True)
    for layer in plan.layers:
        assert f"{layer['layer']}: {layer['op']} " in text
        chosen = [c for c in layer["candidates"] if c["verdict"].startswith("chosen")]
        assert [c["algo"] for c in chosen] == [layer["algo"]]
        assert all(c["reason"] for c in layer["candidates"] if c["verdict"] == "rejected")
        assert all(f" {c['algo']:<10} {c['verdict']}" in text for c in layer["candidates"])
    assert "rewrites:" in text and all(note in text for note in plan.rewrites)


def test_explain_tells_of_near_misses_alone(plan: clcnn.Plan) -> None:
    text = plan.explain()
    assert "rejected" not in text and "rewrites:" in text
    assert f"{len(plan.explain(True).splitlines()) - len(text.splitlines()) + 1} candidates" in text
    for layer in plan.layers:
        assert f"{layer['layer']}: {layer['op']} " in text and f"  * {layer['algo']}" in text
    for line in text.splitlines():
        if line.startswith("    ") and "expected" in line and "not needed" not in line:  # would be taken next
            assert float(line.partition("expected ")[2].rstrip(")")) <= 2.0


def test_an_algorithm_can_be_forced(device: clcnn.Device, plan: clcnn.Plan) -> None:
    with clcnn.compile(network(), device=device, algorithms={"conv_1": "ref"}) as forced:
        conv = next(layer for layer in forced.layers if layer["layer"] == "conv_1")
        assert conv["algo"] == "ref"
        verdicts = {c["algo"]: c["verdict"] for c in conv["candidates"]}
        assert verdicts["ref"] == "chosen by override"
        np.testing.assert_allclose(forced(random(2, 3, 8, 8)), plan(random(2, 3, 8, 8)), rtol=1e-4, atol=1e-5)


def test_summary_lists_the_layers_as_written(plan: clcnn.Plan) -> None:
    lines = plan.summary().splitlines()
    assert lines[0].split() == ["layer", "op", "output", "parameters", "MACs", "algorithm", "workspace"]
    by_name = {line.split()[0]: line.split() for line in lines[2:-1]}
    assert by_name["conv_1"][2:5] == ["2x4x8x8", "112", "13,824"]
    assert by_name["relu_1"][5] == "(merged)" and by_name["batch_norm_1"][3] == "8"
    assert lines[-1] == "6 layers, 440 parameters, 14,464 multiply-adds"
    assert plan._repr_html_().count("<tr>") == 7


def test_memory_figures(plan: clcnn.Plan) -> None:
    stats = plan.stats
    assert plan.peak_bytes == stats["peak_bytes"] == stats["arena_bytes"] + stats["weights_bytes"]
    assert 0 < stats["live_bytes"] <= stats["arena_bytes"]
    assert stats["step_count"] == len(plan.steps)


def test_profile(plan: clcnn.Plan, tmp_path: Path) -> None:
    profile = plan.profile(random(2, 3, 8, 8))
    assert [(r.layer, r.algo) for r in profile.rows] == [(s["layer"], s["algo"]) for s in plan.steps]
    assert all(0 <= r.start_ns <= r.end_ns for r in profile.rows)
    assert [r.start_ns for r in profile.rows] == sorted(r.start_ns for r in profile.rows)
    assert profile.total_ms > 0 and f"{len(profile.rows)} steps" in str(profile)
    assert "<table>" in profile._repr_html_()
    profile.to_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == [r.layer for r in profile.rows]


def test_repr(plan: clcnn.Plan) -> None:
    assert "{'x': (2, 3, 8, 8)} -> {'logits': (2, 5)}" in repr(plan)
    plan.close()
    assert repr(plan).endswith("closed>")


def test_recompiling_with_other_shapes(device: clcnn.Device) -> None:
    x = random(6, 3, 8, 8)
    whole = clcnn.compile(network(6), device=device)(x)
    for batch in (1, 3):
        with clcnn.compile(network(batch), device=device) as part:
            np.testing.assert_allclose(part(x[:batch].copy()), whole[:batch], rtol=1e-5, atol=1e-5)


def test_guards_are_intact(device: clcnn.Device) -> None:
    with clcnn.compile(network(), device=device, guard=True) as plan:
        plan(random(2, 3, 8, 8))
        plan.check_guards()


def test_everything_goes_back_to_the_device() -> None:
    with clcnn.Device(DEVICE) as own:
        before = own.stats()["live_objects"]
        for _ in range(3):
            plan = clcnn.compile(network(), device=own)
            plan(random(2, 3, 8, 8))
            plan.clone().close()
            plan.close()
        del plan
        counts = []
        for _ in range(3):
            clcnn.compile(network(), device=own).close()
            counts.append((own.stats()["live_objects"], own.stats()["bytes_now"]))
        assert counts[0] == counts[-1]
    assert own.stats()["live_objects"] == 0 < before
