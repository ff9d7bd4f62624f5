"""What clcnn.onnx.load() and Model.specialise() say to files that break a rule."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import clcnn  # noqa: E402
from clcnn.onnx import check, fold  # noqa: E402
from helpers import python, refused  # noqa: E402
from onnx_models import graph, info, load, model, relu, with_branches  # noqa: E402


def bad(proto: Any, *parts: str) -> None:
    """load() raises ModelError with these parts."""
    data = proto if isinstance(proto, bytes) else proto.SerializeToString()
    refused(lambda: clcnn.onnx.load(data), clcnn.ModelError, ValueError, *parts)


# ---- bytes -------------------------------------------------------------------------------------------------


def test_truncated_files():
    data = model([helper.make_node("Add", ["x", "w"], ["y"])], initial={"w": np.ones((2, 3), np.float32)})
    whole = data.SerializeToString()
    load(data)
    for end in range(len(whole)):
        refused(lambda end=end: clcnn.onnx.load(whole[:end]), clcnn.ModelError, ValueError, "the model")


def test_random_bytes():
    rng = np.random.default_rng(0)
    for _ in range(300):
        with pytest.raises(clcnn.Error):
            clcnn.onnx.load(rng.bytes(int(rng.integers(0, 200))))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04zip", b"\x89PNG\r\n", b"graph", b"\x08\x07"])
def test_files_that_are_not_onnx(data, tmp_path):
    path = tmp_path / "net.onnx"
    path.write_bytes(data)
    refused(lambda: clcnn.onnx.load(path), clcnn.ModelError, ValueError, "net.onnx", "not an ONNX model")


def test_what_is_not_a_path_nor_bytes():
    refused(lambda: clcnn.onnx.load(3), clcnn.ArgumentError, ValueError, "path or bytes", "int")
    with pytest.raises(FileNotFoundError):
        clcnn.onnx.load("there is no such file.onnx")


def test_a_missing_onnx_package_names_the_extra():
    code = """
        import sys
        sys.modules["onnx"] = None
        try:
            import clcnn.onnx
        except ImportError as error:
            print(error)
    """
    assert "pip install 'clcnn[onnx]'" in python(code)


# ---- operator sets -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("opset", [0, 999])
def test_unknown_opsets(opset):
    bad(model([relu()], opset=opset), f"opset {opset} is unknown", "knows 1 to")


def test_a_domain_that_is_not_imported():
    bad(model([helper.make_node("Relu", ["x"], ["y"], domain="org.example")]), "org.example", "imported")


def test_a_domain_imported_twice():
    proto = model([relu()])
    proto.opset_import.append(helper.make_opsetid("ai.onnx", 9))
    bad(proto, "twice")


def test_an_imported_domain_that_is_unknown():
    proto = model([helper.make_node("Foo", ["x"], ["y"], domain="org.example")], domains={"org.example": 1})
    parts = ("Foo", "org.example 1", "not supported")
    refused(lambda: load(proto), clcnn.UnsupportedError, NotImplementedError, *parts)


# ---- initialisers ------------------------------------------------------------------------------------------


def with_initial(tensor: TensorProto, **kwargs: Any) -> Any:
    return model([helper.make_node("Add", ["x", "w"], ["y"])], initial=[tensor], **kwargs)


def raw(dims: tuple[int, ...], data: bytes, kind: int = TensorProto.FLOAT) -> TensorProto:
    return TensorProto(name="w", dims=dims, data_type=kind, raw_data=data)


@pytest.mark.parametrize("size", [0, 23, 25, 48])
def test_raw_data_and_shape_disagree(size):
    bad(with_initial(raw((2, 3), bytes(size))), "'w'", "24 bytes", f"has {size}")


def test_typed_data_and_shape_disagree():
    tensor = TensorProto(name="w", dims=(2, 3), data_type=TensorProto.FLOAT, float_data=[1.0] * 5)
    bad(with_initial(tensor), "'w'", "6 values", "float_data has 5")


@pytest.mark.parametrize("dims", [(1 << 40, 1 << 40), (1 << 62, 4), (1 << 20, 1 << 20, 1 << 20, 1 << 20)])
def test_dimensions_whose_product_overflows(dims):
    bad(with_initial(raw(dims, bytes(24))), "'w'", "2^40")


def test_negative_dimensions():
    bad(with_initial(raw((-2, -3), bytes(24))), "'w'", "negative dimension")


def test_zero_dimensions():
    """Legal where a tensor may be empty, an error where it may not."""
    conv = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="first")],
        [("x", ("n", 3, 8, 8))],
        initial={"w": np.ones((4, 3, 3, 3), np.float32)},
    )
    refused(
        lambda: load(conv).graph({"x": (0, 3, 8, 8)}), clcnn.ShapeError, ValueError, "first", "no element"
    )
    refused(lambda: load(conv).graph({"x": (-1, 3, 8, 8)}), clcnn.ShapeError, ValueError, "no shape")


def test_strings_where_tensors_belong():
    tensor = helper.make_tensor("w", TensorProto.STRING, (1,), [b"weights"])
    refused(lambda: load(with_initial(tensor)), clcnn.UnsupportedError, NotImplementedError, "'w'", "string")
    strings = model([relu()], [("x", (2,), TensorProto.STRING)])
    refused(lambda: load(strings), clcnn.UnsupportedError, NotImplementedError, "'x'", "string")
    node = helper.make_node("Conv", ["x", "x"], ["y"])
    node.attribute.append(helper.make_attribute("strides", "two"))
    bad_kind = model([node], [("x", (1, 3, 8, 8))])
    refused(lambda: load(bad_kind).graph(), clcnn.ModelError, ValueError, "strides", "must be INTS", "STRING")


def test_sequences_where_tensors_belong():
    proto = model([relu()])
    proto.graph.input[0].CopyFrom(helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None))
    refused(lambda: load(proto), clcnn.UnsupportedError, NotImplementedError, "'x'", "sequence", "tensors")


def test_element_types_that_are_unknown_or_narrow():
    refused(
        lambda: load(with_initial(raw((2, 3), bytes(3), TensorProto.INT4))),
        clcnn.UnsupportedError,
        NotImplementedError,
        "'w'",
        "int4",
    )
    bad(with_initial(raw((2, 3), bytes(24), TensorProto.UNDEFINED)), "'w'", "no element type")
    refused(
        lambda: load(with_initial(raw((2, 3), bytes(24), 99))),
        clcnn.UnsupportedError,
        NotImplementedError,
        "type 99",
    )


def test_sparse_initialisers():
    proto = model([relu()])
    values = numpy_helper.from_array(np.ones(1, np.float32), "s")
    proto.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(np.zeros(1, np.int64)), [4])
    )
    refused(lambda: load(proto), clcnn.UnsupportedError, NotImplementedError, "sparse")


# ---- external data -----------------------------------------------------------------------------------------


def external(location: str, **entries: Any) -> Any:
    tensor = TensorProto(name="w", dims=(2, 3), data_type=TensorProto.FLOAT)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return with_initial(tensor)


def saved(folder: Path, proto: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def bad_file(path: Path, *parts: str) -> None:
    refused(lambda: clcnn.onnx.load(path), clcnn.ModelError, ValueError, "net.onnx", "'w'", *parts)


def test_external_data_inside_the_folder(tmp_path, device):
    weights = np.arange(6, dtype=np.float32)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(b"skip" + weights.tobytes())
    loaded = clcnn.onnx.load(saved(tmp_path, external("data/w.bin", offset=4, length=24)))
    np.testing.assert_array_equal(loaded.arrays["w"], weights.reshape(2, 3))
    again = clcnn.onnx.load(loaded.serialized())  # needs the folder no more
    np.testing.assert_array_equal(again.arrays["w"], weights.reshape(2, 3))


@pytest.mark.parametrize(
    "location", ["../w.bin", "a/../../w.bin", "/etc/hostname", "", "\\w.bin", "c:\\w.bin", ".."]
)
def test_external_data_outside_of_the_folder(tmp_path, location):
    (tmp_path / "w.bin").write_bytes(bytes(24))
    bad_file(saved(tmp_path / "model", external(location)), "refused", "inside the model's folder")


def test_external_data_through_symbolic_links(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "w.bin").write_bytes(bytes(24))
    path = saved(tmp_path / "model", external("link/w.bin"))
    (path.parent / "link").symlink_to(outside)
    bad_file(path, "refused", "'link'", "symbolic link")
    path = saved(tmp_path / "model", external("w.bin"))
    (path.parent / "w.bin").symlink_to(outside / "w.bin")
    bad_file(path, "refused", "symbolic link")


def test_external_data_missing_short_or_odd(tmp_path):
    bad_file(saved(tmp_path, external("w.bin")), "'w.bin'", "missing")
    (tmp_path / "w.bin").write_bytes(bytes(20))
    bad_file(saved(tmp_path, external("w.bin")), "20 bytes", "too short for 24")
    (tmp_path / "w.bin").write_bytes(bytes(24))
    bad_file(saved(tmp_path, external("w.bin", offset=8)), "too short", "offset 8")
    bad_file(saved(tmp_path, external("w.bin", offset=-8)), "offset -8")
    bad_file(saved(tmp_path, external("w.bin", length=12)), "needs 24 bytes", "12")
    bad_file(saved(tmp_path, external("w.bin", offset="here")), "integers")
    (tmp_path / "folder").mkdir()
    bad_file(saved(tmp_path, external("folder")), "not a regular file")
    os.mkfifo(tmp_path / "pipe")
    bad_file(saved(tmp_path, external("pipe")), "not a regular file")


def test_external_data_of_a_model_given_as_bytes():
    bad(external("w.bin"), "'w.bin'", "no folder")


# ---- names and order ---------------------------------------------------------------------------------------


def test_cycles():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"], name="one"), relu("a", "b", "two"), relu("b", "y")]
    bad(model(nodes), "'one'", "cycle")
    bad(model([relu("y", "y")]), "cycle")


def test_nodes_in_another_order_than_they_run(device):
    from onnx_models import run

    nodes = [helper.make_node("Add", ["a", "x"], ["y"]), relu("x", "a")]
    x = np.array([[-1.0, 2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(run(model(nodes, [("x", (1, 3))]), {"x": x}, device)[0], [[-1, 4, 6]])


def test_duplicate_names():
    bad(model([relu("x", "y"), relu("x", "y")]), "'y'", "already taken")
    bad(model([relu("x", "x")]), "'x'", "already taken")
    bad(model([relu()], [("x", (2,)), ("x", (2,))]), "'x'", "unique")
    bad(model([relu()], outputs=[("y", None), ("y", None)]), "same name")
    twice = [numpy_helper.from_array(np.ones(1, np.float32), "w")] * 2
    bad(model([relu()], initial=twice), "'w'", "unique")


def test_names_that_nothing_produces():
    bad(model([relu("nowhere", "y", "first")]), "'first'", "'nowhere'", "produced by nothing")
    bad(model([relu("x", "z")]), "output 'y'", "nothing")
    bad(model([relu()], outputs=[]), "no output")


def test_missing_and_extra_inputs_of_a_node():
    for inputs, words in (
        (["x"], "at least 2 inputs, but has 1"),
        (["x"] * 4, "at most 3 inputs, but has 4"),
    ):
        proto = model([helper.make_node("Conv", inputs, ["y"], name="first")], [("x", (1, 3, 8, 8))])
        refused(lambda proto=proto: load(proto).graph(), clcnn.ModelError, ValueError, "'first'", words)


def test_missing_and_unknown_attributes():
    proto = model([helper.make_node("Concat", ["x", "x"], ["y"], name="joint")])
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'joint'", "'axis' is required")
    proto = model([helper.make_node("Relu", ["x"], ["y"], name="first", slope=0.5)])
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'first'", "'slope'")


# ---- shapes ------------------------------------------------------------------------------------------------


def test_shapes_that_disagree_with_declared_ones():
    proto = model([relu("x", "a"), relu("a", "y")])
    proto.graph.value_info.append(info(("a", (2, 4))))
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'a'", "(2, 4)", "(2, 3)")
    declared = model(
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [("x", (2, 3)), ("w", (4,))],
        initial={"w": np.ones(3, np.float32)},
    )
    bad(declared, "'w'", "(4)", "(3,)")


def test_a_wrong_shape_of_an_output_is_logged(caplog):
    """Many files have one, and other runtimes take them."""
    load(model([relu()], outputs=[("y", (7,))])).graph()
    assert "'y' is declared with shape (7)" in caplog.text


def test_element_types_that_disagree_with_declared_ones():
    proto = model([relu()], outputs=[("y", (2, 3), TensorProto.INT64)])
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'y'", "int64", "float32")


def test_shapes_given_for_inputs():
    loaded = load(model([helper.make_node("Add", ["x", "z"], ["y"])], [("x", ("n", 3)), ("z", ("n", None))]))
    expect = (clcnn.ShapeError, ValueError)
    refused(lambda: loaded.graph(), *expect, "'x'", "(n, 3)", "must be given")
    refused(lambda: loaded.graph({"x": (2, 4), "z": (2, 3)}), *expect, "'x'", "(n, 3)", "(2, 4)")
    refused(lambda: loaded.graph({"x": (2, 3, 1), "z": (2, 3)}), *expect, "'x'", "(2, 3, 1)")
    refused(lambda: loaded.graph({"x": (2, 3), "z": (5, 3)}), *expect, "'z'", "'n' is 5", "2 in input 'x'")
    refused(
        lambda: loaded.graph({"x": (2, 3), "w": (2, 3)}), clcnn.ArgumentError, ValueError, "'w'", "['x', 'z']"
    )
    refused(lambda: clcnn.compile(loaded, (2, 3)), *expect, "1 shapes for 2 inputs")


def test_names_that_are_no_text():
    proto = model([relu("x", "a"), relu("a", "y")])
    data = proto.SerializeToString()
    bad(data.replace(b"\x12\x01a", b"\x12\x01\xff").replace(b"\n\x01a", b"\n\x01\xff"), "no text")
    bad(model([relu("x", "a\0"), relu("a\0", "y")]), "no text")


def test_versions_beyond_reason():
    proto = model([relu()])
    proto.opset_import.append(helper.make_opsetid("org.example", 1 << 40))
    bad(proto, "org.example", str(1 << 40))


def test_more_dimensions_than_numpy_takes():
    """Found by fuzzing: NumPy raises RuntimeError."""
    node = helper.make_node("Expand", ["x", "s"], ["y"], name="wide")
    proto = model([node], initial={"s": np.ones(43, np.int64)})
    refused(lambda: load(proto).graph(), clcnn.ModelError, ValueError, "'wide' (Expand)", "32 dimensions")


def test_masks_that_are_too_large():
    """A mask of Dropout is a constant; found by fuzzing."""
    node = helper.make_node("Dropout", ["x"], ["y", "m"], name="drop")
    proto = model([node], [("x", (2**31 - 1, 4, 5))], [("y", None), ("m", None, TensorProto.BOOL)])
    refused(lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, "'drop'", "constant")


# ---- functions and size ------------------------------------------------------------------------------------


def function(name: str, *calls: str) -> Any:
    """A function whose nodes call others, one after another."""
    names = [f"v{i}" for i in range(len(calls) + 1)]
    nodes = [
        helper.make_node(op, [a], [b], domain="" if op == "Relu" else "f")
        for op, a, b in zip(calls, names, names[1:])
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_function("f", name, names[:1], names[-1:], nodes, imports)


def calling(*functions: Any) -> Any:
    node = helper.make_node(functions[0].name, ["x"], ["y"], domain="f")
    return model([node], functions=functions, domains={"f": 1})


def test_branches_with_other_results_than_the_node():
    proto = with_branches()
    branch = next(a.g for a in proto.graph.node[2].attribute if a.name == "then_branch")
    del branch.output[:]
    message = ("'y'", "has 1 outputs, but its then_branch gives 0 results")
    refused(lambda: load(proto).specialise({"x": (1, 3)}), clcnn.ModelError, ValueError, *message)


def test_an_output_that_its_node_does_not_give():
    node = helper.make_node("F", ["x"], ["y", "z"], domain="f")
    both = helper.make_function("f", "F", ["a"], ["b"], [relu("a", "b")], [helper.make_opsetid("", 17)])
    nodes = [node, helper.make_node("Relu", ["z"], ["out"])]
    proto = model(nodes, outputs=[("out", None)], functions=[both], domains={"f": 1})
    refused(lambda: load(proto).specialise(), clcnn.ModelError, ValueError, "'out'", "does not give")


def test_recursive_functions():
    bad(calling(function("A", "Relu", "A")), "'A'", "recursive")
    bad(calling(function("A", "B"), function("B", "Relu", "A")), "recursive")


def test_functions_that_expand_to_too_much():
    names = [chr(ord("A") + i) for i in range(20)]
    functions = [function(a, b, b) for a, b in zip(names, names[1:])]
    bad(calling(*functions, function(names[-1], "Relu", "Relu")), f"{check.MAX_NODES} nodes")
    names = [f"F{i}" for i in range(40)]
    deep = [function(a, b) for a, b in zip(names, names[1:])]
    bad(calling(*deep, function(names[-1], "Relu")), "32 deep")


def test_two_functions_of_one_name():
    bad(calling(function("A", "Relu"), function("A", "Relu")), "same domain, name")


def test_a_million_nodes():
    """Refused at once."""
    proto = model([relu()])
    chain = [relu(f"v{i}", f"v{i + 1}") for i in range(1000)]
    for _ in range(1000):
        proto.graph.node.extend(chain)
    data = proto.SerializeToString()
    start = time.perf_counter()
    bad(data, "1000001 nodes", f"more than the {check.MAX_NODES}")
    assert time.perf_counter() - start < 10


def test_many_nodes_in_inner_graphs():
    inner = graph([relu("x", f"v{i}") for i in range(check.MAX_NODES // 2)], [], [("v0", None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    proto = model([node, helper.make_node("Relu", ["x"], ["z"])], initial={"c": np.array(True)})
    bad(proto, "more than the")


def nested(depth: int) -> Any:
    """An If in an If in an If ..."""
    inner = graph([relu("x", "v0")], [], [("v0", None)])
    for i in range(1, depth + 1):
        other = graph([relu("x", f"o{i}")], [], [(f"o{i}", None)])
        node = helper.make_node("If", ["c"], [f"v{i}"], then_branch=inner, else_branch=other)
        inner = graph([node], [], [(f"v{i}", None)])
    return model(inner.node, outputs=[(f"v{depth}", None)], initial={"c": np.array(True)})


def test_deep_graphs(monkeypatch):
    """The parser of protobuf has a limit too, a little above ours."""
    assert [r.op for r in load(nested(20)).graph().records if r.kind == "node"] == ["relu"]
    monkeypatch.setattr(check, "MAX_DEPTH", 8)
    load(nested(8))
    bad(nested(9), "nested more than 8 deep")


def test_constants_that_would_grow_without_bound(monkeypatch):
    big = {"n": np.array([1 << 20, 1 << 20], np.int64)}
    proto = model(
        [
            helper.make_node("ConstantOfShape", ["n"], ["a"], name="big"),
            helper.make_node("Add", ["x", "a"], ["y"]),
        ],
        initial=big,
    )
    refused(lambda: load(proto).graph(), clcnn.UnsupportedError, NotImplementedError, "'big'")
    monkeypatch.setattr(fold, "MAX_GROWTH", 1 << 16)
    count = 40
    nodes = [helper.make_node("Concat", [f"v{i}"] * 2, [f"v{i + 1}"], axis=0) for i in range(count)]
    doubled = model(
        [*nodes, helper.make_node("Add", ["x", f"v{count}"], ["y"])],
        initial={"v0": np.ones(1 << 10, np.float32)},
    )
    with pytest.raises(clcnn.Error):
        load(doubled).graph()


def test_memory_of_a_shape_that_lies():
    """A declared size is believed only when the bytes are there."""
    bad(with_initial(raw((1 << 20, 1 << 19), b"")), "'w'", "bytes")
