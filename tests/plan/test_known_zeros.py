"""What plans know of the zeros in the inputs of layers: compile(zeros=), files, keys, rewrites, what the
rules make of it, and measuring on such data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import clcnn
from caselib import parse_case
from clcnn import _core, nn, ops, wisdom
from clcnn.graph import Graph, trace
from clcnn.model_io import ModelFileError, read_graph
from clcnn.wisdom import density
from clcnn.wisdom import measure as measuring
from clcnn.zeros import LayerZeros, Zeros
from rewritten import Net
from runner import MAIN, build_graph, has_blocks

SHARES = LayerZeros(0.65, 0.125, 0.25, 0.625, 0.5)
SHAPE = (1, 3, 16, 16)


def model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(16 * 16 * 16, 4),
    )  # fmt: skip


def known(plan: Any) -> dict[str, Any]:
    """The shares that a plan's layers know, rounded."""
    return {
        row["layer"]: LayerZeros(*(round(share, 6) for share in row["zeros"]))
        for row in (plan.layers() if isinstance(plan, _core.Plan) else plan.layers)
        if row["zeros"]
    }


def compiled(zeros: Any, device: clcnn.Device, **options: Any) -> dict[str, Any]:
    with clcnn.compile(model(), SHAPE, device, zeros=zeros, **options) as plan:
        return known(plan)


# ---- what is given ----


def test_layers_are_told_their_zeros(device, tmp_path):
    of_all = compiled(0.5, device)
    assert of_all == dict.fromkeys(("0", "2", "5"), LayerZeros(0.5, window=0.5))
    zeros = Zeros({"2": SHARES})
    assert compiled(zeros, device) == compiled({"2": SHARES}, device) == {"2": SHARES}
    assert compiled({"2": np.float32(0.25), "5": 1}, device) == {
        "2": LayerZeros(0.25, window=0.25),
        "5": LayerZeros(1, window=1),
    }
    zeros.save(tmp_path / "z.json")
    assert (
        compiled(tmp_path / "z.json", device) == compiled(str(tmp_path / "z.json"), device) == {"2": SHARES}
    )
    assert compiled(None, device) == compiled({}, device) == {}


def test_explain_tells(device):
    with clcnn.compile(model(), SHAPE, device, zeros={"2": SHARES}) as plan:
        lines = [line for line in plan.explain().splitlines() if "% zeros" in line]
    (line,) = lines
    assert line.startswith("2: conv 1x16x16x16 -> 1x16x16x16, fused relu, 65 % zeros")
    assert "(channels 12, blocks 25, windows 62, tiles 50), error class" in line


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"2": -0.1}, "zeros: layer '2': the share element must be from 0 to 1, got -0.1"),
        ({"2": 1.01}, "zeros: layer '2': the share element must be from 0 to 1, got 1.01"),
        (2, "zeros: layer '0': the share element must be from 0 to 1, got 2"),
        ({"2": float("nan")}, "the share element must be from 0 to 1, got nan"),
        ({"2": SHARES._replace(tile=1.5)}, "zeros: layer '2': the share tile must be from 0 to 1, got 1.5"),
        ({"22": 0.5}, "zeros: there is no layer '22'; did you mean '2'"),
        ({"1": 0.5}, "zeros: layer '1' has no weights: zeros are told of convolutions and linear layers"),
    ],
)
def test_what_breaks_a_rule_is_named(device, given, message):
    with pytest.raises(clcnn.ArgumentError) as caught:
        compiled(given, device)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given", [{"2": "half"}, {"2": None}, {"2": (0.5, 0.5)}, {"2": True}, {3: 0.5}, [0.5], True]
)
def test_what_is_no_share(device, given):
    with pytest.raises(clcnn.DtypeError, match="zeros: "):
        compiled(given, device)


