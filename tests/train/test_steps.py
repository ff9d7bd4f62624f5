"""Steps of a trainer: the same bits each time and however plans run, whole steps where calls fail, and what
cannot be differentiated, by name."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import clcnn
from clcnn import _core, nn, ops, optim, train
from clcnn.errors import UnsupportedError
from trainers import assert_same, bits


def net_of():
    nn.init.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.ReLU(), nn.Dropout(0.2), nn.Flatten(), nn.Linear(128, 4),
    )  # fmt: skip


def trainer_of(device, net=None, **options):
    net = net or net_of()
    return train.Trainer(
        net, nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=1e-3), device=device, **options
    )


def batch(number):
    rng = np.random.default_rng(number)
    return rng.standard_normal((6, 3, 8, 8), np.float32), rng.integers(0, 4, 6)


def after(device, steps):
    with trainer_of(device) as trainer:
        for i in range(steps):
            trainer.step(*batch(i))
        return bits(trainer)


def test_a_hundred_steps_twice(device):
    assert_same(after(device, 100), after(device, 100))


@pytest.mark.parametrize("options", [{"chain": False}, {"guard": True}, {"fuse": False, "chain": False}])
def test_how_a_plan_runs_changes_no_bit(device, monkeypatch, options):
    """Without chains, without shared memory; without fusing bits may differ, as epilogues round elsewhere."""
    wanted = after(device, 3)
    compiled = clcnn.compile
    monkeypatch.setattr(clcnn, "compile", lambda *a, **k: compiled(*a, **k, **options))
    found = after(device, 3)
    if "fuse" in options:
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-3, atol=1e-4, err_msg=name)
    else:
        assert_same(wanted, found)


@pytest.mark.parametrize("call", ["clEnqueueNDRangeKernel", "clFinish", "*"])
def test_a_call_that_fails_inside_a_step_leaves_a_whole_one(device, monkeypatch, call):
    """Wherever it fails, the trainer has the bits of one that nothing happened to, and goes on."""
    with trainer_of(device) as trainer, trainer_of(device) as undisturbed:
        trainer.step(*batch(0))
        undisturbed.step(*batch(0))
        failed = 0
        for nth in (1, 2, 3, 5, 8, 13, 21, 34, 55, 80, 120, 200):
            monkeypatch.setenv("CLCNN_FAULT", f"{call}:{nth}:-5")
            try:
                _core.devices()  # counts from here on
                trainer.step(*batch(trainer.steps))
            except clcnn.Error:
                failed += 1
            monkeypatch.delenv("CLCNN_FAULT")
            _core.devices()
            while undisturbed.steps < trainer.steps:
                undisturbed.step(*batch(undisturbed.steps))
            assert_same(bits(trainer), bits(undisturbed))
        assert failed
        done = trainer.steps
        trainer.step(*batch(done))
        undisturbed.step(*batch(done))
        assert_same(bits(trainer), bits(undisturbed))


# ---- what the loss cannot be differentiated by ----


class Through(nn.Module):
    """A layer, then any function of its result."""

    def __init__(self, function):
        super().__init__()
        self.first, self.function, self.last = nn.Linear(5, 6), function, nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.function(self.first(x)))


def _regions(x):
    rois = np.array([[0, 0, 0, 1, 1]] * (6 * x.shape[0]), np.float32)
    y = ops.max_roi_pool(ops.reshape(x, shape=(-1, 1, 2, 3)), rois, output_size=1, name="regions")
    return ops.reshape(y, shape=(-1, 6))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: ops.round(x, name="whole"), "round whole: this operator has no gradient"),
        (lambda x: ops.cast(ops.greater(x, 0.0, name="above")), "greater above: this operator has no"),
        (_regions, "max_roi_pool regions: the gradient of this operator is not offered yet"),
    ],
)
def test_an_operator_without_gradient_is_named_when_the_step_is_compiled(device, function, message):
    with trainer_of(device, Through(function)) as trainer:
        with pytest.raises(UnsupportedError, match=message):
            trainer.step(np.ones((2, 5), np.float32), [0, 1])
        assert trainer.steps == 0


class Aside(nn.Module):
    """Computes with a layer whose result the loss does not see."""

    def __init__(self):
        super().__init__()
        self.used, self.aside = nn.Linear(5, 3), nn.Linear(5, 3)

    def forward(self, x):
        self.aside(x)
        return self.used(x)


def test_a_parameter_that_the_loss_does_not_reach_is_told_and_stays(device):
    nn.init.manual_seed(1)
    net = Aside()
    before = net.aside.weight.data.copy()
    sgd = optim.SGD(net.parameters(), lr=0.1)
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    with (
        train.Trainer(net, nn.CrossEntropyLoss(), sgd, device=device) as trainer,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        for _ in range(2):
            trainer.step(x, [0, 1, 2, 0])
        found = net.state_dict()
    texts = [str(w.message) for w in told]
    assert [t for t in texts if "'aside.weight'" in t] and len(texts) == 2, texts
    np.testing.assert_array_equal(found["aside.weight"], before)
    assert not np.array_equal(found["used.weight"], before)
