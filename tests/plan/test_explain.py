"""What is chosen and why: every kernel and every reason is reached, and overrides, limits and precision do
what they say."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import device_face
from caselib import parse_case
from clcnn import _core
from clcnn.report import explain_text
from helpers import none_missing
from runner import MAIN, ON_BLOCKS, build_graph, compile_case, has_blocks, main_layer, quick_cases

ROOT = Path(__file__).resolve().parents[2]

AGAIN = "python -m pytest -q -n0 tests/plan/test_explain.py"

# Problems that only ask for a decision; they are not worth a case of their own.
MORE = (
    "conv n1 c1 h1 w200 k1 r1 s2 l130",
    "conv n1 c65 h4 w4 k65 r3 s3 p1 g65",
    "conv n1 c769 h4 w4 k16 r3 s3 p1",
    "conv n4 c48 h10 w10 k48 r5 s5 p2",
    "conv n1 c4097 h1 w2 k2 r1 s1",
    "matmul [65,2,3,4] [2,4,5]",
    "conv n1 c1 h64 w65 k16 r64 s64",
    "conv_transpose n1 c1 h2 w2 k1 r2 s2 u17",
    "scaled_dot_product_attention [1,1,3,4] [1,1,5,4] [1,1,5,257]",
    "separable n1 c2049 h1 w1 k2 r1 s1",
    "separable n1 c6656 h1 w42 k64 r1 s1",
    "conv_pool n1 c1 h9 w1200 k8 r3 s3 p1 e:relu+maxpool3s2p1",
    "separable n1 c2048 h1 w1 k2048 r1 s1",
    "inverted_residual n1 c4 h3 w30 q2000 k4 r3 s3 p1",
    "inverted_residual n1 c512 h1 w14 q2048 k8 r1 s1",
    "linear [64,4096] w[1100,4096]",
    "layer_norm [1,2,16,5] w[16] dim=2 dims=1",
)
# As MORE, for devices that are GPUs and a machine without CLBlast.
ON_GPUS = (
    "conv n1 c3 h9 w9 k4 r3 s3 p1",
    "conv n1 c17 h7 w9 k33 r1 s1",
    "conv n1 c64 h9 w9 k64 r3 s3 p1",
    "conv n1 c8 h9 w9 k8 r3 s3 p1 g8",
    "conv_pool n1 c3 h40 w40 k16 r3 s3 p1 e:relu+maxpool2",
    "conv_transpose n1 c16 h5 w6 k40 r3 s3 u2",
    "conv_transpose n1 c16 h1 w1 k16 r3 s3",
    "conv_transpose n1 c9 h1 w1 k9 r3 s3 g9",
    "linear [40,33] w[65,33] w[65]",
    "matmul [5,9001] [9001,7]",
    "scaled_dot_product_attention [1,2,9,8] [1,2,9,8] [1,2,9,8]",
    "separable n1 c9 h9 w9 k19 r3 s3 p1 m:relu",
    "softmax [3,40]",
    "topk [20000,40] k=1",
    "transpose [3,40] perm=1,0",
)
# The same with pooling; they run with "direct".
POOLED = (
    "conv_pool n1 c32 h16 w16 k32 r3 s3 p1 e:relu+maxpool2",
    "conv_pool n1 c32 h12 w12 k32 r3 s3 p1 e:relu+avgpool3",
    "conv_pool n1 c32 h9 w9 k32 r3 s3 p1 e:relu+maxpool2",
    "conv_pool n1 c32 h8 w8 k32 r1 s1 e:relu+avgpool2",
    "conv_pool n1 c16 h8 w8 k16 r3 s3 p1 e:add+relu+maxpool2",
    "conv_pool n1 c3 h8 w8 k16 r3 s3 p1 e:relu+maxpool2",
    "conv_pool n1 c16 h8 w8 k16 r3 s3 p1 e:relu+maxpool2",
    "conv_pool n1 c512 h4 w4 k16 r3 s3 p1 e:relu+maxpool2",
)
# As MORE, for NVIDIA GPUs with tensor cores; they run with "ref", for there are none.
ON_NVIDIA = (
    "batch_norm_train [4,8,150,150] w[8] w[8]",
    "conv n1 c3 h9 w9 k4 r3 s3 p1",
    "conv n1 c16 h9 w9 k4 r3 s3 p1",
    "conv n1 c16 h9 w9 k4 r3 s3",
    "conv n1 c16 h3 w60 k16 r3 s3 p1",
    "conv n1 c512 h2 w2 k32 r3 s3 p1",
    "conv n1 c3 h80 w80 k4 r3 s3 l38",
    "conv n1 c1 h1 w64 k32 r1 s9",
    "conv n1 c8 h40 w40 k32 r15 s15 u4",
    "conv n1 c16 d3 h5 w5 k16 t3 r3 s3 p1",
    "conv_filter_grad [1,16,9,9] [1,4,9,9] kernel_size=3 padding=1",
    "conv_filter_grad [2,64,3,3] [2,64,3,3] kernel_size=3 padding=1",
    "conv_filter_grad [1,16,3,5,5] [1,16,3,5,5] kernel_size=3 padding=1",
    "conv_filter_grad [1,100,20,20] [1,16,10,10] kernel_size=1 stride=2",
    "conv_transpose n1 c4 h5 w6 k8 r2 s2 u2",
    "conv_transpose n1 c16 h5 w6 k8 r3 s3 u2",
    "gru [1,60] [1,20] w[60,20] w[60]",
    "linear [2,33] w[65,33] w[65]",
    "linear [1100,8] [16,8]",
    "linear [2,3,33] w[65,33]",
    "linear [1,3,33] w[65,33]",
    "matmul [2,40,33] [2,33,65]",
    "gemm [40,33] [65,33] trans_b=1",
    "scaled_dot_product_attention [1,1,3,129] [1,1,3,129] [1,1,3,129]",
    "scaled_dot_product_attention [1,1,3,513] [1,1,5,513] [1,1,5,3]",
)
# The same for algorithms that looser precisions alone allow.
LOOSELY = (
    "conv_filter_grad [1,16,9,9] [1,4,9,9] kernel_size=3 padding=1",
    "conv_filter_grad [2,64,3,3] [2,64,3,3] kernel_size=3 padding=1",
    "conv_filter_grad [1,16,17,17] [1,16,1,1] kernel_size=17",
    "conv n1 c8 h40 w40 k32 r15 s15 u4",
    "conv n1 c16 h9 w9 k4 r3 s3",
    "conv n1 c3 h9 w9 k4 r3 s3 p1",
    "conv n1 c16 h2 w2 k4 r3 s3 p1",
    "conv n1 c16 h9 w9 k16 r3 s3 p1",
    "conv n1 c64 h9 w9 k64 r1 s1",
    "conv n1 c32 h9 w9 k16 r1 s1",
    "conv n1 c64 h9 w9 k64 r1 s1 g2",
    "conv n1 c18 h9 w16 k16 r3 s3 p1",
)
SMALL_GROUPS = ("lstm [4,192] [2,48] [2,48] w[192,48]",)  # as ON_GPUS, with groups of 128
SEPARABLE = ("separable n1 c9 h9 w9 k19 r3 s3 p1 m:relu",)  # the same, with "fused"
SQUEEZED = tuple(f"squeeze_excite n1 c{c} h2 w1 k160 linear" for c in (1024, 4000))  # with "split"
TENSOR_CORES = {"attention_mma", "conv_sum_parts", "gemm_mma", "gemm_sum_parts", "rows_norm_cores"}
TENSOR_CORES |= {"sequence_shared", *(path.stem for path in ROOT.glob("kernels/*_nvidia/*.cl"))}
# Compiles, runs and checks cases with the algorithm given first ("": by rule), options and device; prints
# the reasons of all candidates.
CHILD = """
import json, sys
from caselib import parse_case
from clcnn import _core
from runner import checked_class, compile_case, run_case
reasons = set()
options = json.loads(sys.argv[2])
with _core.Device(sys.argv[3]) as device:
    for case in map(parse_case, sys.argv[4:]):
        data = case.data()
        with compile_case(device, case, data, sys.argv[1] or None, **options) as plan:
            case.check(run_case(plan, case, data), data, checked_class(case, plan))
            reasons |= {c["reason"] for row in plan.layers() for c in row["candidates"]}
