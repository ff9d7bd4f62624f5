"""The case language, the case files and the comparison that every other test relies on."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from caselib import (
    LARGE_DIR,
    Case,
    case_files,
    compare,
    errors,
    large_cases,
    layers_of_nets,
    load_cases,
    marked_cases,
    nonzero_share,
    parse_case,
    tolerance,
)
from clcnn import _reference
from clcnn._reference import REFERENCE, SPECS
from helpers import none_missing

AGAIN = "python -m pytest -q -n0 tests/meta/test_caselib.py"
QUICK = case_files()


def _operators(cases: list[Case]) -> set[str]:
    return {node.op for case in cases for node in case.nodes}


@pytest.mark.parametrize("word", ["density=0.25", "clustered=0.25", "density=0", "density=1"])
def test_zeros_of_a_map(word):
    """Of the map alone, of either sign, and whole numbers stay whole."""
    x, *others = parse_case(f"conv n2 c40 h9 w9 k8 r3 s3 {word}").data("integer")
    _, *same = parse_case(f"conv n2 c40 h9 w9 k8 r3 s3 {word}").data("integer")
    there, wanted = np.count_nonzero(x) / x.size, float(word.partition("=")[2])
    assert abs(there - wanted) <= 0.17  # clusters are few, and some whole numbers are zero anyway
    assert np.signbit(x[x == 0]).any() or wanted == 1
    assert all(np.any(a) and a.tobytes() == b.tobytes() for a, b in zip(others, same))


def test_conv_words():
    case = parse_case('conv  n2 c6 h9 w8 k4 r3 s2 u2x1 p0x1x2x1 l1 g2 b0 e:add+relu "net:layer"')
    assert case.op == "conv"
    assert case.shapes == [(2, 6, 9, 8), (4, 3, 3, 2), (2, 4, 5, 9)]
    assert case.attrs == {"stride": (2, 1), "padding": (0, 1, 2, 1), "groups": 2}
    assert [node.op for node in case.nodes] == ["conv", "add", "relu"]
    assert [i.constant for i in case.inputs] == [False, True, False]
    assert (case.label, case.epilogue) == ("net:layer", ("add", "relu"))
    assert case.macs == 2 * 4 * 5 * 9 * (3 * 3 * 2)
    assert case.terms == 3 * 3 * 2
    assert " " not in case.id
    assert '"' not in case.id


def test_conv_ranks():
    assert parse_case("conv n1 c2 w7 k3 s3").shapes[1] == (3, 2, 3)
    assert parse_case("conv n1 c2 d5 h6 w7 k3 t1 r2 s3 b0").shapes[1:] == [(3, 2, 1, 2, 3)]


def test_separable_graph_is_what_a_user_writes():
    case = parse_case("separable n1 c4 h6 w6 k3 r3 s3 u2 p1 m:relu e:add")
    assert [node.op for node in case.graph] == ["conv", "relu", "conv", "add"]
    data = case.data()
    known = dict(zip((i.name for i in case.inputs), data))
    for node in case.graph:
        known[node.output] = REFERENCE[node.op](*(known[name] for name in node.inputs), **node.attrs)
    np.testing.assert_allclose(known[case.graph[-1].output], case.reference(data), rtol=1e-12)


def test_conv_pool_is_a_convolution_and_what_follows():
    case = parse_case("conv_pool n1 c4 h6 w8 k3 r3 s3 p1 e:add+relu+maxpool2x3")
    assert case.op == "conv_pool"
    assert [node.op for node in case.graph] == ["conv", "add", "relu", "max_pool"]
    assert case.reference(case.data()).shape == (1, 3, 3, 2)
    like = parse_case("conv n1 c4 h6 w8 k3 r3 s3 p1 e:add+relu+maxpool2x3")
    assert (case.macs, case.terms, case.shapes) == (like.macs, like.terms, like.shapes)


@pytest.mark.parametrize("words", ["", " linear"])
def test_squeeze_excite_is_means_and_two_layers(words):
    case = parse_case("squeeze_excite n2 c5 h3 w4 k2 m:relu e:sigmoid" + words)
    layers = ["flatten", "linear", "relu", "linear"] if words else ["conv", "relu", "conv"]
    assert [node.op for node in case.graph] == ["adaptive_avg_pool", *layers, "sigmoid"]
    data = case.data()
    known = dict(zip((i.name for i in case.inputs), data))
    for node in case.graph:
        known[node.output] = REFERENCE[node.op](*(known[name] for name in node.inputs), **node.attrs)
    np.testing.assert_allclose(known[case.graph[-1].output], case.reference(data), rtol=1e-12)
    assert (case.macs, case.terms) == (40, 19)


def test_general_words():
    case = parse_case("slice [2,8,6,6] starts=1,0 ends=-1,6 axes=1,3 steps=2,1")
    assert case.attrs == {"starts": (1, 0), "ends": (-1, 6), "axes": (1, 3), "steps": (2, 1)}
    case = parse_case('gemm [3,4] w[5,4] w[] trans_b=1 alpha=0.5 "a:b"')
    assert case.attrs == {"trans_b": 1, "alpha": 0.5}
    assert [(i.shape, i.constant) for i in case.inputs] == [((3, 4), False), ((5, 4), True), ((), True)]
    assert (case.label, case.macs, case.terms) == ("a:b", 60, 4)
    assert parse_case("softmax [4] dim=-1").attrs == {"dim": -1}
    assert parse_case("reduce_sum [4] axes=").attrs == {"axes": ()}
    assert parse_case("matmul [2,1,3,4] [5,4,6]").macs == 2 * 5 * 3 * 4 * 6


@pytest.mark.parametrize(
    "text",
    [
        "convolve n1 c1 h1 w1 k1 r1 s1",
        "conv n1 c1 h1 w1 k1 r1 s1 z3",
        "conv n1 c1 h1 w1 k1 r1 s1 e:unheard",
        "conv n1 c1 h2 w2 k1 r3 s3",
        "conv_pool n1 c1 h3 w3 k1 r1 s1 e:relu",
        "relu [2,3] slope=1",
        "relu [2,3] values=odd",
        "relu [2;3]",
    ],
)
def test_bad_lines_are_refused(text):
    with pytest.raises(ValueError, match=r"unknown|fit"):
        parse_case(text)


def test_load_cases_names_file_and_line(tmp_path, monkeypatch):
    monkeypatch.setattr("caselib.CASES_DIR", tmp_path)
    (tmp_path / "some.txt").write_text("# comment\n\nrelu [2]  # fine\nrelu [2]\n")
    with pytest.raises(ValueError, match=r"some\.txt:4: relu \[2\]: also in line 3"):
        load_cases("some")
    (tmp_path / "some.txt").write_text("relu (2)\n")
    with pytest.raises(ValueError, match=r"some\.txt:1: .*unknown word"):
        load_cases("some")


def test_a_mark_is_no_part_of_a_case(tmp_path, monkeypatch):
    monkeypatch.setattr("caselib.CASES_DIR", tmp_path)
    (tmp_path / "some.txt").write_text("relu [2] @oclgrind\nabs [3]\nneg [4]  @oclgrind  # why\n")
    assert [case.text for case in load_cases("some")] == ["relu [2]", "abs [3]", "neg [4]"]
    assert [case.text for case in marked_cases()] == ["relu [2]", "neg [4]"]
    (tmp_path / "some.txt").write_text("relu [2] @valgrind\n")
    with pytest.raises(ValueError, match="unknown word '@valgrind'"):
        load_cases("some")


def test_data_is_the_same_every_time_and_differs_by_case():
    one = parse_case("relu [100]")
    np.testing.assert_array_equal(one.data()[0], parse_case("relu  [100]").data()[0])
    assert not np.array_equal(one.data()[0], parse_case("abs [100]").data()[0])
    assert one.data()[0].dtype == np.float32
    with pytest.raises(ValueError, match="unknown kind of data"):
        one.data("complex")


def test_integer4_weights_are_multiples_of_4():
    case = parse_case("conv n1 c16 h5 w5 k8 r3 s3 p1")
    assert not np.any(case.data("integer4")[1] % 4)
    assert np.any(case.data("integer")[1] % 4)


@pytest.mark.parametrize("name", QUICK)
def test_every_case_can_be_trusted(name):
    """Whole numbers where promised, and expected outputs that an untouched buffer would not match."""
    for case in load_cases(name):
        for kind in ("normal", "integer", "integer4") if case.integer_exact else ("normal",):
            out = case.reference(case.data(kind))
            parts = out if isinstance(out, list) else [out]
            assert nonzero_share(out) >= 0.3 or SPECS[case.nodes[0].op].zeros, (case.text, kind)
            if kind != "normal":
                finite = np.concatenate([p[np.isfinite(p)] for p in parts])
                assert np.all(np.abs(finite) < 2**24), case.text
                assert not np.any(finite % 1), case.text


def test_every_operator_has_cases():
    tried = set().union(*(_operators(load_cases(name)) for name in QUICK))
    none_missing(set(SPECS) - tried, "tests/cases/<family>.txt (a line for it)", AGAIN)
    marked = _operators(marked_cases())
    none_missing(set(SPECS) - marked, "tests/cases/<family>.txt (a mark @oclgrind)", "make oclgrind")


def test_every_attribute_is_given_by_some_case():
    given = {
        (node.op, name) for n in QUICK for case in load_cases(n) for node in case.nodes for name in node.attrs
    }
    known = {(op, name) for op, spec in SPECS.items() for name in spec.attributes}
    none_missing(
        {f"{op} {name}=" for op, name in known - given}, "tests/cases/<family>.txt (a case with it)", AGAIN
    )


def test_sizes():
    assert max(case.macs for case in marked_cases()) <= 100_000
    assert max(case.macs for name in QUICK for case in load_cases(name)) <= 5_000_000


@pytest.mark.parametrize("name", case_files(LARGE_DIR))
def test_large_cases_are_labelled_and_shrink(name):
    cases = large_cases(name)
    assert len({case.label for case in cases}) == len(cases)
    assert all(case.label for case in cases)
    for case in layers_of_nets(name):
        assert ":" in case.label, case.text
        small = case.shrunk(2_000_000)
        assert small.macs <= 2_000_000, case.text
        assert (small.label, small.epilogue) == (case.label, case.epilogue)
        assert small.shapes[1][2:] == case.shapes[1][2:]
        depthwise = case.attrs.get("groups", 1) == case.shapes[0][1]
        assert (small.attrs.get("groups", 1) == small.shapes[0][1]) == depthwise


def test_definitions_stand_alone():
    """They do not ask the core that they are held against."""
    for path in Path(_reference.__file__).parent.glob("*.py"):
        imported = re.findall(r"^\s*(?:from|import) (clcnn\S*)", path.read_text("utf-8"), re.MULTILINE)
        assert all(name.startswith("clcnn._reference") for name in imported), path.name


def test_what_is_missing_is_told_with_file_and_command():
    none_missing([], "nothing", "nothing")
    with pytest.raises(AssertionError, match=r"a, b\n    edit: some\.txt\n    then run: make setup"):
        none_missing({"b", "a"}, "some.txt", "make setup")


def test_compare_accepts_what_is_close():
    want = np.random.default_rng(0).standard_normal((4, 5))
    compare(want.astype(np.float32), want, "conv")
    compare(want.astype(np.float32), want, "relu")
    compare([want.astype(np.float32)] * 2, [want, want], "split")
    compare(np.float32([np.nan, np.inf, -np.inf, 1.0]), np.array([np.nan, np.inf, -1e300, 1.0]), "exp")


@pytest.mark.parametrize(
    ("op", "change", "message"),
    [
        ("relu", lambda a: a[:2], "shape"),
        ("relu", lambda a: a.astype(np.float64), "dtype"),
        ("relu", lambda a: np.nextafter(a, 9, dtype=np.float32), r"first at \(0, 0\)"),
        (
            "conv",
            lambda a: a + np.float32(1e-4) * (np.arange(20).reshape(4, 5) == 7),
            r"1 of 20 .*first at \(1, 2\)",
        ),
        ("conv", lambda a: a * np.float32(1 + 8e-6), "rms error"),
        ("conv", lambda a: np.where(a == a[3, 4], np.nan, a).astype(np.float32), r"first at \(3, 4\): .*nan"),
        ("exp", lambda a: a * np.float32(1 + 1e-6), "values wrong"),
    ],
)
def test_compare_refuses(op, change, message):
    want = np.random.default_rng(0).standard_normal((4, 5)) + 0.1
    with pytest.raises(AssertionError, match=message):
        compare(change(want.astype(np.float32)), want, op)


def test_compare_refuses_a_finite_value_for_nan_and_a_missing_output():
    with pytest.raises(AssertionError, match=r"first at \(1,\)"):
        compare(np.float32([1, 2]), np.array([1, np.nan]), "relu")
    with pytest.raises(AssertionError, match="outputs"):
        compare([np.float32([1])], [np.ones(1), np.ones(1)], "split")


def test_compare_refuses_an_expectation_of_zeros():
    with pytest.raises(AssertionError, match="non-zero"):
        compare(np.zeros(9, np.float32), np.zeros(9), "relu")
    compare(np.zeros(9, np.float32), np.zeros(9), "relu", trust=False)


def test_tolerances():
    assert all(tolerance(op) for op in REFERENCE)
    assert tolerance("conv", "strict", terms=1).rms_error < tolerance("conv", "strict", terms=4608).rms_error
    assert tolerance("conv", "strict", terms=10**6).rms_error <= tolerance("conv").rms_error
    with pytest.raises(ValueError, match="unknown error class"):
        tolerance("conv", "loose")


def test_errors_are_over_rms():
    assert errors(np.array([2.0, 2.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0, 2.0])) == (1.0, 0.5)
