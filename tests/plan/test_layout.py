"""The layout of values on CPU devices: where reorders stand between layers, and where none does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import device_face
from caselib import parse_case
from clcnn import _core
from clcnn._reference import REFERENCE
from runner import ON_BLOCKS, compile_case, exact_on_integers, has_blocks, layers_of_graph, try_case

Array = np.ndarray


@pytest.fixture(autouse=True)
def _needs_blocks(request: pytest.FixtureRequest) -> Iterator[None]:
    if not has_blocks(request.getfixturevalue("device")):
        pytest.skip("the device has no channel blocks")
    yield


# These are no layers where all maps are row-major.
VIEWS_OF_ROWS = ("concat", "split")


class Net:
    """A graph of whole numbers under construction; `on` forces algorithms by the name of a layer."""

    def __init__(self) -> None:
        self.graph, self.on = _core.Graph(), {}
        self._rng = np.random.default_rng(5)
        self._inputs: list[tuple[int, ...]] = []

    def input(self, name: str, *shape: int) -> int:
        self._inputs.append(shape)
        return self.graph.input(name, shape)

    def layer(self, op: str, name: str, *inputs: int, algo: str = "", **attrs: Any) -> int:
        if algo:
            self.on[name] = algo
        return self.graph.node(op, name, inputs, attrs)[0]

    def conv(
        self, name: str, x: int, filters: int, size: int = 3, algo: str = "blocked", **attrs: Any
    ) -> int:
        c = self.graph.shape(x)[1] // attrs.get("groups", 1)
        w = self._rng.integers(-2, 3, (filters, c, size, size)).astype(np.float32)
        weights = self.graph.constant(f"{name}_w", w)
        return self.layer("conv", name, x, weights, algo=algo, padding=(size // 2,), **attrs)

    def pool(self, name: str, x: int, algo: str = "blocked") -> int:
        return self.layer("max_pool", name, x, algo=algo, kernel_size=(2,), stride=(1,))

    def run(self, device: _core.Device, *outputs: int, fuse: bool = False, near: float = 0.0) -> list[str]:
        """Names of the steps in order, each once, after a look at the results: those of the definition of
        every layer, or numbers `near` them, from guarded memory."""
        for i, value in enumerate(outputs):
            self.graph.output(value, f"out{i}")
        data = [self._rng.integers(-3, 4, shape).astype(np.float32) for shape in self._inputs]
        with _core.Plan(device, self.graph, fuse=False) as plan:
            rows = [row for row in layers_of_graph(plan.layers()) if row["op"] not in VIEWS_OF_ROWS]
            plain = {row["layer"]: "ref" for row in rows}
        with _core.Plan(device, self.graph, overrides=plain, fuse=False) as plan:
            assert reorders([row["layer"] for row in plan.steps()]) == []
            wanted = plan.run(data)
        for guard in (True, False):
            with _core.Plan(device, self.graph, overrides=self.on, fuse=fuse, guard=guard) as plan:
                got = plan.run(data)
                if guard:
                    plan.check_guards()
                names = [row["layer"] for row in plan.steps()]
            for one, other in zip(got, wanted, strict=True):
                assert np.any(other)
                np.testing.assert_allclose(one, other, rtol=0.0, atol=near)
        return list(dict.fromkeys(names))


def reorders(names: list[str]) -> list[str]:
    return [name for name in names if name.endswith((":blocked", ":plain"))]


# ---- where reorders are ------------------------------------------------------------------------------------


def test_a_chain_goes_in_once_and_comes_out_once(device):
    net = Net()
    y = net.pool("pool", net.conv("a", net.input("x", 2, 20, 7, 9), 24))
    y = net.conv("b", net.layer("relu", "act", y), 18, 1)
    assert net.run(device, y) == ["x:blocked", "a", "pool", "act", "b", "b:plain"]


def test_a_stem_needs_no_blocks_to_start_with(device):
    net = Net()
    y = net.conv("b", net.conv("a", net.input("x", 2, 3, 7, 9), 24, algo="stem"), 18)
    assert net.run(device, y) == ["a", "b", "b:plain"]


def test_layers_on_rows_need_no_reorders(device):
    net = Net()
    y = net.pool("pool", net.conv("a", net.input("x", 2, 20, 7, 9), 24, algo="rows"), algo="ref")
    assert net.run(device, net.layer("neg", "neg", y)) == ["a", "pool", "neg"]


@pytest.mark.parametrize("first", ["blocked", "rows"])
def test_a_value_is_reordered_once_for_all_who_read_it(device, first):
    net = Net()
    y = net.conv("a", net.input("x", 2, 20, 7, 9), 24, algo=first)
    others = [
        net.conv(f"other{i}", y, 18, algo="rows" if first == "blocked" else "blocked") for i in range(2)
    ]
    same = net.conv("same", y, 18, algo=first)
    names = net.run(device, *(net.layer("neg", f"neg{i}", v) for i, v in enumerate([*others, same])))
    assert [name for name in reorders(names) if name.startswith("a:")] == [
        "a:plain" if first == "blocked" else "a:blocked"
    ]


def test_layouts_alternate_with_the_algorithms(device):
    net = Net()
    y = net.conv("b", net.conv("a", net.input("x", 1, 20, 7, 9), 24), 18, algo="rows")
    y = net.conv("c", y, 20)
    assert net.run(device, y) == ["x:blocked", "a", "a:plain", "b", "b:blocked", "c", "c:plain"]


def test_single_pixels_of_whole_blocks_are_the_same_bytes_in_both_layouts(device):
    net = Net()
    y = net.conv("a", net.input("x", 3, 32, 1, 1), 48, 1)
    assert net.run(device, net.layer("flatten", "flat", y)) == ["a"]
    net = Net()
    y = net.conv("a", net.input("x", 3, 33, 1, 1), 47, 1)
    assert net.run(device, y) == ["x:blocked", "a", "a:plain"]


def test_what_is_added_comes_in_the_layout_of_the_result(device):
    """A residual from the graph's input, and one from a layer on blocks, in the epilogue of a convolution."""
    net = Net()
    x, z = net.input("x", 2, 19, 7, 9), net.input("z", 2, 19, 7, 9)
    y = net.layer("add", "sum", net.conv("a", x, 19), z)
    y = net.layer("add", "twice", net.conv("b", y, 19), y)
    names = net.run(device, net.layer("relu", "act", y), fuse=True)
    assert names == ["x:blocked", "z:blocked", "a", "b", "b:plain"]