print(json.dumps(sorted(reasons)))
"""


def written_reasons() -> dict[str, str]:
    """Text of every REQUIRE and PREFER, and of select.c's own rules, with the file that says so."""
    found = {}
    algos = ROOT / "csrc" / "algos"
    rule = re.compile(r'\b(?:REQUIRE|PREFER)\([^;]*?(?:"((?:[^"\\]|\\.)*)"|\b([A-Z_]+))\s*\);', re.DOTALL)
    headers = "".join(path.read_text() for path in algos.rglob("*.h"))
    shared = dict(re.findall(r'^#define ([A-Z_]+) "(.*)"$', headers, re.MULTILINE))
    for path in sorted(set(algos.rglob("*.c")) - set(algos.glob("bytes/*.c"))):  # tests/plan/test_bytes.py
        found |= {text or shared[name]: path.name for text, name in rule.findall(path.read_text())}
    select = (ROOT / "csrc" / "plan" / "select.c").read_text()
    texts = re.findall(r'^static const char [A-Z_]+\[\] = "((?:[^"\\]|\\.)*)";', select, re.MULTILINE)
    found |= {text.replace('\\"', '"'): "select.c" for text in texts}
    return found


class Seen:
    """Kernels that steps run, and reasons given for candidates, over many plans."""

    def __init__(self) -> None:
        self.kernels: set[str] = set()
        self.reasons: set[str] = set()

    def take(self, plan: _core.Plan) -> None:
        self.kernels |= {row["kernel"] for row in plan.steps()}
        self.reasons |= {c["reason"] for row in plan.layers() for c in row["candidates"]}


