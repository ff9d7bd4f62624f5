"""Damaged and malicious weight files: a WeightsError that names the rule, little memory, and nothing run."""

from __future__ import annotations

import io
import json
import pickle
import re
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clcnn import weights
from clcnn.weights import npz, pickle_machine
from torch_files import (
    ORDERED_DICT,
    REBUILD,
    Call,
    Name,
    Storage,
    dumps,
    stream_file,
    tensor,
    whole,
    zip_file,
)

FORMS = [pytest.param(stream_file, id="stream"), pytest.param(zip_file, id="zip")]
FLAT = np.arange(6, dtype=np.float32)
STORAGE = Storage("0", "FloatStorage", 6)
MEMORY = 8 << 20  # bytes that refusing any of these small files may take


def safetensors_file(header, data=b""):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(raw).to_bytes(8, "little") + raw + data


def npz_file(write=np.savez, **arrays):
    stream = io.BytesIO()
    write(stream, **(arrays or {"a": FLAT}))
    return stream.getvalue()


def entry(shape, start, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


VALID = {
    "stream": stream_file({"a": whole("0", FLAT)}, {"0": FLAT}),
    "zip": zip_file({"a": whole("0", FLAT)}, {"0": FLAT}),
    "npz": npz_file(),
    "compressed": npz_file(np.savez_compressed),
    "safetensors": safetensors_file({"a": entry([6], 0, 24)}, FLAT.tobytes()),
}


def refused(data, rule, memory=MEMORY):
    """Load must raise WeightsError with `rule` in its message, within `memory` bytes."""
    if data[8:9] == b"{":
        pytest.importorskip("safetensors")
    tracemalloc.start()
    try:
        with pytest.raises(weights.WeightsError, match=rule) as caught:
            weights.load(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < memory + 3 * len(data)
    assert re.match(rf"<{len(data)} bytes>: ", str(caught.value)) and len(str(caught.value)) < 500
    return caught.value


@pytest.mark.parametrize("kind", VALID)
def test_truncated_anywhere(kind):
    if kind == "safetensors":
        pytest.importorskip("safetensors")
    data = VALID[kind]
    np.testing.assert_array_equal(weights.load(data)["a"], FLAT)
    for end in range(len(data)):
        with pytest.raises(weights.WeightsError):
            weights.load(data[:end])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name",
    [
        ("os", "system"),
        ("builtins", "eval"),
        ("torch", "load"),
        ("collections", "Counter"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
    ],
)
def test_globals_outside_of_the_list(form, name, tmp_path):
    marker = tmp_path / "ran"
    dotted = ".".join(name)
    call = Call(Name(*name), (f"touch {marker}",))
    refused(form({"a": call}, {}), f"the global '{re.escape(dotted)}', which is not on the list")
    stacked = (
        b"\x80\x04" + b"".join(b"\x8c" + bytes([len(word)]) + word.encode() for word in name) + b"\x93)R."
    )
    refused(form(None, {}, pickled=stacked), f"the global '{re.escape(dotted)}'")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"ctorch\nFloatStorage\n)R.", "torch.FloatStorage is not called"),
        (b"ccollections\nOrderedDict\n)\x81.", "opcode NEWOBJ is not allowed"),
        (b"(ios\nsystem\n.", "opcode INST is not allowed"),
        (b"\x82\x01.", "opcode EXT1 is not allowed"),
        (b"K\x01K\x01\x86)R.", "only a global is called"),
        (b"]q\x00h\x01.", "BINGET at byte"),
        (b"0.", "POP at byte"),
        (b"(.", "1 objects are left"),
        (b"].extra", "holds a list"),
        (b"K\x01K\x02.", "2 objects are left"),
        (b"}K\x01K\x02K\x03e.", "APPENDS at byte"),
        (b"}(K\x01u.", "a key without a value"),
        (b"}]K\x01s.", "a dict key of type list"),
        (b"}\x8a\x09" + b"\xff" * 8 + b"\x01K\x01s.", "beyond 64 bits"),
        (b"\x8b\x00\x00\x01\x00" + b"\x7f" * 65536 + b".", "integer of 524287 bits"),
        (b"\x8b\xff\xff\xff\x7f.", "damaged pickle"),
        (b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "damaged pickle"),
        (b"X\x02\x00\x00\x00\xff\xfe.", "damaged pickle.*codec"),
        (b"K\x01Q.", "is not a storage"),
        (b"\xff.", "damaged pickle"),
        (b"ccollections\nOrderedDict\n]K\x01a\x85R.", "OrderedDict: cannot unpack"),
        (b"ctorch._utils\n_rebuild_parameter\nK\x01\x85R.", "_rebuild_parameter: a tensor is needed"),
        (b"ctorch._utils\n_rebuild_tensor_v2\n)R.", "_rebuild_tensor_v2: .*missing"),
        (b"}X\x01\x00\x00\x00aK\x01sK\x02b.", "entry 'a' is of type int, not a tensor"),
        (b"K\x05Nb.", "BUILD at byte .*a dict was expected"),
        (b"r\xff\xff\xff\x7f.", "LONG_BINPUT at byte"),
    ],
)
def test_pickles_beyond_plain_data(body, rule):
    refused(zip_file(None, {}, pickled=b"\x80\x02" + body), rule)


