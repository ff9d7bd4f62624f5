"""Batches that are made ready ahead: their order and values, bytes, and how a loader ends."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

import clcnn
from clcnn import nn, optim, train
from clcnn.errors import ArgumentError, DtypeError, ShapeError
from clcnn.train.ahead import Sender, ahead

MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)


def pixels(n=4, size=6, seed=0):
    return train.Pixels(np.random.default_rng(seed).integers(0, 256, (n, 3, size, size), np.uint8), MEAN, STD)


def trainer_of(device, **options):
    nn.init.manual_seed(4)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    return train.Trainer(
        net, nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=1e-2), device=device, **options
    )


def loaders():
    """Threads that load batches now."""
    return [thread for thread in threading.enumerate() if thread.name == "batches"]


def floats(count=6):
    for seed in range(count):
        rng = np.random.default_rng(seed)
        yield rng.standard_normal((4, 3, 6, 6), np.float32), rng.integers(0, 3, 4)


class Batches:
    """Batches that can be walked again, by any function that makes them."""

    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return self.make()


# ---- values ----


@pytest.mark.parametrize("shape", [(4, 3, 7, 5), (2, 3, 33, 31), (5, 3)])
def test_the_device_makes_of_bytes_what_numpy_does(device, shape):
    data = np.arange(np.prod(shape), dtype=np.int64).reshape(shape).astype(np.uint8)
    images = train.Pixels(data, MEAN, STD)
    sender = Sender(device, 2)
    tensor = sender(images)
    assert isinstance(tensor, clcnn.Tensor) and tensor.shape == shape
    np.testing.assert_allclose(tensor.numpy(), np.asarray(images), rtol=1e-6, atol=2e-6)
    sender.close()


def test_whole_bytes_are_cast_exactly(device):
    graph = clcnn.graph.Graph()
    graph.output(clcnn.ops.cast(graph.input("x", (2, 1, 8, 16), "uint8")), "y")
    x = np.arange(256, dtype=np.uint8).reshape(2, 1, 8, 16)
    with clcnn.compile(graph, device=device) as plan:
        np.testing.assert_array_equal(plan(x), x.astype(np.float32))
        with pytest.raises(DtypeError, match="uint8"):
            plan(x.astype(np.float32))


def test_bad_pixels_are_refused():
    with pytest.raises(DtypeError, match="expected an array of uint8, got float32"):
        train.Pixels(np.zeros((1, 3, 2, 2), np.float32), MEAN, STD)
    with pytest.raises(ShapeError, match="3 means and 2 deviations"):
        train.Pixels(np.zeros((1, 3, 2, 2), np.uint8), MEAN, STD[:2])
    with pytest.raises(ShapeError, match=r"images \[1, 4, 2, 2\]"):
        train.Pixels(np.zeros((1, 4, 2, 2), np.uint8), MEAN, STD)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_training_ahead_has_the_bits_of_training_in_turn(device, depth):
    with trainer_of(device) as one, trainer_of(device) as other:
        losses = [one.step(x, y) for _ in range(2) for x, y in floats()]
        history = other.fit(Batches(floats), 2, prefetch=depth, progress=False)
        np.testing.assert_allclose([h["loss"] for h in history], [np.mean(losses[:6]), np.mean(losses[6:])])
        for name, array in one.net.state_dict().items():
            np.testing.assert_array_equal(other.net.state_dict()[name], array)
    assert not loaders()


def test_arrays_that_a_loader_fills_again_are_seen_as_they_were(device):
    def refilled():
        x, y = np.empty((4, 3, 6, 6), np.float32), np.empty(4, np.int64)
        for a, b in floats():
            x[...], y[...] = a, b
            yield x, y

    with trainer_of(device) as one, trainer_of(device) as other:
        assert one.fit(Batches(floats), 1, progress=False)[0]["loss"] == pytest.approx(
            other.fit(Batches(refilled), 1, progress=False)[0]["loss"], abs=0
        )


def test_steps_take_tensors_and_pixels(device):
    images, labels = pixels(), [0, 1, 2, 0]
    x = np.asarray(images)
    with trainer_of(device) as one, trainer_of(device) as other, clcnn.Tensor.from_numpy(x, device) as tensor:
        for _ in range(3):
            assert one.step(x, labels) == other.step(tensor, labels)
        np.testing.assert_array_equal(one.predict(x), other.predict(tensor))
        assert one.step(images, labels) == other.step(x, labels)
        with pytest.raises(ArgumentError, match="sample 3 has label 7"):
            other.step(tensor, [0, 1, 2, 7])


def test_a_folder_is_trained_on_as_bytes(device, tmp_path):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(1)
    for label in ("a", "b", "c"):
        (tmp_path / label).mkdir()
        for i in range(3):
            array = rng.integers(0, 256, (6, 6, 3), np.uint8)
            image.fromarray(array).save(tmp_path / label / f"{i}.png")
    data = train.ImageFolder(tmp_path, 6)
    x, y = next(data.batches(9, shuffle=False, as_bytes=True))
    assert isinstance(x, train.Pixels) and x.data.dtype == np.uint8 and len(x) == len(y) == 9
    np.testing.assert_array_equal(np.asarray(x), data[np.arange(9)])
    assert isinstance(next(data.batches(9, as_bytes=True, augment=lambda x, rng: x))[0], np.ndarray)
    with trainer_of(device) as one, trainer_of(device) as other:
        found = one.fit(data, 2, batch=4, progress=False)
        wanted = other.fit(data, 2, batch=4, progress=False, prefetch=0)
        np.testing.assert_allclose([h["loss"] for h in found], [h["loss"] for h in wanted], rtol=1e-4)


# ---- ends ----


def test_errors_of_a_loader_come_in_their_place(device):
    def broken():
        yield from floats(2)
        raise OSError("the third batch is missing")

    with trainer_of(device) as trainer:
        with pytest.raises(OSError, match="the third batch is missing"):
            trainer.fit(Batches(broken), 1, progress=False)
        assert trainer.steps == 2 and not loaders()
        trainer.step(*next(floats()))


def test_errors_of_a_step_end_the_loader(device):
    def wrong():
        yield from floats(2)
        x, y = next(floats())
        yield x, y + 5
        yield from floats(50)

    with trainer_of(device) as trainer:
        with pytest.raises(ArgumentError, match="there are 3 classes"):
            trainer.fit(Batches(wrong), 1, progress=False)
        assert trainer.steps == 2 and not loaders()


def test_ctrl_c_ends_the_loader(device):
    def slow():
        for x, y in floats(50):
            time.sleep(0.02)
            yield x, y

    before = signal.getsignal(signal.SIGALRM)

    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    try:
        with trainer_of(device) as trainer:
            trainer.step(*next(floats()))
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(KeyboardInterrupt):
                trainer.fit(Batches(slow), 1, progress=False)
            assert not loaders()
            done = trainer.steps
            trainer.step(*next(floats()))
            assert trainer.steps == done + 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_loader_runs_no_further_ahead_than_it_is_asked_to():
    made = []

    def counted():
        for i in range(20):
            made.append(i)
            yield np.zeros(1), i

    walk = ahead(counted(), None, 2)
    assert next(walk)[1] == 0
    time.sleep(0.2)
    assert len(made) <= 1 + 2 + 1  # one was taken, two wait, one is at the door
    assert [i for _, i in walk] == list(range(1, 20)) and not loaders()