def _graph_with_computed_weights(
    channels: int = 4, op: str = "conv", stride: int = 1, size: int = 3
) -> _core.Graph:
    graph = _core.Graph()
    x, w = graph.input("x", (1, channels, 6, 6)), graph.input("w", (8, channels, size, size))
    (y,) = graph.node(op, MAIN, [x, w], {"stride": (stride, stride)})
    graph.output(y, "y")
    return graph


def _graph_with_rows_apart() -> _core.Graph:
    """Rows of the result lie in a wider array, those of what is added do not."""
    graph = _core.Graph()
    x, add = graph.input("x", (4, 16)), graph.input("add", (4, 128))
    weight = graph.constant("w", np.ones((128, 16), np.float32))
    (y,) = graph.node("linear", MAIN, [x, weight], {})
    (y,) = graph.node("add", "sum", [y, add], {})
    (z,) = graph.node("relu", "other", [add], {})
    (y,) = graph.node("concat", "both", [y, z], {"dim": 1})
    graph.output(y, "y")
    return graph


AS_A_WHOLE = {"inverted_residual": "split"}  # which the planner takes apart otherwise, and tells nothing
# Where Strassen's products are chosen, unless memory is short.
STRASSEN = ("conv n1 c128 h9 w9 k128 r1 s1", "separable n1 c128 h7 w84 k64 r3 s3 p1")
FAST_SUMS = {"strassen_small": 0.3, "strassen_large": 0.3, "fip_small": 9.0, "fip_large": 9.0}
# Where the fast inner product would be chosen on processors with separate adders, but for what is in its way.
INNER_PRODUCT = ("linear [8,64] w[64,64]", "linear [64,4096] w[1100,4096]", "linear [64,64] w[64,64]")
FAST_INNER_PRODUCT = {"fip_small": 0.3, "fip_large": 0.3}