@pytest.mark.parametrize(
    ("zeros", "kind", "message"),
    [
        ({"nope": tuple(SHARES)}, _core.ArgumentError, "zeros: there is no layer 'nope'"),
        ({"1": tuple(SHARES)}, _core.ArgumentError, "zeros: layer '1' is a relu; they are told of conv"),
        ({"2": (0.5, 0, 0, 0, 2)}, _core.ArgumentError, "zeros: layer '2': the share tile must be"),
        ({"2": (float("nan"), 0, 0, 0, 0)}, _core.ArgumentError, "layer '2': the share element must be"),
        ({"2": (0.5,)}, _core.DtypeError, "zeros: layer '2': expected five numbers, got"),
        ({"2": 0.5}, _core.DtypeError, "zeros: layer '2': expected five numbers, got 0.5"),
        ({2: tuple(SHARES)}, _core.DtypeError, "zeros: layer: expected a string"),
    ],
)
def test_the_core_checks_too(device, zeros, kind, message):
    with pytest.raises(kind, match=message):
        _core.Plan(device, trace(model(), SHAPE)._core, zeros=zeros)


# ---- files ----


def test_tables_and_files(tmp_path):
    zeros = Zeros({"a": SHARES, "b": 0.5}, {"a": (8, 4, 3, 3)})
    zeros.save(tmp_path / "z.json")
    assert [p.name for p in tmp_path.iterdir()] == ["z.json"]
    again = Zeros.load(tmp_path / "z.json")
    assert dict(again) == dict(zeros) == {"a": SHARES, "b": LayerZeros(0.5, window=0.5)}
    assert again.weights == {"a": (8, 4, 3, 3)}
    assert repr(again) == "<clcnn.Zeros: 2 layers>" and "65.0" in str(again)
    assert "<td>65.0</td>" in again._repr_html_()


def damaged(tmp_path: Path, change: Any) -> Path:
    path = tmp_path / "z.json"
    Zeros({"2": SHARES}, {"2": (16, 16, 3, 3)}).save(path)
    path.write_text(change(path.read_text()))
    return path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t[: len(t) // 2], "not a file of clcnn.Zeros, or a damaged one: "),
        (lambda t: "", "not a file of clcnn.Zeros, or a damaged one: "),
        (
            lambda t: "[]",
            "not a file of clcnn.Zeros, or one of another version: clcnn_zeros must be 1, got None",
        ),
        (
            lambda t: t.replace('"clcnn_zeros": 1', '"clcnn_zeros": 2'),
            "another version: clcnn_zeros must be 1",
        ),
        (
            lambda t: t.replace("0.65", "65"),
            "a damaged file of clcnn.Zeros: zeros: layer '2': the share element",
        ),
        (lambda t: t.replace("0.65", "NaN"), "the share element must be from 0 to 1, got nan"),
        (lambda t: t.replace("0.65", '"0.65"'), "layer '2': expected a share or LayerZeros"),
        (
            lambda t: t.replace('"tile"', '"tiles"'),
            "layer '2': expected element, channel, block, window, tile",
        ),
        (
            lambda t: t.replace("16,", "-16,"),
            "damaged file of clcnn.Zeros: layer '2': weights: -16 is less than 1",
        ),
        (lambda t: '{"clcnn_zeros": 1, "layers": null}', "layers: expected an object, got None"),
        (lambda t: '{"clcnn_zeros": 1, "layers": {"2": 0.5}}', "layer '2': expected an object, got 0.5"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, change, message):
    path = damaged(tmp_path, change)
    with pytest.raises(clcnn.ArgumentError) as caught:
        Zeros.load(path)
    assert str(caught.value).startswith(f"{path}: ") and message in str(caught.value)


def test_a_file_of_another_model(device, tmp_path):
    path = tmp_path / "z.json"
    Zeros({"features.0": SHARES}).save(path)
    with pytest.raises(clcnn.ArgumentError, match=r"zeros of .*z\.json: there is no layer 'features.0'"):
        compiled(path, device)
    Zeros({"2": SHARES}, {"2": (64, 16, 3, 3)}).save(path)
    with pytest.raises(clcnn.ArgumentError) as caught:
        compiled(path, device)
    assert "they are of another model: layer '2' had weights of shape (64, 16, 3, 3), here" in str(
        caught.value
    )
    with pytest.raises(FileNotFoundError):
        compiled(tmp_path / "none.json", device)


def test_models_keep_them_in_their_file(device, tmp_path):
    path = tmp_path / "net.clcnn"
    clcnn.save(model(), path, SHAPE, zeros={"2": SHARES})
    loaded = clcnn.load(path)
    assert loaded.zeros is not None and dict(loaded.zeros) == {"2": SHARES}
    with clcnn.compile(loaded, SHAPE, device) as plan:
        assert known(plan) == {"2": SHARES}
    for other, want in ((0.25, 3), ({}, 0)):
        with clcnn.compile(loaded, SHAPE, device, zeros=other) as plan:
            assert len(known(plan)) == want
    clcnn.save(loaded, path)
    assert dict(clcnn.load(path).zeros or {}) == {"2": SHARES}
    clcnn.save(loaded, path, zeros={})
    assert clcnn.load(path).zeros is None
    with pytest.raises(clcnn.ArgumentError, match="zeros: there is no layer 'none'"):
        clcnn.save(model(), path, SHAPE, zeros={"none": 0.5})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0.65", "6.5", "layer '2': the share element must be from 0 to 1, got 6.5"),
        ('"2": {', '"7": {', "zeros: there is no layer '7'"),
        ('"zeros": {', '"zeros": 3, "more": {', "layers: expected an object, got 3"),
    ],
)
def test_a_model_file_with_wrong_ones(tmp_path, old, new, message):
    path = tmp_path / "net.clcnn"
    clcnn.save(model(), path, SHAPE, zeros={"2": SHARES})
    tensors = clcnn.weights.load(path, strip_prefix="")
    text = json.dumps(read_graph(path))
    before, zeros, after = text.partition('"zeros": {')
    clcnn.weights.save_safetensors(path, tensors, {"clcnn": before + (zeros + after).replace(old, new, 1)})
    with pytest.raises(ModelFileError) as caught:
        clcnn.load(path)
    assert message in str(caught.value)


