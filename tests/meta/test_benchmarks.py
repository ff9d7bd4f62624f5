"""What benchmarks/ rests on: the translation to PyTorch, the nets' weights, timing in turn, the JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
sys.path.append(str(FOLDER))

import common  # noqa: E402
from conftest import DEVICE  # noqa: E402

from clcnn.ops import MANY_OUTPUTS  # noqa: E402
from helpers import none_missing  # noqa: E402

SMALL_MACS = 200_000
CASE_FILES = [
    "attention",
    "conv",
    "conv_transpose",
    "elementwise",
    "gemm",
    "inverted_residual",
    "norm",
    "pool",
    "reduce",
    "resize",
    "separable",
    "shape",
]
# What PyTorch cannot say; a line here that it can say fails the test.
UNTRANSLATED = {"avg_pool", "lp_pool", "resize"}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def small_cases(name: str) -> list[Any]:
    from caselib import load_cases

    return [case for case in load_cases(name) if case.macs <= SMALL_MACS]


# ---- the translation ----


@pytest.mark.parametrize("name", CASE_FILES)
def test_translated_operators_agree_with_their_definition(torch: Any, name: str) -> None:
    from layers import case_graph

    from torch_net import NoEquivalent, TorchNet

    compared, skipped = 0, set()
    for case in small_cases(name):
        if case.op in MANY_OUTPUTS:
            continue  # test_translated_split
        graph, inputs = case_graph(case, None)
        try:
            net = TorchNet(graph).double()
        except NoEquivalent:
            skipped.add(case.op)
            continue
        with torch.inference_mode():
            got = net(*(torch.from_numpy(x).double() for x in inputs)).numpy()
        want = case.reference(case.data())
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=case.text)
        compared += 1
    assert compared
    here = UNTRANSLATED & {case.op for case in small_cases(name)}
    edit = "PLAIN or BUILT in tests/lib/torch_ops_onnx.py (the same in PyTorch), or UNTRANSLATED here"
    none_missing(skipped ^ here, edit, "python -m pytest -q -n0 tests/meta/test_benchmarks.py -k translated")


def test_translated_split_has_all_outputs(torch: Any) -> None:
    import clcnn
    from torch_net import TorchNet

    graph = clcnn.Graph()
    parts = graph.node("split", [graph.input("x", (1, 5, 2))], {"sizes": [1, 4]})
    for part in parts:
        graph.output(part, f"y{part.id}")
    x = np.arange(10, dtype=np.float32).reshape(1, 5, 2)
    first, second = TorchNet(graph)(torch.from_numpy(x))
    np.testing.assert_array_equal(first.numpy(), x[:, :1])
    np.testing.assert_array_equal(second.numpy(), x[:, 1:])


def test_what_pytorch_cannot_say_is_refused(torch: Any) -> None:
    from torch_net import NoEquivalent, translate, with_defaults

    attrs = with_defaults("avg_pool", {"kernel_size": 2, "dilation": 2})
    with pytest.raises(NoEquivalent, match="avg_pool: dilation"):
        translate("avg_pool", attrs, (1, 1, 8, 8))
    with pytest.raises(NoEquivalent, match="separable: no translation"):
        translate("separable", {}, (1, 1, 8, 8))


def test_values_are_given_back_after_their_last_use(torch: Any) -> None:
    from clcnn import zoo
    from clcnn.graph import trace
    from torch_net import TorchNet

    net = TorchNet(trace(zoo.lenet5(), (1, 1, 28, 28)))
    freed = [i for ids in net.last_use for i in ids]
    made = {i for _, _, _, values in net.calls for i in values} | set(net.inputs)
    assert len(freed) == len(set(freed))
    assert set(freed) == made - set(net.outputs)


# ---- nets ----


def test_benchmark_net_is_sensible_and_translated_whole(torch: Any) -> None:
    """Logits of order 1 that differ between images and repeat with them; weights the same for each batch."""
    from nets import Net

    net = Net("lenet5")
    logits = net.reference(3)
    assert 0.1 < np.sqrt(np.mean(logits**2)) < 30
    assert np.abs(logits[0] - logits[1]).max() > 0.01
    np.testing.assert_array_equal(logits[0], logits[2])
    np.testing.assert_array_equal(net.inputs(3)[0], net.inputs(3)[2])
    np.testing.assert_array_equal(
        net.graph(1).constants["features.0.weight"], net.graph(3).constants["features.0.weight"]
    )
    assert net.graph(1).constants["features.0.bias"].std() < 0.2


def test_batch_norm_statistics_are_those_of_the_activations(torch: Any) -> None:
    from nets import Net

    from torch_net import TorchNet

    net = Net("mobilenet_v1")
    graph = net.graph(2)
    module = TorchNet(graph)
    seen: list[Any] = []
    op, first, ids, made = next(call for call in module.calls if call[0] == "batch_norm")
    at = module.calls.index((op, first, ids, made))
    module.calls[at] = (op, lambda *args: seen.append(first(*args)) or seen[-1], ids, made)
    with torch.inference_mode():
        module(torch.from_numpy(net.inputs(2)))
    weight, bias = (np.asarray(graph.constants[f"bn1.{key}"]) for key in ("weight", "bias"))
    got = seen[0].double().numpy()
    np.testing.assert_allclose(got.mean((0, 2, 3)), bias, atol=1e-4)
    np.testing.assert_allclose(got.std((0, 2, 3)), weight, rtol=1e-3)


# ---- figures ----


def test_errors_are_relative_to_the_rms() -> None:
    got = common.errors(np.array([3.0, 4.0]), np.array([3.0, 5.0]))
    rms = np.sqrt((9 + 25) / 2)
    assert got["max_error"] == pytest.approx(1 / rms)
    assert got["rms_error"] == pytest.approx(np.sqrt(0.5) / rms)
    assert common.errors(np.array([np.nan]), np.array([1.0]))["max_error"] != 0


def test_geometric_mean_counts_each_peer_by_itself() -> None:
    rows = [
        {"peer": "a", "ratio": 2.0}, {"peer": "a", "ratio": 8.0}, {"peer": "b", "ratio": 0.5}, {"peer": None},
    ]  # fmt: skip
    assert common.geomeans(rows) == pytest.approx({"a": 4.0, "b": 0.5})
    assert common.geomeans([]) == {}


def test_contenders_take_turns() -> None:
    order: list[str] = []
    slow = common.QUICK_S * 1.2

    def wait() -> None:
        import time

        order.append("slow")
        time.sleep(slow)

    got = common.interleave({"quick": lambda: order.append("quick"), "slow": wait}, 2, 10.0, warm=1)
    assert order == ["quick", "slow"] + ["quick", "quick", "slow"] * 2
    assert got["slow"]["min"] >= slow * 1e3 > got["quick"]["median"]
    assert got["quick"]["rounds"] == got["slow"]["rounds"] == 2


def test_a_case_stops_when_its_time_is_over_but_not_before_five_rounds() -> None:
    assert common.interleave({"x": lambda: None}, 1000, 0.0)["x"]["rounds"] == 5


def test_json_has_the_agreed_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "case": "lenet5",
        "batch": 1,
        "precision": "highest",
        "clcnn_ms": 1.0,
        "peer": "torch",
        "peer_ms": 3.0,
    }
    common.finish([row | {"ratio": 3.0}], tmp_path / "out.json", device="d")
    got = json.loads((tmp_path / "out.json").read_text())
    assert {"machine", "commit", "results", "geomean", "device"} == set(got)
    assert got["results"][0]["ratio"] == 3.0
    assert got["geomean"] == pytest.approx({"torch": 3.0})
    assert {"cpu", "cores", "system", "python"} <= set(got["machine"])
    assert "against torch: 3.000" in capsys.readouterr().out


def test_wrong_logits_are_never_timed() -> None:
    want = np.ones((1, 4))
    assert common.checked(want.astype(np.float32), want, 1e-4)["max_error"] == 0
    with pytest.raises(common.Wrong, match="off by 1 "):
        common.checked(2 * want, want, 1e-4)
    with pytest.raises(common.Wrong, match="off by nan"):
        common.checked(want * np.nan, want, 1e-4)


def test_tf32_is_measured_by_what_rounding_operands_does(torch: Any) -> None:
    """Operands of 11 bits: errors of about 2^-12 a product, which a net of three layers keeps near that."""
    from inference import limit_of
    from nets import Net

    net = Net("lenet5")
    assert 2**-13 < net.tf32_rms < 2**-8
    assert limit_of(net, "high") == 2 * net.tf32_rms
    assert limit_of(net, "highest") < 2**-11


def test_the_fastest_peer_counts(torch: Any) -> None:
    from inference import best_of

    case = {"case": "a", "batch": 1, "precision": "high"}
    rows = [
        case | {"peer": "torch-eager", "ratio": 3.0},
        case | {"peer": "torch-compile", "ratio": 2.0},
        case | {"peer": "tinygrad", "ratio": 0.5},
        case | {"peer": None},
        case | {"case": "b", "peer": "torch-eager", "ratio": 8.0},
    ]
    best = best_of(rows, "PyTorch", "torch-")
    assert common.geomeans(best) == pytest.approx({"PyTorch, high, batch 1": 4.0})


def test_unknown_and_missing_peers_are_named(torch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    import peers

    table = {"gone": peers.Peer("no_such_module_anywhere", None), "here": peers.Peer("numpy", None)}
    assert peers.installed(["gone", "here"], table) == ["here"]
    assert "gone: skipped, no_such_module_anywhere is not installed" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="unknown peers x"):
        peers.installed(["x"], table)


# ---- scripts, on the smallest net ----


def script(name: str, *options: str) -> dict[str, Any]:
    """Runs benchmarks/<name> and returns its JSON."""
    path = Path(options[options.index("--json") + 1])
    subprocess.run(
        [sys.executable, str(FOLDER / name), *options], check=True, capture_output=True, timeout=300
    )
    return json.loads(path.read_text())


def test_memory_script_states_the_rule(tmp_path: Path) -> None:
    options = ["--nets", "lenet5", "--batch", "1", "--peers", "none", "--device", DEVICE]
    (row,) = script("memory.py", *options, "--json", str(tmp_path / "m.json"))["results"]
    assert row["rule_bytes"] == row["weights_bytes"] + 1.2 * row["live_bytes"] + row["workspace_bytes"]
    assert row["pass"] and row["peak_bytes"] <= row["rule_bytes"]
    assert row["weights_bytes"] >= row["parameter_bytes"] * 0.9


def test_layers_script_times_every_layer(tmp_path: Path) -> None:
    options = ["--net", "lenet5", "--rounds", "1", "--gflops", "100", "--device", DEVICE]
    rows = script("layers.py", *options, "--json", str(tmp_path / "l.json"))["results"]
    assert [row["case"] for row in rows][-1] == "lenet5"
    assert {"lenet5:features.0+features.2", "lenet5:classifier.5"} <= {row["case"] for row in rows}
    assert rows[-1]["clcnn_ms"] == pytest.approx(sum(row["clcnn_ms"] for row in rows[:-1]))
    assert all(row["gflops_share"] == pytest.approx(row["gflops"] / 100) for row in rows)


def test_strategy_script_compares_rules_with_a_table_and_single_algorithms(tmp_path: Path) -> None:
    nets = ["--nets", "lenet5", "--single", "lenet5", "--algorithms", "im2col,ref", "--busy", "1"]
    options = [*nets, "--rounds", "1", "--device", DEVICE, "--json", str(tmp_path / "s.json")]
    rows = script("strategy.py", *options)["results"]
    assert [row["peer"] for row in rows] == ["table", "im2col", "ref"]
    assert rows[0]["gain"] == pytest.approx(rows[0]["clcnn_ms"] / rows[0]["peer_ms"])
    assert 0 <= rows[0]["reorders"] < 1 and rows[0]["tuning_s"] > 0 and rows[0]["choices"] >= 0


def test_algorithms_script_tells_who_wins(tmp_path: Path) -> None:
    options = ["--match", "k1 c64 f256*", "--rounds", "1", "--device", DEVICE]
    (row,) = script("algorithms.py", *options, "--json", str(tmp_path / "a.json"))["results"]
    found = row["algorithms"]
    assert {row["chosen"], row["fastest"]} <= set(found) and len(found) >= 3
    assert row["peer_ms"] == min(fact["ms"] for fact in found.values())
    assert row["ratio"] == pytest.approx(row["peer_ms"] / found[row["chosen"]]["ms"])
    assert all(fact["rms_error"] < 4e-6 for fact in found.values())


def test_sparsity_script_compares_equal_bits(data_dir: Path, tmp_path: Path) -> None:
    options = ["--maps", "--match", "vgg16_chelsea_conv5_2", "--rounds", "1", "--device", DEVICE]
    (row,) = script("sparsity.py", *options, "--json", str(tmp_path / "z.json"))["results"]
    assert row["ratio"] == pytest.approx(row["peer_ms"] / row["clcnn_ms"])
    assert row["density"] == pytest.approx(0.12, abs=0.01) and row["rms_error"] < 4e-6


def test_sparsity_script_calibrates(data_dir: Path, tmp_path: Path) -> None:
    options = ["--calibrated", "--match", "vgg16_chelsea_conv5_2", "--rounds", "1", "--device", DEVICE]
    (row,) = script("sparsity.py", *options, "--json", str(tmp_path / "z.json"))["results"]
    assert row["ratio"] == pytest.approx(row["peer_ms"] / row["clcnn_ms"])
    assert row["element"] == pytest.approx(0.885, abs=0.001) and row["tile"] == pytest.approx(0.54, abs=0.01)
    assert row["expected"] >= 1.0 and row["rms_error"] < 4e-6


def test_sparsity_script_turns_to_the_dense_form(data_dir: Path, tmp_path: Path) -> None:
    options = ["--guard", "--match", "vgg16_chelsea_conv5_3", "--rounds", "1", "--device", DEVICE]
    rows = script("sparsity.py", *options, "--json", str(tmp_path / "z.json"))["results"]
    assert all(row["dense"] != row["algorithm"] for row in rows)
    assert all(row["density"] < 0.15 and row["dense_ms"] > 0.0 < row["dense_alone_ms"] for row in rows)


@pytest.mark.slow
def test_sparsity_script_times_linear_layers_and_nets(tmp_path: Path) -> None:
    options = ["--linear", "--nets", "--rounds", "1", "--device", DEVICE, "--json", str(tmp_path / "l.json")]
    *rows, net = script("sparsity.py", *options)["results"]
    assert [row["density"] for row in rows] == 3 * [1.0, 0.5, 0.35, 0.2]
    assert all(row["rms_error"] < 4e-6 for row in rows)
    assert net["case"] == "alexnet" and net["ratio"] == pytest.approx(net["peer_ms"] / net["clcnn_ms"])


def test_unfolded_maps_are_the_same_convolution(torch: Any) -> None:
    """On PyTorch's own device; the script takes a GPU."""
    import algorithms
    import unfolded

    import clcnn

    for point in (algorithms.Point(3, 8, 12, 9, 2, 2, True, 4), algorithms.Point(1, 6, 10, 5, 2)):
        graph, x, w = algorithms.graph_of(point)
        x = np.maximum(x, 0)
        with clcnn.compile(graph, device=DEVICE, tune="off") as plan:
            y = plan(x)
        csr = unfolded.Csr(torch, point, x, w, "cpu")
        assert sum(m.values().numel() for m in csr.matrices) < 0.6 * sum(m.numel() for m in csr.matrices)
        for found in (y, csr.result(y.shape)):
            assert algorithms.rms_error(point, found, x, w) < 1e-6