# ---- what goes with the layout of its inputs -------------------------------------------------------------


def test_work_on_elements_follows_its_inputs(device):
    net = Net()
    x = net.input("x", 2, 19, 7, 9)
    a, b = net.conv("a", x, 21), net.conv("b", x, 21)
    y = net.layer("mul", "product", net.layer("add", "sum", a, b), a)
    y = net.layer("abs", "abs", y)
    assert net.run(device, y) == ["x:blocked", "a", "b", "sum", "product", "abs", "abs:plain"]


@pytest.mark.parametrize(("op", "attrs"), [("greater", {}), ("cast", {"to": "int64"}), ("is_nan", {})])
def test_results_of_other_types_are_rows(device, op, attrs):
    """Only float32 has channel blocks: an operator that makes something else of them reads rows."""
    net = Net()
    x = net.pool("pool", net.input("x", 2, 16, 6, 6))
    inputs = (x, net.input("y", 2, 16, 5, 5)) if op == "greater" else (x,)
    made = net.layer("cast", "float", net.layer(op, "made", *inputs, **attrs), to="float32")
    if op == "is_nan":
        made = net.layer("sub", "ones", net.graph.constant("one", np.ones(1, np.float32)), made)
    names = net.run(device, made)
    assert "pool:plain" in names


@pytest.mark.parametrize("channels", [21, 32])
@pytest.mark.parametrize(
    "shape",
    [(2, 0, 1, 1), (1, 0, 1, 1), (0, 1, 1), (1,), (), (2, 1, 7, 9), (1, 1, 7, 9), (1, 0, 7, 9), (2, 1, 1, 1)],
)
def test_maps_stay_in_blocks_beside_a_value_a_channel_or_a_pixel(device, channels, shape):
    """Each way round; 0 stands for the channels."""
    net = Net()
    y = net.conv("a", net.input("x", 2, 19, 7, 9), channels)
    small = net.input("small", *(channels if size == 0 else size for size in shape))
    scaled = net.layer("add", "scaled", y, small)
    names = net.run(device, net.conv("b", net.layer("sub", "less", small, scaled), 19))
    made = [name for name in names if name not in ("x:blocked", "a", "scaled", "less", "b", "b:plain")]
    assert made == (["small:blocked"] if shape == (1, 0, 7, 9) else [])


