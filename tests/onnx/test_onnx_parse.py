"""Parsing in parts gives what parsing whole gives, for any bytes."""

from __future__ import annotations

import io
import os
import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from google.protobuf.message import DecodeError  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

import clcnn.onnx  # noqa: E402
import onnx_models  # noqa: E402
from clcnn.onnx import parse  # noqa: E402

WEIGHTS = {f"w{i}": np.arange(i * 1000, dtype=np.float32) for i in range(4)}


def model() -> onnx.ModelProto:
    """A graph with weights of several sizes, one of them empty, one without raw data."""
    proto = onnx_models.with_function()
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(w, name) for name, w in WEIGHTS.items())
    proto.graph.initializer.add(name="typed", dims=[2], data_type=1, float_data=[1, 2])
    proto.graph.doc_string = "what stands behind the weights"
    return proto


def whole_again(parsed: parse.Parsed) -> onnx.ModelProto:
    """The model with its raw data back in place."""
    proto, raw, at = parsed
    assert len(raw) == len(at) == len(proto.graph.initializer)
    for tensor, data in zip(proto.graph.initializer, raw):
        assert not tensor.raw_data or data is None
        if data is not None:
            tensor.raw_data = data
    return proto


@pytest.fixture
def divides_all(monkeypatch):
    monkeypatch.setattr(parse, "LEAST_MEAN", 1)
    monkeypatch.setattr(parse, "LARGE", 0)


def test_raw_data_is_taken_out(divides_all):
    proto = model()
    file = proto.SerializeToString()
    parsed = parse.parse(io.BytesIO(file))
    assert any(parsed.at)
    assert all(at is None or file[at : at + len(data)] == data for data, at in zip(parsed.raw, parsed.at))
    assert [data is not None for data in parsed.raw] == [
        tensor.HasField("raw_data") for tensor in proto.graph.initializer
    ]
    assert whole_again(parsed) == proto


def test_a_file_of_many_small_records_is_parsed_whole():
    parsed = parse.parse(io.BytesIO(onnx_models.with_function().SerializeToString()))
    assert not any(parsed.raw)


def test_two_graphs_merge_as_protobuf_merges_them(divides_all):
    first, second = model(), model()
    for tensor in second.graph.initializer:
        tensor.name += "_second"
    data = first.SerializeToString() + second.SerializeToString()
    assert whole_again(parse.parse(io.BytesIO(data))) == onnx.ModelProto.FromString(data)


@pytest.mark.parametrize("tail", [b"\x3a", b"\x3a\x05", b"\x3b\x3c", b"\x00\x00", b"\x38\x01", b"\xff" * 12])
def test_what_cannot_be_divided_is_as_when_parsed_whole(divides_all, tail):
    data = model().SerializeToString() + tail
    try:
        expected = onnx.ModelProto.FromString(data)
    except DecodeError:
        with pytest.raises(DecodeError):
            parse.parse(io.BytesIO(data))
        with pytest.raises(clcnn.ModelError, match="damaged"):
            clcnn.onnx.load(data)
    else:
        assert whole_again(parse.parse(io.BytesIO(data))) == expected


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_changed_bytes_are_as_when_parsed_whole(data):
    whole = bytearray(model().SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        # Mostly near the records' heads, which are what is read here.
        at = data.draw(st.one_of(st.integers(0, 400), st.integers(0, len(whole) - 1)))
        whole[at] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parse, "LEAST_MEAN", 1)
        patch.setattr(parse, "LARGE", data.draw(st.sampled_from([0, 5000, 1 << 16])))
        try:
            expected = onnx.ModelProto.FromString(cut).SerializeToString(deterministic=True)
        except DecodeError:
            with pytest.raises(DecodeError):
                parse.parse(io.BytesIO(cut))
            return
        found = whole_again(parse.parse(io.BytesIO(cut)))
        assert found.SerializeToString(deterministic=True) == expected  # NaN equals itself there


def test_a_pipe_can_be_read(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = onnx_models.with_function().SerializeToString()
    writer = threading.Thread(target=pipe.write_bytes, args=(data,))
    writer.start()
    loaded = clcnn.onnx.load(pipe)
    writer.join()
    assert [i.name for i in loaded.inputs] == [i.name for i in clcnn.onnx.load(data).inputs]