# ---- keys ----

CASE = parse_case("conv n2 c6 h9 w9 k8 r3 s3 p1 e:relu")


def row_of(device: _core.Device, case: Any = CASE, **options: Any) -> Any:
    with _core.Plan(device, build_graph(case, case.data()), **options) as plan:
        return next(row for row in plan.layers() if MAIN in row["layer"])


def of_main(share: float, tile: float = 0.0) -> dict[str, Any]:
    return {MAIN: (share, 0.0, 0.0, share, tile)}


def test_keys_have_tenths(device):
    dense = row_of(device)["key"]
    for share, tenths in ((0.65, "0.6"), (0.66, "0.7"), (0.95, "0.9"), (1.0, "1.0"), (0.05, "0.1")):
        key = row_of(device, zeros=of_main(share))["key"]
        assert wisdom.without_zeros(key) == dense != key
        assert float(key.partition("zeros=")[2].split()[0]) == pytest.approx(float(tenths), abs=0.1001)
    assert " zeros=0.7 " in row_of(device, zeros=of_main(0.7))["key"]
    assert row_of(device, zeros=of_main(0.04))["key"] == dense


def test_a_choice_for_its_zeros_comes_first(device):
    dense, sparse = (row_of(device, zeros=z)["key"] for z in ({}, of_main(0.7)))
    table = {dense: "ref", sparse: "direct"}
    assert row_of(device, wisdom=table)["algo"] == "ref"
    assert row_of(device, wisdom=table, zeros=of_main(0.7))["algo"] == "direct"
    assert row_of(device, wisdom=table, zeros=of_main(0.3))["algo"] == "ref"
    assert row_of(device, wisdom={sparse: "direct"}, zeros=of_main(0.3))["key"] not in table


def test_what_is_measured_overrules_what_was_known_of_dense_data():
    key = "conv x1 zeros=0.7 act_none highest"
    found = measuring.Measured({}, {}, {key: "r", "conv x2 zeros=0.7 act_none highest": "r"})
    assert found.into({"conv x1 act_none highest": "old"}) == {"conv x1 act_none highest": "old", key: "r"}


# ---- rewrites ----


def after_rewrites(device: clcnn.Device, net: Net, **zeros: float) -> tuple[dict[str, Any], list[Any]]:
    given = {name: (share, 0.0, 0.0, share, 0.0) for name, share in zeros.items()}
    with _core.Plan(device, net.graph, zeros=given) as plan:
        return {name: shares.element for name, shares in known(plan).items()}, plan.layers()