def test_a_gate_on_blocks(device):
    """Squeeze and excite: mean, two layers and the scaling of the map, none of them in rows."""
    net = Net()
    y = net.conv("a", net.input("x", 2, 19, 8, 8), 40)
    gate = net.layer("adaptive_avg_pool", "mean", y, algo="blocked", output_size=(1, 1))
    gate = net.conv("up", net.layer("relu", "act", net.conv("down", gate, 12, 1)), 40, 1)
    names = net.run(device, net.layer("mul", "scaled", y, gate))
    assert reorders(names) == ["x:blocked", "scaled:plain"]


@pytest.mark.parametrize("op", ["log", "reciprocal", "acosh", "exp", "sigmoid"])
def test_lanes_past_the_channels_stay_zeros(device, op):
    """Functions of zero that are no zero: what a convolution on blocks multiplies by zeros must be finite."""
    graph = _core.Graph()
    rng = np.random.default_rng(3)
    x = rng.uniform(1.5, 2.5, (1, 19, 5, 6)).astype(np.float32)
    w = rng.uniform(0.5, 1.5, (19, 19, 1, 1)).astype(np.float32)
    y = graph.node("abs", "a", [graph.input("x", x.shape)], {})[0]
    eye = graph.constant("eye", np.eye(19, dtype=np.float32)[:, :, None, None])
    y = graph.node("conv", "first", [y, eye], {})[0]
    y = graph.node(op, "f", [y], {})[0]
    graph.output(graph.node("conv", "second", [y, graph.constant("w", w)], {})[0], "y")
    on = {"first": "blocked", "second": "blocked"}
    with _core.Plan(device, graph, overrides=on) as plan:
        assert "f:plain" not in [row["layer"] for row in plan.steps()]
        got = plan.run([x])[0]
    wanted = np.einsum("kc,nchw->nkhw", w[:, :, 0, 0], REFERENCE[op](x.astype(np.float64)))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_a_row_of_pixels_takes_the_product_back_to_rows(device):
    net = Net()
    y = net.conv("a", net.input("x", 2, 19, 7, 9), 21)
    scale = net.input("scale", 1, 9)
    assert net.run(device, net.layer("mul", "scaled", y, scale)) == ["x:blocked", "a", "a:plain", "scaled"]


@pytest.mark.parametrize("channels", [5, 8, 16, 21])
@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max"])
def test_what_reduces_a_blocked_map_of_one_pixel_takes_its_rows(device, op, channels):
    """The reduction was judged when its input lay in blocks, and then reads rows: other strides."""
    net = Net()
    y = net.conv("a", net.input("x", 2, 19, 2, 1), channels)
    y = net.layer("adaptive_max_pool", "pool", y, algo="blocked", output_size=(1,))
    net.run(device, net.layer(op, "sum", y), fuse=True)


@pytest.mark.parametrize("widths", [(16, 32), (48, 16, 16)])
def test_parts_of_whole_blocks_are_written_side_by_side(device, widths):
    net = Net()
    x = net.input("x", 2, 20, 7, 9)
    parts = [net.conv(f"part{i}", x, width) for i, width in enumerate(widths)]
    y = net.conv("last", net.layer("concat", "join", *parts, dim=1), 18)
    names = [f"part{i}" for i in range(len(widths))]
    assert net.run(device, y) == ["x:blocked", *names, "last", "last:plain"]


def test_work_that_is_not_on_maps_stays_in_rows(device):
    """A softmax over channels, a minimum over pixels and a transposition see row-major values."""
    net = Net()
    y = net.conv("a", net.input("x", 2, 20, 7, 9), 21)
    least = net.layer("reduce_min", "min", y, axes=(2, 3))
    turned = net.layer("transpose", "turn", y, perm=(0, 2, 3, 1))
    names = net.run(device, least, turned)
    assert reorders(names) == ["x:blocked", "a:plain"]