@pytest.fixture(scope="module")
def seen(device) -> Seen:
    """Every case as it is chosen by rule, and for each algorithm one on which it is forced, with as many
    operands as there are."""
    if not has_blocks(device):
        pytest.skip("only a device with channel blocks reaches every kernel")
    seen = Seen()
    tried = sorted([*quick_cases(), *map(parse_case, MORE)], key=lambda case: -len(case.inputs))
    for case in tried:
        with compile_case(device, case, case.data(), AS_A_WHOLE.get(case.op)) as plan:
            seen.take(plan)
    for op, row in _core.ops().items():
        for algo in row["algos"]:
            for case in (c for c in tried if c.op == op):
                try:
                    with compile_case(device, case, case.data(), algo) as plan:
                        seen.take(plan)
                    break
                except (_core.UnsupportedError, _core.ArgumentError):
                    continue
    for graph in (
        _graph_with_computed_weights(),
        _graph_with_computed_weights(16, size=1),
        _graph_with_computed_weights(8, "conv_transpose", 2),
        _graph_with_rows_apart(),
    ):
        with _core.Plan(device, graph) as plan:
            seen.take(plan)
    graph = _core.Graph()
    graph.output(graph.node("linear", MAIN, [graph.input("x", (1, 9)), graph.input("w", (5, 9))], {})[0], "y")
    with _core.Plan(device, graph, overrides={MAIN: "gemv_half"}, precision="medium") as plan:
        seen.take(plan)
    row = parse_case("linear [1,130] w[70,130] w[70]")
    with compile_case(device, row, row.data(), skip=False) as plan:
        seen.take(plan)
    little = {MAIN: (0.01, 0.0, 0.0, 0.0, 0.0)}
    for text in ("conv n1 c16 h9 w9 k16 r3 s3 p1", "linear [1,1100] w[300,1100] w[300]"):
        case = parse_case(text)
        with compile_case(device, case, case.data(), zeros=little) as plan:
            seen.take(plan)
    strided = ("col2im", _graph_with_computed_weights(8, "conv_transpose", 2, size=1))
    for algo, graph in (*((n, _graph_with_computed_weights(16)) for n in ("mma", "wgmma")), strided):
        with (
            suppress(_core.UnsupportedError),
            _core.Plan(device, graph, overrides={MAIN: algo}) as plan,
        ):
            seen.take(plan)
    for size in ("r3 s3 p1", "r5 s5 p2"):
        big = parse_case(f"conv n1 c16 h9 w9 k16 {size}")
        for options in ({"workspace_limit": 0}, {"precision": "strict"}):
            with compile_case(device, big, big.data(), **options) as plan:
                seen.take(plan)
    for case in map(parse_case, INNER_PRODUCT):
        with compile_case(device, case, case.data(), profile=FAST_INNER_PRODUCT) as plan:
            seen.take(plan)
    for case in map(parse_case, STRASSEN):
        for fresh in (False, True):
            with compile_case(device, case, case.data(), profile=FAST_SUMS, fresh_filters=fresh) as plan:
                seen.take(plan)
    return seen


def test_every_kernel_is_chosen_by_some_case(seen, device):
    foreign = {"commit", *(p.stem for p in ROOT.glob("kernels/bytes/*.cl"))}  # test_state.py, test_bytes.py
    foreign |= set() if device.compute_capability >= 80 else TENSOR_CORES
    there = {path.stem for path in (ROOT / "kernels").rglob("*.cl")}
    edit = "tests/cases/<family>.txt (a case that takes it), or TENSOR_CORES here if only such devices can"
    none_missing(there - seen.kernels - foreign, edit, AGAIN)


# Reasons where the map between two layers is stored as halves.
HALVES = """
import json
import numpy as np
from clcnn import _core
graph = _core.Graph()
value = graph.input("x", (1, 3, 4, 4))
for i, shape in enumerate(((8, 3, 1, 1), (8, 8, 1, 1))):
    weight = graph.constant(f"w{i}", np.ones(shape, np.float32))
    (value,) = graph.node("conv", f"y{i}", [value, weight], {})
graph.output(value, "y")
with _core.Device("gpu") as device, _core.Plan(device, graph, precision="medium", guard=True) as plan:
    print(json.dumps(sorted({c["reason"] for row in plan.layers() for c in row["candidates"]})))
"""