def test_fused_and_merged_layers_keep_them(device):
    net = Net()
    x = net.batch_norm("bn", net.conv("conv", net.input("x", 1, 16, 8, 8), 16, 3))
    x = net.layer("max_pool", "pool", net.layer("relu", "relu", x), kernel_size=(2, 2), stride=(2, 2))
    net.output(x)
    got, layers = after_rewrites(device, net, conv=0.5)
    assert got.pop("conv+pool") == 0.5 and set(got) <= {"conv"}  # the convolution of a split
    assert all(row["zeros"] is None for row in layers if row["op"] == "max_pool")


def test_the_input_of_a_pointwise_layer_that_is_merged_is_no_map(device):
    net = Net()
    x = net.conv("dw", net.input("x", 1, 16, 8, 8), 16, 3, groups=16)
    net.output(net.conv("pw", x, 16, 1))
    got, layers = after_rewrites(device, net, dw=0.25, pw=0.75)
    assert got["dw+pw"] == 0.25
    parts = [row["zeros"] for row in layers if row["part"]]
    assert not parts or (parts[0][0] == 0.25 and parts[1] is None)


def test_a_merged_layer_that_is_taken_apart_has_its_own(device):
    net = Net()
    x = net.conv("dw", net.input("x", 1, 16, 8, 8), 16, 3, groups=16)
    net.output(net.conv("pw", x, 16, 1))
    given = {"dw": (0.25, 0, 0, 0, 0), "pw": (0.75, 0, 0, 0, 0)}
    with _core.Plan(device, net.graph, zeros=given, overrides={"pw": "direct"}) as plan:
        assert {name: z.element for name, z in known(plan).items()} == {"dw": 0.25, "pw": 0.75}


def test_means_before_a_layer_forget_them(device):
    net = Net()
    x = net.conv("conv", net.input("x", 1, 16, 8, 8), 16, 1)
    net.output(net.layer("avg_pool", "pool", x, kernel_size=(2, 2), stride=(2, 2)))
    assert after_rewrites(device, net, conv=0.5)[0] == {}


@pytest.mark.parametrize("told", ["large", "small"])
def test_branches_of_one_input_share_them(device, told):
    net = Net()
    x = net.input("x", 1, 8, 9, 9)
    large, small = net.conv("large", x, 8, 3), net.conv("small", x, 8, 1)
    net.output(net.layer("add", "sum", large, small))
    assert after_rewrites(device, net, **{told: 0.5})[0] == {"large": 0.5}


def test_products_with_constants_are_linear_layers(device):
    graph = Graph()
    x = graph.input("x", (4, 8))
    y = graph.apply("matmul", x, np.ones((8, 8), np.float32), name="m")
    graph.output(graph.apply("gemm", y, np.ones((8, 8), np.float32), name="g"), "y")
    with clcnn.compile(graph, device=device, zeros={"m": 0.5, "g": 0.25}) as plan:
        assert {name: z.element for name, z in known(plan).items()} == {"m": 0.5, "g": 0.25}
        assert {row["op"] for row in plan.layers if row["zeros"]} == {"linear"}
    with pytest.raises(clcnn.ArgumentError, match="layer 'm' has no weights"):
        other = Graph()
        a, b = other.input("a", (4, 8)), other.input("b", (8, 4))
        other.output(other.apply("matmul", a, b, name="m"), "y")
        clcnn.compile(other, device=device, zeros={"m": 0.5})


# ---- rules ----

WINOGRAD = parse_case("conv n1 c64 h14 w14 k64 r3 s3 p1")


def test_winograd_is_expected_to_leave_out_what_is_zero(device):
    if not has_blocks(device):
        pytest.skip("the device has no channel blocks")
    slow = {"winograd_small": 4.0, "winograd_large": 4.0}  # so that blocked is taken without zeros
    rules, single, tiles, every = (
        row_of(device, WINOGRAD, profile=slow, **options)
        for options in (
            {},
            {"zeros": of_main(0.9)},
            {"zeros": of_main(0.9, 0.9)},
            {"zeros": of_main(0.9, 0.9), "skip": False},
        )
    )

    def effort(row: Any, algorithm: str) -> float:
        return float(next(c["effort"] for c in row["candidates"] if c["algo"] == algorithm))

    assert rules["algo"] == every["algo"] == "blocked"
    assert single["algo"] == tiles["algo"] == "sparse_mask"
    assert effort(single, "winograd") == effort(every, "winograd") == effort(rules, "winograd")
    assert effort(tiles, "winograd") < 0.7 * effort(rules, "winograd")
    assert effort(tiles, "blocked") == effort(rules, "blocked")