# ---- what users see ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("instance_norm", {}),
        ("group_norm", {"groups": 3}),
        ("layer_norm", {"dim": 1, "dims": 1}),
        ("l2_norm", {"dim": 1}),
    ],
)
def test_norms_take_maps_as_they_lie(device, op, attrs):
    """Between convolutions on channel blocks, else row-major."""
    net = Net()
    x = net.input("x", 2, 24, 7, 9)
    y = net.conv("b", net.layer(op, "n", net.conv("a", x, 36), **attrs), 18)
    assert net.run(device, y, near=1e-3) == ["x:blocked", "a", "n", "b", "b:plain"]
    net = Net()
    x = net.input("x", 2, 24, 7, 9)
    assert net.run(device, net.layer(op, "n", x, **attrs), near=1e-5) == ["n"]


def test_results_of_inner_layers_are_row_major(device):
    """And the layers after them go on in blocks."""
    net = Net()
    a = net.conv("a", net.input("x", 2, 20, 7, 9), 21)
    b = net.pool("b", a)
    names = net.run(device, a, b, net.conv("c", b, 5))
    assert names[:4] == ["x:blocked", "a", "b", "c"]
    assert sorted(names[4:]) == ["a:plain", "b:plain", "c:plain"]


def test_an_input_may_be_an_output_too(device):
    net = Net()
    x = net.input("x", 2, 20, 7, 9)
    assert net.run(device, net.conv("a", x, 21), net.layer("neg", "neg", x)).count("x:blocked") == 1


def test_reorders_take_no_overrides(device):
    net = Net()
    net.graph.output(net.conv("a", net.input("x", 2, 20, 7, 9), 21), "y")
    with pytest.raises(_core.ArgumentError, match="unknown layer 'x:blocked'"):
        _core.Plan(device, net.graph, overrides=net.on | {"x:blocked": "block"})
    with _core.Plan(device, net.graph, overrides=net.on) as plan:
        layers = {row["layer"]: (row["op"], row["algo"]) for row in plan.layers()}
    assert layers == {
        "x:blocked": ("reorder", "block"),
        "a": ("conv", "blocked"),
        "a:plain": ("reorder", "unblock"),
    }


# ---- channels beside the block -----------------------------------------------------------------------------