# Reasons of a linear layer behind a relu.
RECTIFIED = """
import json
import numpy as np
from clcnn import _core
graph = _core.Graph()
(value,) = graph.node("relu", "x", [graph.input("in", (1, 8))], {})
(value,) = graph.node("linear", "y", [value, graph.constant("w", np.ones((4, 8), np.float32))], {})
graph.output(value, "y")
with _core.Device("gpu") as device, _core.Plan(device, graph) as plan:
    print(json.dumps(sorted({c["reason"] for row in plan.layers() for c in row["candidates"]})))
"""


def test_every_reason_is_given_for_some_case(seen, device, tmp_path):
    if device.type != "cpu":
        pytest.skip("a CPU's reasons need a CPU device, and it can pass for the others")
    printed = device_face.run(tmp_path, CHILD, "", "{}", "gpu", *ON_GPUS, CLCNN_CLBLAST_LIBRARY="libnone.so")
    given = seen.reasons | set(json.loads(printed.splitlines()[-1]))
    forced = {"ref": ON_NVIDIA, "fused": SEPARABLE, "direct": POOLED, "split": SQUEEZED}
    for algo, cases in forced.items():
        printed = device_face.run(tmp_path, CHILD, algo, "{}", "gpu", *cases, FACE_CAPABILITY="90")
        given |= set(json.loads(printed.splitlines()[-1]))
    for precision in ("high", "medium"):
        options = json.dumps({"precision": precision})
        printed = device_face.run(tmp_path, CHILD, "ref", options, "gpu", *LOOSELY, FACE_CAPABILITY="90")
        given |= set(json.loads(printed.splitlines()[-1]))
    wide = ["separable n1 c16 h8 w8 k16 r3 s3 p1", "linear [99,192] w[99,192]", "linear [256,640] w[640,640]"]
    narrow = ["conv n1 c9 h9 w9 k19 r1 s1"]
    for told, cases in (({"width": 8}, narrow), ({"width": 16, "CLCNN_AMX_TILES": "0"}, wide)):
        printed = device_face.run(tmp_path, CHILD, "", "{}", "cpu", *cases, kind="CPU", **told)
        given |= set(json.loads(printed.splitlines()[-1]))
    soon = ["conv n1 c32 h9 w9 k32 r3 s3 p1 g2", "linear [1,16] w[10,16]"]
    printed = device_face.run(tmp_path, CHILD, "", json.dumps({"quick": True}), "cpu", *soon, kind="CPU")
    given |= set(json.loads(printed.splitlines()[-1]))
    printed = device_face.run(tmp_path, CHILD, "ref", "{}", "gpu", *SMALL_GROUPS, FACE_GROUP="128")
    given |= set(json.loads(printed.splitlines()[-1]))
    for script in (HALVES, RECTIFIED):
        given |= set(json.loads(device_face.run(tmp_path, script).splitlines()[-1]))
    given |= set(json.loads(device_face.run(tmp_path, APART, FACE_CAPABILITY="90").splitlines()[-1]))
    written = written_reasons()
    assert len(written) > 20
    never = (f"{file}: {text!r}" for text, file in written.items() if text not in given)
    edit = "tests/cases/<family>.txt, or MORE, ON_GPUS, ON_NVIDIA, LOOSELY here (a case that is refused so)"
    none_missing(never, edit, AGAIN)
    none_missing(given - set(written) - {""}, "the REQUIRE or PREFER in csrc/algos/ that gives it", AGAIN)


# Reasons where the rows of an item are a part of longer ones.
APART = """
import json
import numpy as np
from clcnn import _core
graph = _core.Graph()
first, second = graph.node("split", "parts", [graph.input("x", (2, 6, 16))], {"dim": 1, "sizes": [3, 3]})
weight = graph.constant("w", np.ones((32, 16), np.float32))
for name, rows in (("first", first), ("second", second)):
    graph.output(graph.node("linear", name, [rows, weight], {})[0], name)
forced = {"first": "ref", "second": "ref"}
with _core.Device("gpu") as device, _core.Plan(device, graph, overrides=forced) as plan:
    print(json.dumps(sorted({c["reason"] for row in plan.layers() for c in row["candidates"]})))
"""