def test_memo_index_costs_no_memory():
    data = zip_file(None, {}, pickled=b"\x80\x02]r\xff\xff\xff\x7fr\xfe\xff\xff\x7f.")
    refused(data, "holds a list")


@pytest.mark.parametrize(
    "body",
    [b")" + b"\x85" * 100_000, b"]" * 40_000 + b"a" * 39_999, b"]" * 40_000],
    ids=["tuples", "lists", "unclosed"],
)
def test_deep_nesting(body):
    refused(
        zip_file(None, {}, pickled=b"\x80\x02" + body + b"."), "not a state dict|objects are left", 64 << 20
    )


def test_deep_dict_key_is_not_hashed():
    key = zip_file(None, {}, pickled=b"\x80\x02})" + b"\x85" * 100_000 + b"Ns.")
    refused(key, "a dict key of type tuple", 64 << 20)


def test_steps_are_counted(monkeypatch):
    monkeypatch.setattr(pickle_machine, "MAX_STEPS", 1000)
    refused(zip_file({str(i): i for i in range(1000)}, {}), "takes more than 1000 steps")
    pairs = [(str(i), i) for i in range(60)]
    refused(zip_file([Call(ORDERED_DICT, (pairs,)) for _ in range(90)], {}), "takes more than 1000 steps")
    weights.load(VALID["zip"])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("size", "stride", "offset", "rule"),
    [
        ((-1,), (1,), 0, "non-negative 64-bit integers"),
        ((2,), (-1,), 1, "non-negative 64-bit integers"),
        ((2,), (1,), -1, "non-negative 64-bit integers"),
        ((True,), (1,), 0, "non-negative 64-bit integers"),
        ((2.0,), (1,), 0, "non-negative 64-bit integers"),
        ((2**70,), (1,), 0, "non-negative 64-bit integers"),
        ((2, 3), (1,), 0, "as many sizes as strides"),
        ((7,), (1,), 0, "reach element 6 of storage '0', which has 6"),
        ((2, 3), (4, 1), 0, "reach element 6 of"),
        ((1,), (1,), 6, "reach element 6 of"),
        ((2,), (2**62,), 0, "reach element 4611686018427387904 of"),
        ((2**32, 2**32), (0, 0), 0, "overflows 64 bits"),
        ((0, 2**62, 2**62), (0, 0, 0), 0, "overflows 64 bits"),
        ((1,) * 33, (1,) * 33, 0, "a rank of 33 is over the limit"),
        ((2**40,), (0,), 0, "copies of strided tensors need more than 4 times"),
    ],
)
def test_windows_outside_of_their_storage(form, size, stride, offset, rule):
    refused(
        form({"layer.weight": tensor(STORAGE, size, stride, offset)}, {"0": FLAT}),
        f"tensor 'layer.weight'.*{rule}",
    )


@pytest.mark.parametrize("form", FORMS)
def test_many_small_windows_are_bounded_together(form):
    window = tensor(STORAGE, (1 << 17,), (0,))
    refused(form({f"w{i}": window for i in range(50)}, {"0": FLAT}), "tensor 'w.*copies of strided")