REMAINDERS = (
    tuple(
        parse_case(text.format(c=c, rest=c - 3))
        for c in (5, 17, 33)
        for text in (
            "conv n2 c{c} h7 w9 k{c} r3 s3 p1 e:add+relu",
            "conv n2 c{c} h7 w9 k{c} r1 s1",
            "conv n2 c{c} h7 w9 k{c} r4 s4 p2 e:add+relu",
            "conv n2 c{c} h7 w9 k{c} r5 s5 p2 e:add+relu",
            "conv n2 c{c} h7 w9 k{c} r3 s3 u2 p1 e:add+relu6",
            "conv n2 c{c} h7 w9 k{c} r3 s3 u2 p1 g{c} e:relu6",
            "conv_transpose n2 c{c} h5 w9 k{c} r4 s3 u2 p1 e:add+relu",
            "conv_transpose n2 c{c} h5 w9 k{c} r4 s3 u2 p1 g{c} e:add+relu",
            "separable n2 c{c} h7 w9 k{c} r3 s3 p1 m:relu e:add",
            "inverted_residual n2 c{c} h5 w15 q{c} k{c} r3 s3 p1 i:relu m:relu e:add",
            "conv_pool n2 c{c} h7 w9 k{c} r3 s3 p1 e:relu+maxpool2",
            "conv_pool n2 c3 h20 w22 k{c} r7 s7 u2 p3 e:relu+maxpool3s2p1",
            "conv_filter_grad [2,{c},7,9] [2,{c},7,9] kernel_size=3 padding=1",
            "conv_filter_grad [2,{c},7,9] [2,{c},4,5] kernel_size=3 padding=1 stride=2 groups={c}",
            "conv_transpose n2 c{c} h5 w9 k{c} r3 s3 p1 e:add+relu",
            "conv_transpose n2 c{c} h6 w7 k{c} r3 s3 p2",
            "max_pool [2,{c},7,9] kernel_size=3 stride=2 padding=1",
            "max_pool_grad [2,{c},7,9] [2,{c},4,5] kernel_size=3 stride=2 padding=1",
            "avg_pool [2,{c},7,9] kernel_size=2",
            "adaptive_max_pool [2,{c},7,9] output_size=3",
            "lp_pool [2,{c},7,9] kernel_size=3,2 stride=2 padding=1,0,0,1 dilation=1,2",
            "adaptive_avg_pool [2,{c},7,9] output_size=1",
            "batch_norm [2,{c},7,9] w[{c}] w[{c}] w[{c}] w[{c}]",
            "batch_norm_train [2,{c},7,9] w[{c}] w[{c}]",
            "batch_norm_train [2,{c},7,9] w[{c}] w[{c}] e:add+relu",
            "batch_norm_train_grad [2,{c},7,9] [2,{c},7,9] w[{c}] w[{c}] w[{c}] w[{c}]",
            "instance_norm [2,{c},7,9] w[{c}] w[{c}]",
            "group_norm [2,{c},40,45] w[{c}] w[{c}] groups=1",
            "layer_norm [2,{c},7,9] w[{c}] w[{c}] dim=1 dims=1",
            "rms_norm [2,{c},7,9] w[{c}] dim=1 dims=1",
            "l2_norm [2,{c},7,9] dim=1",
            "reorder [2,{c},7,9]",
            "transpose [2,7,9,{c}] perm=0,3,1,2",
            "transpose [2,{c},7,9] perm=0,2,3,1",
            "concat [2,{c},7,9] [2,3,7,9] [2,{c},7,9]",
            "split [2,{c},7,9] sizes=2,{rest},1",
            "slice [2,{c},7,9] starts=1 ends=-1 axes=1",
            "slice [2,{c},7,9] starts=-1 ends=-100 axes=1 steps=-2",
            "slice [2,{c},7,9] starts=1,-1 ends=6,-9 axes=2,3 steps=1,-3",
            "pad [2,{c},7,9] pads=0,0,2,3,0,0,-1,4 value=2.0",
            "pad [2,{c},7,9] pads=0,0,2,3,0,0,0,4 mode=reflect",
            "resize [2,{c},7,9] size=15,13",
            "resize [2,{c},7,9] size=15,13 mode=linear",
            "roi_align [2,{c},10,12] [5,4] [5]:int64 output_size=3,4",
        )
    )
    + tuple(  # and for what takes halves of whole blocks only
        parse_case(f"conv n{n} c{c} h7 w9 k64 r1 s1 e:{end}")
        for n, c, end in ((1, 32, "relu"), (3, 64, "add"), (2, 96, "add+relu6"))
    )
    + tuple(  # three dimensions, and groups that share blocks
        parse_case(text)
        for text in (
            "conv n2 c17 d3 h5 w9 k20 t3 r3 s3 p1 e:add+relu",
            "conv n2 c36 d3 h5 w9 k60 t3 r1 s1 p1x0x0 g3 e:add",
            "conv n2 c12 h7 w9 k12 r3 s3 p1 g3 e:add+relu",
            "conv n2 c12 h7 w15 k12 r3 s3 u2 p1 g6",
            "conv n1 c20 h7 w9 k20 r2 s3 l2 p1 g5",
            "conv n1 c3 d4 h9 w9 k17 t3 r3 s3 u1x2x2 p1",
        )
    )
    + tuple(
        parse_case(f"separable n{n} c{c} h3 w42 k64 r3 s3 p1 m:relu e:{end}")
        for n, c, end in ((1, 32, "relu"), (3, 64, "add"), (2, 96, "add+relu6"))
    )
)


# What is on channel blocks always: `vector` follows its maps.
FOR_BLOCKS = frozenset(pair for pair in ON_BLOCKS if pair[1] != "vector")


@pytest.mark.parametrize(("op", "algo"), sorted(FOR_BLOCKS), ids=[f"{o}-{a}" for o, a in sorted(FOR_BLOCKS)])
def test_channels_that_fill_no_block(device, op, algo):
    """Between guard bands and from memory full of NaN; to the last bit on whole numbers where the operator
    and the error class allow it."""
    tried = 0
    for case in REMAINDERS:
        if case.op == op:
            outcome = try_case(device, case, algo)
            assert outcome.failures == []
            tried += not outcome.rejected
    assert tried >= 3