def test_convolutions_beside_cusparse_are_those_of_the_nets() -> None:
    import unfolded

    counts = {net: sum(unfolded.points_of(net).values()) for net in unfolded.NETS}
    assert counts == {"vgg19": 15, "resnet50": 52, "densenet121": 119, "regnet_x_16gf": 70}


def test_baselines_script_takes_nothing_together(tmp_path: Path) -> None:
    options = ["--nets", "lenet5", "--rounds", "1", "--device", DEVICE, "--json", str(tmp_path / "b.json")]
    (row,) = script("baselines.py", *options)["results"]
    assert row["peer"] == "im2col" and row["ratio"] == pytest.approx(row["peer_ms"] / row["clcnn_ms"])


def test_inference_script_compares_with_pytorch(torch: Any, tmp_path: Path) -> None:
    options = ["--nets", "lenet5", "--batch", "1", "--rounds", "1", "--peers", "torch", "--device", DEVICE]
    got = script("cpu_inference.py", *options, "--json", str(tmp_path / "c.json"))
    (row,) = got["results"]
    assert row["ratio"] == pytest.approx(row["peer_ms"] / row["clcnn_ms"])
    assert row["max_error"] < 1e-5
    assert got["geomean"] == pytest.approx({"torch": row["ratio"]})


# ---- training ----