FIRST = """
import json
from clcnn import _core
from caselib import parse_case
from runner import compile_case, main_layer
with _core.Device("gpu") as device:
    case, first = parse_case("conv n1 c3 h16 w16 k32 r7 s7 p3"), {}
    for precision in ("highest", "high"):
        with compile_case(device, case, case.data(), "ref", precision=precision) as plan:
            usable = [c["algo"] for c in main_layer(plan)["candidates"] if c["verdict"] == "not needed"]
        first[precision] = usable[0]
print(json.dumps(first))
"""


def test_fewer_products_are_no_reason_to_leave_the_better_kernel(tmp_path):
    """tf32 is allowed at "high": the kernel for few channels takes it, which is twice as fast as others."""
    printed = device_face.run(tmp_path, FIRST, FACE_CAPABILITY="90")
    assert json.loads(printed.splitlines()[-1]) == {"highest": "stem_mma", "high": "stem_tf32"}


USABLE = """
import json
from clcnn import _core
from caselib import parse_case
from runner import compile_case, main_layer
with _core.Device("gpu") as device:
    case, found = parse_case("conv n1 c64 h20 w20 k64 r3 s3 p1"), []
    for options in ({}, {"precision": "strict"}, {"workspace_limit": 0}):
        with compile_case(device, case, case.data(), "ref", **options) as plan:
            row = main_layer(plan)
        found.append([c["algo"] for c in row["candidates"] if c["verdict"] == "not needed"][0])
print(json.dumps(found))
"""


def test_gpus_without_tensor_cores_filter_in_one_kernel(device, tmp_path):
    """F(2x2) in one kernel is strict and takes no workspace; tensor cores come before it."""
    if device.compute_capability:
        pytest.skip("the device behind the simulated one has tensor cores")
    assert json.loads(device_face.run(tmp_path, USABLE).splitlines()[-1]) == ["winograd_fused"] * 3
    printed = json.loads(device_face.run(tmp_path, USABLE, FACE_CAPABILITY="80").splitlines()[-1])
    assert printed[:2] == ["mma", "mma"]


@pytest.mark.parametrize(
    "sizes", ["[40,1,1,1] [1,40,1,100]", "[40,1,70] [40,70,130]", "[40,130,7] [40,7,1]", "[40,9,3] [40,3,9]"]
)
def test_products_of_few_rows_or_columns_do_not_compute_whole_tiles(device, sizes):
    """A tile has 64 of both: a batch of rows took 64 times the work that it is."""
    if device.type != "cpu":
        pytest.skip("tiles cost little beside memory on GPUs")
    case = parse_case(f"matmul {sizes}")
    with compile_case(device, case, case.data()) as plan:
        (step,) = plan.steps()
        outputs = int(np.prod(main_layer(plan)["output"]))
    each = 64 * 64 if step["kernel"] == "gemm_tiled" else step["group_size"]
    assert step["groups"] * each < outputs + each


# ---- one layer --------------------------------------------------------------------------------------------

CASE = parse_case("conv n2 c6 h9 w9 k8 r3 s3 p1 e:relu")


def _verdicts(plan: _core.Plan) -> dict[str, tuple[str, str]]:
    row = main_layer(plan)
    assert row is not None
    return {c["algo"]: (c["verdict"], c["reason"]) for c in row["candidates"]}


def test_each_layer_tells_of_all_its_candidates(device):
    with compile_case(device, CASE, CASE.data()) as plan:
        row = main_layer(plan)
        verdicts = _verdicts(plan)
    assert row is not None
    assert list(verdicts) == list(_core.ops()["conv"]["algos"])
    assert [name for name, (verdict, _) in verdicts.items() if verdict == "chosen"] == [row["algo"]]
    assert all(bool(reason) != (verdict == "chosen") for verdict, reason in verdicts.values())
    assert verdicts["depthwise"] == ("rejected", "each group must have one input channel")
    assert (row["op"], row["fused"]) == ("conv", "relu")
    assert (row["input"], row["output"]) == ((2, 6, 9, 9), (2, 8, 9, 9))
    assert row["macs"] == CASE.macs