def test_results_hang_on_no_zeros(device):
    x = np.random.default_rng(0).standard_normal(SHAPE, np.float32)
    net = model()
    with (
        clcnn.compile(net, SHAPE, device, tune="off") as rules,
        clcnn.compile(net, SHAPE, device, tune="off", zeros=LayerZeros(1, 1, 1, 1, 1)[0]) as wrong,
    ):
        np.testing.assert_allclose(wrong(x), rules(x), rtol=1e-4, atol=1e-5)


# ---- measuring ----


@pytest.mark.parametrize(
    "zeros",
    [
        LayerZeros(0.65, window=0.65),
        LayerZeros(0.9, 0.5, 0.2, 0.9, 0.7),
        LayerZeros(1, 1, 1, 1, 1),
        LayerZeros(0),
    ],
)
def test_masks_have_the_shares(zeros):
    x = density.mask(np.random.default_rng(0), (4, 128, 56, 56), zeros, is_map=True)
    assert float(np.mean(x == 0)) == pytest.approx(zeros.element, abs=0.03)
    whole = ~x.reshape(4, 128, -1).any(axis=2)
    assert float(np.mean(whole)) == pytest.approx(zeros.channel, abs=0.06)
    graph = Graph()
    w = np.zeros((1, 128, 3, 3), np.float32)
    graph.output(ops.conv(graph.input("x", (1, *x.shape[1:])), w, padding=1, name="c"), "y")
    assert clcnn.calibrate(graph, x)["c"].tile == pytest.approx(zeros.tile, abs=0.1)


def test_masks_of_rows_lie_anywhere():
    x = density.mask(
        np.random.default_rng(0), (2, 3, 1000), LayerZeros(0.8, 0.8, 0.5, 0.8, 0.8), is_map=False
    )
    assert float(np.mean(x == 0)) == pytest.approx(0.8, abs=0.03)


def test_measuring_is_done_on_such_data(device):
    graph = trace(model(), SHAPE)
    zeros = dict(Zeros({"0": 0.3, "2": 0.8, "5": 0.9}))
    nets = measuring._Nets(graph, device, zeros)
    assert float(np.mean(nets.inputs[0] == 0)) == pytest.approx(0.3, abs=0.05)
    found = clcnn.calibrate(nets.graph, nets.inputs[0], device)
    for layer in zeros:
        assert found[layer].element == pytest.approx(zeros[layer].element, abs=0.05)
    with nets.plan({}) as plan, _core.Plan(device, graph._core, zeros=zeros) as own:
        keys = {row["key"] for row in own.layers() if row["zeros"]}
        measured = {row["key"] for row in nets.layers(plan)}
        assert len(keys) == 3 and keys <= measured
        assert not any("zeros:" in row["layer"] and row["op"] != "reorder" for row in nets.layers(plan))


def test_masks_leave_merged_layers_as_they_are(device):
    net = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 16, 1), nn.ReLU())
    zeros = dict(Zeros({"0": 0.5, "1": 0.5}))
    nets = measuring._Nets(trace(net, (1, 16, 9, 9)), device, zeros)
    with nets.plan({}) as plan:
        assert [row["layer"] for row in nets.layers(plan) if row["zeros"]] == ["0+1"]


def test_compile_measures_and_remembers_by_zeros(device, tmp_path, monkeypatch):
    monkeypatch.setenv("CLCNN_CACHE_DIR", str(tmp_path))
    with clcnn.compile(model(), SHAPE, device, tune="measure", zeros={"2": 0.7}) as plan:
        key = next(row["key"] for row in plan.layers if row["layer"] == "2")
    path = wisdom.own_file(device)
    assert path is not None and " zeros=0.7 " in key and key in wisdom.read_times(path)
