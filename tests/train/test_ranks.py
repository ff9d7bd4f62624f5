"""Ranks: processes of mpiexec train together what one would alone, and end together."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from clcnn import nn, optim, train
from clcnn.classify import MissingExtraError
from clcnn.train.ranks import begun, share_of

MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or importlib.util.find_spec("mpi4py") is None, reason="needs clcnn[mpi] and mpiexec"
)
TRAINS = """
import os, signal, sys, time
import numpy as np
from clcnn import nn, optim, train

def run(ranks=None):
    nn.init.manual_seed(4 if ranks is None else 4 + ranks.rank)  # all begin with what rank 0 has
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    adam = optim.AdamW(net.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    data = train.Arrays(rng.standard_normal((21, 2, 6, 6), np.float32), rng.integers(0, 3, 21))
    options = {"device": "cpu", "ranks": ranks, "clip_norm": 0.5}
    with train.Trainer(net, nn.CrossEntropyLoss(), adam, **options) as trainer:
        history = trainer.fit(data, 3, batch=8, checkpoint=None if ranks is None else sys.argv[1])
        found = trainer.evaluate(data)
    return [epoch["loss"] for epoch in history] + [found["loss"]], net.state_dict()
"""


def mpiexec(count, code, *args, limit=120):
    """The process that ended when `count` ranks had run the code, with what they print."""
    command = [MPIEXEC, "-n", str(count), sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=limit)


@needs_mpi
def test_ranks_compute_what_one_process_does(tmp_path):
    code = (
        TRAINS
        + """
with train.Ranks() as ranks:
    losses, weights = run(ranks)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    every = ranks.all((losses, weights, cores))
    if ranks.first:
        assert (ranks.rank, ranks.size, ranks.local_size) == (0, 2, 2)
        for other in every[1:]:
            assert other[0] == losses
            for name, array in weights.items():
                np.testing.assert_array_equal(other[1][name], array)
        assert every[0][2].isdisjoint(every[1][2]) or len(every[0][2]) == 1
        alone, wanted = run()
        np.testing.assert_allclose(losses, alone, rtol=1e-4)
        for name, array in weights.items():
            np.testing.assert_allclose(array, wanted[name], rtol=1e-3, atol=1e-5)
        print("equal")
"""
    )
    done = mpiexec(2, code, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "equal"
    assert sum(line.startswith("epoch   1/3") for line in lines) == 2  # of rank 0, and of that alone
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best.ckpt", "last.ckpt"]


@needs_mpi
def test_a_rank_without_samples_goes_along(tmp_path):
    code = (
        TRAINS
        + """
with train.Ranks() as ranks:
    net = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))
    sgd = optim.SGD(net.parameters(), 0.1)
    with train.Trainer(net, nn.CrossEntropyLoss(), sgd, device="cpu", ranks=ranks) as trainer:
        loss = trainer.step(np.ones((1, 2, 6, 6), np.float32), [2])
        found = trainer.net.state_dict()
        every = ranks.all((loss, found))
        assert every[0][0] == every[1][0] and trainer.steps == 1
        assert all(np.array_equal(every[0][1][name], every[1][1][name]) for name in found)
"""
    )
    done = mpiexec(2, code)
    assert done.returncode == 0, done.stderr


ENDS = {
    "raises": ("with train.Ranks() as ranks:", 'raise ValueError("lost")', "ValueError: lost"),
    "raises outside of with": ("ranks = train.Ranks()\nif True:", 'raise ValueError("lost")', "lost"),
    "dies": ("with train.Ranks() as ranks:", "os.kill(os.getpid(), signal.SIGKILL)", ""),
}


@needs_mpi
@pytest.mark.not_sanitized
@pytest.mark.parametrize(("begin", "what", "said"), ENDS.values(), ids=list(ENDS))
def test_all_end_when_one_does(tmp_path, begin, what, said):
    code = (
        TRAINS
        + f"""
{begin}
    run(ranks)
    with open(sys.argv[1] + f"/{{ranks.rank}}", "w") as file:
        file.write(str(time.time()))
    ranks.all(0)  # both have written
    if ranks.rank == 1:
        {what}
    while True:
        run(ranks)
"""
    )
    done = mpiexec(2, code, tmp_path)
    began = max(float((tmp_path / str(rank)).read_text()) for rank in range(2))
    assert time.time() - began < 10
    assert done.returncode != 0 and said in done.stderr


@needs_mpi
def test_the_command_trains_on_all_ranks(tmp_path):
    pytest.importorskip("sklearn")
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "clcnn", "train", "digits", "--epochs", "2"]
    command += ["--device", "cpu", "--save", str(tmp_path / "a.ckpt")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "of each of 2 processes: 1438 samples" in lines[0] and len(lines) == 5
    assert float(re.fullmatch(r"accuracy (0\.\d+)", lines[-1])[1]) > 0.8
    assert (tmp_path / "a.ckpt").exists()


@needs_mpi
@pytest.mark.not_sanitized
def test_an_error_of_the_command_ends_all_ranks(tmp_path):
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "clcnn", "train", str(tmp_path), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert re.search(r"rank \d: \w+Error: .*", done.stderr)


def test_without_mpi4py_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(MissingExtraError, match=r"clcnn\[mpi\]"):
        train.Ranks()


def test_cores_of_a_machine_are_divided():
    assert [share_of(range(8), rank, 3) for rank in range(3)] == [{0, 1}, {2, 3, 4}, {5, 6, 7}]
    assert [share_of({4, 6}, rank, 4) for rank in range(4)] == [{4}, {6}, {4}, {6}]
    assert share_of({3, 1}, 1, 2) == {3}


def test_who_was_begun_by_mpiexec(monkeypatch):
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert not begun()
    monkeypatch.setenv("PMI_SIZE", "1")
    assert not begun()
    monkeypatch.setenv("PMI_SIZE", "2")
    assert begun()


def test_a_trainer_takes_ranks_as_they_are(device):
    """One rank alone, without MPI: the same bits as no ranks."""

    class One:
        rank, size, first = 0, 1, True

        def all(self, value):
            return [value]

        def of_first(self, value):
            return value

        def add(self, array):
            pass

    def run(**options):
        nn.init.manual_seed(1)
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
        x, y = np.eye(4, dtype=np.float32).reshape(4, 1, 2, 2), [0, 0, 1, 1]
        with train.Trainer(
            net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), 1.0), **options
        ) as trainer:
            losses = [trainer.step(x, y) for _ in range(3)]
        return losses, net.state_dict()

    one, none = run(ranks=One(), device=device), run(device=device)
    assert one[0] == pytest.approx(none[0], rel=1e-5)
    for name in none[1]:
        np.testing.assert_allclose(one[1][name], none[1][name], rtol=1e-5, atol=1e-6)