def test_which_algorithms_are_exact(device):
    """Winograd's larger tiles and Fourier's transform whole numbers into others; Strassen's sums may be
    rounded, and those of the fast inner product. Tiles of bfloat16 are exact, too, as test_amx.py holds."""
    loose = set()
    shapes = {
        "grouped": "c12 k12 r3 s3 p1 g3",
        "few_blocked": "c17 k3 r3 s3 p1",
        "winograd4": "c17 k17 r4 s4 p2",
        "winograd5": "c17 k17 r5 s5 p2",
        "fft": "c17 k17 r5 s5 p2",
        "winograd_strided": "c17 k17 r3 s3 u2 p1",
        "strassen": "c64 k64 r1 s1",
        "fip": "c17 k17 r1 s1",
    }
    for _, algo in sorted(pair for pair in ON_BLOCKS if pair[0] == "conv" and "depthwise" not in pair[1]):
        case = parse_case(f"conv n1 h9 w9 {shapes.get(algo, 'c17 k17 r3 s3 p1')}")
        with compile_case(device, case, case.data("integer"), algo) as plan:
            if not exact_on_integers(case, plan):
                loose.add(algo)
    winograds = {"winograd", "winograd4", "winograd5", "winograd_strided"}
    assert loose == winograds | {"amx", "fft", "strassen", "fip"}


def test_pairs_of_tiles_in_slices(device):
    """More factors than stay in a cache between two steps; a later slice begins inside an image."""
    case = parse_case("conv n3 c512 h20 w21 k64 r1 s1 e:add+relu")
    outcome = try_case(device, case, "strassen")
    if outcome.rejected:
        pytest.skip(outcome.rejected)
    assert outcome.failures == []
    with compile_case(device, case, case.data(), "strassen") as plan:
        assert len(plan.steps()) > 2 + 2


# ---- other devices -----------------------------------------------------------------------------------------

NET = "conv n1 c20 h9 w9 k20 r3 s3 p1 e:relu+maxpool2"
OPS = """
import json
from caselib import parse_case
from clcnn import _core
from runner import compile_case, run_case
case = parse_case("{net}")
data = case.data()
with _core.Device("{kind}") as device, compile_case(device, case, data) as plan:
    case.check(run_case(plan, case, data), data)
    print(json.dumps([row["op"] for row in plan.steps()]))
"""


@pytest.mark.parametrize(("kind", "width"), [("GPU", 0), ("CPU", 4), ("CPU", 1)])
def test_other_devices_have_no_blocks(tmp_path, kind, width):
    """GPUs, and CPUs whose vectors are short."""
    script = OPS.format(net=NET, kind=kind.lower())
    steps = json.loads(device_face.run(tmp_path, script, kind=kind, width=width).splitlines()[-1])
    assert steps
    assert "reorder" not in steps


NARROW = """
import json, sys
from caselib import parse_case
from clcnn import _core
from runner import ON_BLOCKS, try_case
failures, ran = [], []
with _core.Device("cpu") as device:
    assert device.float_width == 8
    for case in map(parse_case, sys.argv[1:]):
        for algo in sorted(algo for op, algo in ON_BLOCKS if op == case.op):
            outcome = try_case(device, case, algo)
            failures += outcome.failures
            ran += [] if outcome.rejected else [[case.op, algo]]
print(json.dumps([ran, failures]))
"""


def test_blocks_of_eight(tmp_path):
    """Layouts on CPUs with vectors of 8 floats, whatever this one has: every algorithm on 17 channels, or
    on whole blocks."""
    parts = ("17", "k64", "g3", "g5", "g6")
    cases = [case.text for case in REMAINDERS if any(part in case.text for part in parts)]
    cases += [
        "conv n2 c17 h7 w9 k17 r3 s3 p1 e:mul",
        "conv n2 c17 h7 w9 k3 r3 s3 p1",
        "conv_transpose n2 c17 h5 w9 k3 r4 s5 u2 p1 e:add",
        "conv_transpose n2 c17 h5 w9 k1 r4 s5 u3 p1",
        "gelu [2,17,5,3]",
        "prelu [2,17,5,3] w[17]",
    ]
    followers = {("gelu", "vector"), ("prelu", "vector")}
    printed = device_face.run(tmp_path, NARROW, *cases, kind="CPU", width=8)
    ran, failures = json.loads(printed.splitlines()[-1])
    assert failures == []
    narrow = {pair for pair in FOR_BLOCKS if pair[1] != "amx"}  # whose tiles have 16 lanes
    assert set(map(tuple, ran)) == narrow | followers
