"""Tensor: float32 values on a device, and how other libraries see them."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from conftest import DEVICE

import clcnn


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)


def test_attributes(device: clcnn.Device) -> None:
    t = clcnn.Tensor(device, (2, 3, 4))
    assert (t.shape, t.ndim, t.size, t.nbytes) == ((2, 3, 4), 3, 24, 96)
    assert t.dtype == np.float32 and t.device is device and not t.closed
    assert repr(t).startswith("<clcnn.Tensor (2, 3, 4) float32 on ")
    assert "2 × 3 × 4" in t._repr_html_() and "96 B" in t._repr_html_()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (1, 1, 1, 1, 1, 1, 1, 2)])
def test_round_trip(device: clcnn.Device, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    x = np.asarray(x, np.float32)
    t = clcnn.Tensor.from_numpy(x, device)
    assert t.shape == shape
    np.testing.assert_array_equal(t.numpy(), x)


def test_nan_and_infinity_survive(device: clcnn.Device) -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-42], np.float32)
    assert clcnn.Tensor.from_numpy(x, device).numpy().tobytes() == x.tobytes()


def test_write_replaces_and_read_fills_out(device: clcnn.Device, values: np.ndarray) -> None:
    t = clcnn.Tensor.from_numpy(values, device)
    t.write(2 * values)
    out = np.full_like(values, np.nan)
    assert t.read(out) is out
    np.testing.assert_array_equal(out, 2 * values)


def test_array_protocol(device: clcnn.Device, values: np.ndarray) -> None:
    t = clcnn.Tensor.from_numpy(values, device)
    np.testing.assert_array_equal(np.asarray(t), values)
    np.testing.assert_array_equal(np.array(t, copy=True), values)
    assert np.asarray(t, np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="always a copy"):
        t.__array__(copy=False)


def test_dlpack(device: clcnn.Device, values: np.ndarray) -> None:
    t = clcnn.Tensor.from_numpy(values, device)
    exported = np.from_dlpack(t)
    t.close()
    np.testing.assert_array_equal(exported, values)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stream": 1}, "stream must be None"),
        ({"dl_device": (2, 0)}, "to the host"),
        ({"copy": False}, "always a copy"),
    ],
)
def test_dlpack_refuses(device: clcnn.Device, arguments: dict, message: str) -> None:
    t = clcnn.Tensor(device, (2,))
    assert t.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError, match=message):
        t.__dlpack__(**arguments)


def test_memory_returns_with_close_and_with_the_last_reference(device: clcnn.Device) -> None:
    gc.collect()  # what other tests have left
    before = device.stats()
    a = clcnn.Tensor(device, (1 << 20,))
    b = clcnn.Tensor(device, (1 << 20,))
    assert device.stats()["bytes_now"] - before["bytes_now"] >= 8 << 20
    a.close()
    del b
    gc.collect()
    after = device.stats()
    assert (after["bytes_now"], after["live_objects"]) == (before["bytes_now"], before["live_objects"])


def test_with_closes_and_closing_twice_is_fine(device: clcnn.Device, values: np.ndarray) -> None:
    with clcnn.Tensor.from_numpy(values, device) as t:
        assert not t.closed
    assert t.closed
    t.close()
    with pytest.raises(clcnn.StateError, match="closed"):
        t.numpy()
    with pytest.raises(clcnn.StateError, match="closed"):
        t.write(values)
    assert t.shape == values.shape and "closed" in repr(t)


def test_a_tensor_keeps_its_device(values: np.ndarray) -> None:
    t = clcnn.Tensor.from_numpy(values, clcnn.Device(DEVICE))
    gc.collect()
    np.testing.assert_array_equal(t.numpy(), values)


def test_closing_the_device_closes_its_tensors(values: np.ndarray) -> None:
    with clcnn.Device(DEVICE) as own:
        t = clcnn.Tensor.from_numpy(values, own)
    with pytest.raises(clcnn.StateError):
        t.numpy()
    with pytest.raises(clcnn.StateError):
        clcnn.Tensor(own, (2,))


def test_a_failed_from_numpy_holds_no_memory(device: clcnn.Device, values: np.ndarray) -> None:
    before = device.stats()["bytes_now"]
    with pytest.raises(clcnn.ArgumentError):
        clcnn.Tensor.from_numpy(values[:, ::-1], device)
    assert device.stats()["bytes_now"] == before
