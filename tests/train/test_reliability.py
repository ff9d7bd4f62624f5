"""What a trainer keeps when it is killed, interrupted, timed out, or out of space."""

from __future__ import annotations

import random
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from clcnn import nn, optim, train
from clcnn.errors import RunTimeoutError, StateError
from trainers import assert_same, bits, interrupt_after

CHILD = """
import sys
sys.path[:0] = {path!r}
from test_reliability import net_of, trainer_of, batch
import clcnn
from pathlib import Path

file = Path({file!r})
trainer = trainer_of(net_of(), clcnn.Device({device!r}), file if file.exists() else None)
trainer.step(*batch(trainer.steps))
print("ready", flush=True)
while True:
    trainer.save(file)
    trainer.step(*batch(trainer.steps))
"""


def net_of():
    nn.init.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 40)
    )


def trainer_of(net, device, file=None):
    adam = optim.AdamW(net.parameters(), lr=1e-3)
    schedule = optim.lr_scheduler.CosineAnnealingLR(adam, 50)
    given, options = (net, nn.CrossEntropyLoss(), adam), {"device": device, "schedule": schedule, "seed": 3}
    return train.Trainer.resume(file, *given, **options) if file else train.Trainer(*given, **options)


def batch(number):
    rng = np.random.default_rng(number)
    return rng.standard_normal((4, 1, 6, 6), np.float32), rng.integers(0, 40, 4)


class Undisturbed:
    """A trainer that nothing happens to, for comparison."""

    def __init__(self, device):
        self.trainer = trainer_of(net_of(), device)

    def after(self, steps):
        """What it has after so many steps; they may not become fewer."""
        assert steps >= self.trainer.steps
        while self.trainer.steps < steps:
            self.trainer.step(*batch(self.trainer.steps))
        return bits(self.trainer)


@pytest.fixture
def undisturbed(device):
    made = Undisturbed(device)
    yield made
    made.trainer.close()


# ---- killed ----


def kill_while_saving(file, device, delay):
    """Starts a process that goes on from the file, if there is one, and does nothing but steps and saving;
    kills it after `delay` seconds of that."""
    path = [str(Path(__file__).parent), *sys.path]
    code = CHILD.format(path=path, file=str(file), device="cpu" if device is None else device)
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_while_saving_leave_a_whole_file(device, tmp_path, undisturbed, kills):
    import conftest

    file, rng = tmp_path / "a.ckpt", random.Random(kills)
    cut_short = 0
    for _ in range(kills):
        kill_while_saving(file, conftest.DEVICE, rng.uniform(0.0, 0.03))
        cut_short += (tmp_path / "a.ckpt.part").exists()
        if file.exists():  # else it was killed in its first save
            with trainer_of(net_of(), device, file) as trainer:
                assert_same(bits(trainer), undisturbed.after(trainer.steps))
                trainer.step(*batch(trainer.steps))
                assert_same(bits(trainer), undisturbed.after(trainer.steps))
                trainer.save(file)  # so that the next process is never behind `undisturbed`
    assert {path.name for path in tmp_path.iterdir()} <= {"a.ckpt", "a.ckpt.part"}
    if kills >= 200:
        assert cut_short > kills // 10


# ---- out of space ----


@contextmanager
def largest_file(size):
    """No file can become larger: writing more fails half way, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 100, 20000])
def test_a_full_disk_leaves_the_old_file(device, tmp_path, undisturbed, size):
    file = tmp_path / "a.ckpt"
    undisturbed.after(2)
    undisturbed.trainer.save(file)
    before = file.read_bytes()
    assert len(before) > 20000
    wanted = undisturbed.after(4)
    with largest_file(size), pytest.raises(OSError):
        undisturbed.trainer.save(file)
    assert file.read_bytes() == before and [path.name for path in tmp_path.iterdir()] == ["a.ckpt"]
    assert_same(bits(undisturbed.trainer), wanted)
    undisturbed.trainer.save(file)
    with trainer_of(net_of(), device, file) as trainer:
        assert trainer.steps == 4
        assert_same(bits(trainer), wanted)


# ---- interrupted ----


def test_ctrl_c_leaves_whole_steps(device, undisturbed):
    """Interrupted at any time, a trainer that is given the batch of its step goes the way of another."""
    rng, interrupted = random.Random(0), 0
    with trainer_of(net_of(), device) as trainer:
        for _ in range(3):
            trainer.step(*batch(trainer.steps))
        start = time.perf_counter()
        for _ in range(20):
            trainer.step(*batch(trainer.steps))
        latest = 1.2 * (time.perf_counter() - start) / 20
        while interrupted < 60:
            try:
                with interrupt_after(rng.uniform(1e-5, latest)):
                    trainer.step(*batch(trainer.steps))
            except KeyboardInterrupt:
                interrupted += 1
                latest *= 1.05  # where others have begun to use the cores, too, some steps end all the same
            if interrupted % 20 == 0:
                steps = trainer.steps
                assert trainer.schedule.last_epoch == steps
                assert_same(bits(trainer), undisturbed.after(steps))
        assert trainer.steps > 23


# ---- timed out ----


def test_after_a_time_out_the_trainer_waits_for_a_checkpoint(device, tmp_path, undisturbed):
    file = tmp_path / "a.ckpt"
    with trainer_of(net_of(), device) as trainer:
        for _ in range(2):
            trainer.step(*batch(trainer.steps))
        trainer.save(file)
        trainer.step(*batch(trainer.steps))
        with pytest.raises(RunTimeoutError):
            for _ in range(1000):  # one that is quick enough is a step like any other
                trainer.step(*batch(trainer.steps), timeout=1e-7)
        for call in (
            lambda: trainer.step(*batch(0)),
            lambda: trainer.predict(batch(0)[0]),
            lambda: trainer.evaluate([batch(0)]),
            lambda: trainer.save(tmp_path / "b.ckpt"),
        ):
            with pytest.raises(StateError, match=r"timed out: restore\(\) a checkpoint"):
                call()
        restore(trainer, file)
        assert trainer.steps == 2 and trainer.schedule.last_epoch == 2
        assert_same(bits(trainer), undisturbed.after(2))
        trainer.step(*batch(2))
        assert_same(bits(trainer), undisturbed.after(3))


def restore(trainer, file):
    """Once the device is done with the step that timed out."""
    end = time.monotonic() + 60
    while True:
        try:
            trainer.restore(file)
            return
        except StateError as error:
            assert "busy" in str(error) and time.monotonic() < end
            time.sleep(0.001)