@pytest.mark.parametrize("form", FORMS)
def test_storages_that_are_none(form):
    for storage in (
        Storage("0", "QInt8Storage", 6),
        Storage("0", "FloatStorage", -6),
        Storage("0", "FloatStorage", 2**63),
        Storage("0", "FloatStorage", 6.0),
    ):
        rule = (
            "global 'torch.QInt8Storage'"
            if storage.kind.startswith("Q")
            else "is not a storage of a known type"
        )
        refused(form({"a": tensor(storage, (1,), (1,))}, {"0": FLAT}), rule)
    twice = {"a": tensor(STORAGE, (1,), (1,)), "b": tensor(Storage("0", "FloatStorage", 5), (1,), (1,))}
    refused(form(twice, {"0": FLAT}), "storage '0' is declared as 5 FloatStorage and as something else")
    refused(form({"a": STORAGE}, {"0": FLAT}), "entry 'a' is of type Storage, not a tensor")
    refused(form({"a": Call(REBUILD, (FLAT.tolist(), 0, (1,), (1,)))}, {}), "a storage, an offset, a size")
    refused(form({3: whole("0", FLAT)}, {"0": FLAT}), "key 3 of the state dict is not a str")
    refused(
        form({"a": tensor(Storage("0", "FloatStorage", 2**61), (1,), (1,))}, {"0": FLAT}),
        "tensor 'a', storage '0'",
    )


def test_stream_that_contradicts_itself():
    state = {"a": whole("0", FLAT)}
    refused(VALID["stream"] + b"\0", "1 bytes are left over")
    for count in (5, 7, -1, 2**62):
        refused(
            stream_file(state, {"0": FLAT}, counts={"0": count}),
            f"tensor 'a', storage '0': .*declares {count} ",
        )
    huge = {"a": tensor(Storage("0", "FloatStorage", 2**40), (1,), (1,))}
    refused(stream_file(huge, {"0": FLAT}, counts={"0": 2**40}), "storage '0': .* the file has 24 left")
    refused(stream_file(state, {}), "storage '0' is not both listed once and used")
    refused(stream_file(state, {"0": FLAT, "1": FLAT}), "storage '1' is not both")
    refused(stream_file(state, {"0": FLAT}, protocol=1002), "protocol 1002 of PyTorch's stream is not 1001")
    refused(stream_file(state, {"0": FLAT}, magic=0x1950A86A20F9469CFC6D), "neither safetensors")
    listed = VALID["stream"].replace(pickle.dumps(["0"], 2), pickle.dumps(["0", "0"], 2))
    refused(listed, "storage '0' is not both listed once and used")
    refused(VALID["stream"].replace(pickle.dumps(["0"], 2), pickle.dumps([0], 2)), "not a list of str")


def test_zip_that_contradicts_itself():
    state = {"a": whole("0", FLAT)}
    refused(zip_file(state, {}), "tensor 'a', storage '0': the archive does not have it")
    refused(zip_file(state, {"0": FLAT[:5]}), "must be 24 bytes uncompressed, the member has 20")
    zeros = {"a": whole("0", np.zeros(1 << 20, np.float32))}
    compressed = zip_file(zeros, {"0": np.zeros(1 << 20, np.float32)}, method=zipfile.ZIP_DEFLATED)
    refused(compressed, "uncompressed")
    at = VALID["zip"].index(FLAT.tobytes())
    refused(VALID["zip"][:at] + b"\1" + VALID["zip"][at + 1 :], "tensor 'a', storage '0': Bad CRC-32")
    refused(VALID["zip"].replace(b"little", b"middle"), "Bad CRC-32 for file 'archive/byteorder'")
    odd = io.BytesIO()
    with zipfile.ZipFile(odd, "w") as archive:
        archive.writestr("net/data.pkl", dumps(state))
        archive.writestr("net/byteorder", "middle")
    refused(odd.getvalue(), "byte order b'middle' is neither little nor big")
    two = io.BytesIO(VALID["zip"])
    with zipfile.ZipFile(two, "a") as archive:
        archive.writestr("other/data.pkl", dumps(state))
    refused(two.getvalue(), "2 members data.pkl")
    refused(zip_file(None, {}, pickled=b"\x80\x02]." + bytes(MEMORY // 4)), "holds a list")


def test_archive_directory_that_contradicts_itself():
    stream = io.BytesIO(VALID["npz"])
    with zipfile.ZipFile(stream, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a.npy", b"")
    refused(stream.getvalue(), "two members 'a.npy'")

    double = npz_file(a=FLAT, b=FLAT)
    central = double.rindex(b"PK\x01\x02")  # the entry of b.npy
    overlapping = bytearray(double)
    overlapping[central + 42 : central + 46] = struct.pack("<I", 0)  # points at a.npy
    refused(bytes(overlapping), "member 'a.npy' overlaps|Overlapped")

    lying = bytearray(VALID["npz"])
    entry_at = lying.rindex(b"PK\x01\x02")
    lying[entry_at + 24 : entry_at + 28] = struct.pack("<I", 1 << 30)  # declared size
    refused(bytes(lying), "declares two different sizes")

    locked = bytearray(VALID["npz"])
    locked[locked.rindex(b"PK\x01\x02") + 8] |= 1
    refused(bytes(locked), "is encrypted or compressed")
    refused(npz_like("a.txt", b"hello"), "neither an npz nor a PyTorch checkpoint")


def npz_like(name, content, method=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def npy(header, data=b""):
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}"),
            "needs 4398046511104 bytes, the member",
        ),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "has a negative size"),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
            "overflows 64 bits",
        ),
        (
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", bytes(12)),
            "needs 8 bytes, the member has 12",
        ),
        (
            npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\x80\x02N."),
            "is not a plain number",
        ),
        (npy("{'descr': '<U4', 'fortran_order': False, 'shape': ()}", bytes(16)), "is not a plain number"),
        (
            npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", bytes(4)),
            "is not a plain number",
        ),
        (npy("{'descr': '<f4', 'shape': (1,)}", bytes(4)), "not a .npy header"),
        (npy("(" * 5000), "not a .npy header"),
        (npy("x" * 60000), "not a .npy header"),
        (b"\x93NUMPY\x09\x00", "not a .npy header"),
        (b"", "not a .npy header"),
        (b"hello world", "not a .npy header"),
    ],
)
def test_npy_members_that_lie(content, rule):
    refused(npz_like("a.npy", content), f"array 'a.npy': .*{rule}")