def test_override_is_followed_and_told(device):
    with compile_case(device, CASE, CASE.data(), "ref") as plan:
        assert _verdicts(plan)["ref"] == ("chosen by override", "")
        assert {row["algo"] for row in plan.steps()} == {"ref"}


@pytest.mark.parametrize(
    ("algo", "bound"),
    [("ref", "strict, componentwise"), ("fixed", "highest, componentwise + 2^-20 to 2^-16")],
)
def test_a_bound_tells_what_the_algorithm_rounds(device, algo, bound):
    case = parse_case("linear [3,64] w[10,64]")
    with compile_case(device, case, case.data(), algo) as plan:
        assert explain_text(plan.layers(), plan.rewrites()).splitlines()[0].endswith(f"error class {bound}")


@pytest.mark.parametrize(
    ("overrides", "error", "words"),
    [
        ({"nowhere": "ref"}, _core.ArgumentError, ("unknown layer 'nowhere'", MAIN)),
        ({"": "ref"}, _core.ArgumentError, ("unknown layer ''", MAIN)),
        ({MAIN: "fastest"}, _core.ArgumentError, (MAIN, "'fastest'", "direct", "ref")),
        ({MAIN: "depthwise"}, _core.UnsupportedError, (MAIN, "'depthwise'", "one input channel")),
        ({"y1": "ref"}, _core.ArgumentError, ("'y1'", "relu", "part of another layer")),
    ],
)
def test_override_that_cannot_be_followed(device, overrides, error, words):
    with pytest.raises(error) as caught:
        _core.Plan(device, build_graph(CASE, CASE.data()), overrides=overrides)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_workspace_limit_changes_the_choice(device):
    """Weights that a run computes are packed into workspace; without any, an algorithm that packs is out."""
    graph = _graph_with_computed_weights()
    with _core.Plan(device, graph) as free, _core.Plan(device, graph, workspace_limit=0) as limited:
        assert main_layer(free)["algo"] != main_layer(limited)["algo"]
        assert main_layer(free)["workspace_bytes"] > 0
        assert main_layer(limited)["workspace_bytes"] == 0
        assert _verdicts(limited)[main_layer(free)["algo"]] == ("rejected", "workspace above the limit")
        rng = np.random.default_rng(1)
        data = [rng.standard_normal(shape).astype(np.float32) for _, shape in free.inputs]
        np.testing.assert_allclose(free.run(data)[0], limited.run(data)[0], rtol=1e-4, atol=1e-4)
    with pytest.raises(_core.UnsupportedError, match="workspace above the limit"):
        _core.Plan(device, graph, workspace_limit=0, overrides={MAIN: "im2col"})


def test_strict_precision_takes_no_looser_algorithm(device):
    for case in (CASE, parse_case("conv n1 c16 h14 w14 k32 r3 s3 p1"), parse_case("linear [3,64] w[10,64]")):
        with compile_case(device, case, case.data(), precision="strict") as plan:
            assert {row["error_class"] for row in plan.layers()} <= {"exact", "strict"}
    with pytest.raises(_core.ArgumentError, match="precision.*'exact'"):
        compile_case(device, CASE, CASE.data(), precision="exact")


def test_a_separable_layer_takes_overrides_of_its_own_algorithms(device):
    case = parse_case("separable n1 c32 h3 w42 k64 r3 s3 p1 m:relu")  # whole blocks and tiles: for all
    for algo in _core.ops()["separable"]["algos"]:
        if ("separable", algo) in ON_BLOCKS and not has_blocks(device):
            continue
        if algo.startswith("affine"):  # the depthwise part of this one is more than a scale
            continue
        with compile_case(device, case, case.data(), algo) as plan:
            row = main_layer(plan)
            assert (row["layer"], row["algo"]) == ("dw_y+y0", algo)