def test_training_script_compares_a_step_and_tells_its_passes(torch: Any, tmp_path: Path) -> None:
    options = ["--nets", "lenet5:4", "--rounds", "1", "--seconds", "0", "--device", DEVICE]
    rows = script("cpu_training.py", *options, "--json", str(tmp_path / "t.json"))["results"]
    assert [row["peer"] for row in rows] == ["contiguous", "channels_last"]
    assert rows[0]["ratio"] == pytest.approx(rows[0]["peer_ms"] / rows[0]["clcnn_ms"])
    assert rows[0]["loss_error"] < 1e-5 and rows[0]["rms_error"] < 1e-4
    assert all(rows[0]["passes"][name] > 0 for name in ("forward", "data", "filter", "update"))
    assert sum(rows[0]["operations"].values()) == pytest.approx(sum(rows[0]["passes"].values()))


def test_a_wrong_step_is_never_timed(torch: Any) -> None:
    import training
    from training_nets import Case

    import clcnn

    case = Case("lenet5", 2)
    with case.trainer(clcnn.Device(DEVICE), "highest", dropout=False) as trainer:
        trainer.optimizer.param_groups[0]["lr"] *= 1.01
        with pytest.raises(common.Wrong, match="off by 0.01"):
            training.checked(case, trainer)


def test_steps_of_a_plan_belong_to_passes() -> None:
    pytest.importorskip("torch")
    from training import pass_of

    forward = {"conv1", "relu"}
    assert pass_of("conv1+relu", "conv", forward) == "forward"
    assert pass_of("conv1:dx", "conv_transpose", forward) == "data"
    assert pass_of("conv1:dx_2", "relu_grad", forward) == "data"
    assert pass_of("conv1:dweight", "conv_filter_grad", forward) == "filter"
    assert pass_of("update", "sgd_update", forward) == "update"