def test_npz_bomb():
    content = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (80000000,)}", bytes(80_000_000))
    bomb = npz_like("a.npy", content, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    refused(bomb, f"over the limit of {npz.EXPANSION_FLOOR} for a file of {len(bomb)} bytes")
    with pytest.raises(weights.WeightsError, match="is not a plain number"):
        weights.load(npz_file(a=np.array([{"pickled": 1}], object)))


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f{", "over the limit of 100000000"),
        ((100_000_001).to_bytes(8, "little") + b"{" + bytes(100), "over the limit of 100000000"),
        (safetensors_file({"a": entry([6], 0, 24)}, bytes(20)), "not fully covered"),
        (safetensors_file({"a": entry([6], 0, 24)}, bytes(25)), "not fully covered"),
        (safetensors_file({"a": entry([6], 4, 28)}, bytes(28)), "(?i)offset"),
        (safetensors_file({"a": entry([6], 0, 24), "b": entry([6], 8, 32)}, bytes(32)), "(?i)offset"),
        (safetensors_file({"a": entry([7], 0, 24)}, bytes(24)), "(?i)tensor|shape|info"),
        (safetensors_file({"a": entry([2**62, 2**62], 0, 24)}, bytes(24)), "overflow"),
        (safetensors_file({"a": entry([-1], 0, 24)}, bytes(24)), "(?i)json"),
        (safetensors_file({"a": entry([0] * 40, 0, 0)}), "tensor 'a': a rank of 40"),
        (safetensors_file({"a": entry([0, 2**62, 4], 0, 0)}), "overflow"),
        (
            safetensors_file({"a": entry([4], 0, 4, "F8_E4M3")}, bytes(4)),
            "tensor 'a': dtype 'F8_E4M3' is not supported",
        ),
        (
            safetensors_file(
                b'{"a":'
                + json.dumps(entry([1], 0, 4)).encode()
                + b',"a":'
                + json.dumps(entry([1], 0, 4)).encode()
                + b"}",
                bytes(4),
            ),
            "the key 'a' twice",
        ),
        (safetensors_file(b'{"\xff\xfe": 1}'), "(?i)utf"),
        (safetensors_file(b'{"a":' * 20000), "(?i)json"),
        (safetensors_file(b"{" + b" " * 50), "(?i)json|header"),
    ],
)
def test_safetensors_that_lie(data, rule):
    refused(data, rule)


@pytest.mark.parametrize("kind", VALID)
@settings(max_examples=150, deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=4
    ),
    cut=st.none() | st.floats(0, 1),
)
def test_changed_bytes_never_escape(kind, changes, cut):
    """Whatever bytes change, a file loads or raises WeightsError; nothing else."""
    data = bytearray(VALID[kind])
    for place, value in changes:
        data[int(place * len(data))] = value
    data = bytes(data if cut is None else data[: int(cut * len(data))])
    try:
        state = weights.load(data)
    except weights.WeightsError:
        return
    except ImportError:
        pytest.skip("safetensors is not installed")
    assert all(isinstance(array, np.ndarray) and array.flags.c_contiguous for array in state.values())
