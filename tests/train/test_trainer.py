"""Trainer: what a step computes, against PyTorch's trajectories; evaluation, checkpoints, and bad input."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import clcnn
from clcnn import nn, optim, train
from clcnn.errors import (
    ArgumentError,
    CheckpointError,
    DtypeError,
    NonFiniteError,
    ShapeError,
    StateError,
    UnsupportedError,
)
from trainers import assert_same

DIGITS = Path(os.environ.get("CLCNN_TEST_DATA", Path(__file__).parents[3] / "shared" / "data")) / "digits"


def small(classes=3):
    nn.init.manual_seed(4)
    return nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, classes))


def with_norm():
    nn.init.manual_seed(4)
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(16, 3),
    )


def batch(n=5, seed=0, classes=3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2, 6, 6), np.float32), rng.integers(0, classes, n)


def trainer_of(net, **options):
    return train.Trainer(net, nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=1e-2), **options)


def weights(net):
    return {name: array.copy() for name, array in net.state_dict().items()}


# ---- against PyTorch ----


def torch_net(kind):
    norm = [nn.BatchNorm2d(16)] if kind == "adam" else []
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        *norm,
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )


def optimizer_of(kind, net):
    if kind == "adam":
        return optim.Adam(net.parameters(), lr=2e-3)
    return optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)


@pytest.mark.skipif(not DIGITS.exists(), reason="needs the test data")
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_steps_follow_pytorch(kind):
    data = np.load(DIGITS / "digits.npz")
    x = (data["images"][:, None] / 16).astype(np.float32)
    y = data["labels"].astype(np.int64)
    known = np.load(DIGITS / f"train_{kind}.npz")
    net = torch_net(kind)
    start = {
        name[5:]: known[name]
        for name in known.files
        if name.startswith("init.") and "num_batches" not in name
    }
    net.load_state_dict(start)
    order = known["order"]
    losses = []
    with train.Trainer(net, nn.CrossEntropyLoss(), optimizer_of(kind, net)) as trainer:
        for step in range(len(known["losses"])):
            at = order[step % len(order)]
            losses.append(trainer.step(x[at], y[at]))
        found = trainer.predict(x[1500:])
    np.testing.assert_allclose(losses[:20], known["losses"][:20], rtol=1e-3)
    np.testing.assert_allclose(losses[20:], known["losses"][20:], rtol=2e-2)
    agreed = np.mean(found.argmax(1) == known["test_logits"].argmax(1))
    assert agreed > 0.97
    for name in (n for n in known.files if n.endswith("running_var") and n.startswith("final.")):
        np.testing.assert_allclose(net.state_dict()[name[6:]], known[name], rtol=0.1)


# ---- steps ----


def test_training_lowers_the_loss():
    net = with_norm()
    x, y = batch(16)
    with trainer_of(net) as trainer:
        losses = [trainer.step(x, y) for _ in range(60)]
        assert np.mean(losses[-5:]) < 0.5 * losses[0]
        found = trainer.evaluate([(x, y)])
    assert found["accuracy"] > 0.9 and found["loss"] < losses[0]


def test_the_same_steps_give_the_same_bits():
    results = []
    for _ in range(2):
        net = with_norm()
        with trainer_of(net, seed=7) as trainer:
            for i in range(6):
                trainer.step(*batch(8, seed=i))
        results.append(weights(net))
    assert_same(*results)


def test_the_seed_is_that_of_dropout():
    losses = []
    for seed in (1, 1, 2):
        with trainer_of(with_norm(), seed=seed) as trainer:
            losses.append([trainer.step(*batch(8)) for _ in range(2)])
    assert losses[0] == losses[1] != losses[2]


def test_a_short_last_batch_takes_part():
    net = small()
    with trainer_of(net) as trainer:
        trainer.step(*batch(5))
        before = weights(net)
        trainer.step(*batch(2))
        assert trainer.steps == 2
        assert all(
            not np.array_equal(a, b) for a, b in zip(before.values(), weights(net).values(), strict=True)
        )


def test_parameters_are_fetched_and_sent():
    net = small()
    with trainer_of(net) as trainer:
        trainer.step(*batch())
        x, _ = batch()
        net[3].weight.data = np.zeros((3, 64), np.float32)
        np.testing.assert_allclose(trainer.predict(x), np.broadcast_to(net[3].bias.data, (5, 3)), rtol=1e-6)
        trainer.step(*batch())
        assert np.abs(net[3].weight.data).max() > 0
        plan = clcnn.compile(net, (5, 2, 6, 6))
        np.testing.assert_allclose(plan(x), trainer.predict(x), rtol=1e-4, atol=1e-5)
    assert net[3].weight.data.shape == (3, 64)


def test_parts_in_eval_mode_keep_their_statistics():
    net = with_norm()
    net[1].eval()
    mean = net[1].running_mean.data.copy()
    with trainer_of(net) as trainer:
        trainer.step(*batch(8))
        np.testing.assert_array_equal(net[1].running_mean.data, mean)
        net_in_training = with_norm()
    with trainer_of(net_in_training) as trainer:
        trainer.step(*batch(8))
        assert not np.array_equal(net_in_training[1].running_mean.data, mean)


def test_parameters_that_the_optimiser_lacks_stay():
    net = small()
    before = weights(net)
    adam = optim.Adam(net[3].parameters(), lr=1e-2)
    with train.Trainer(net, nn.CrossEntropyLoss(), adam) as trainer:
        trainer.step(*batch())
    after = weights(net)
    assert [name for name in after if not np.array_equal(after[name], before[name])] == ["3.weight", "3.bias"]


def test_groups_have_rates_of_their_own():
    net = small()
    before = weights(net)
    groups = [{"params": [net[0].weight, net[0].bias], "lr": 0.0}, {"params": list(net[3].parameters())}]
    with train.Trainer(net, nn.CrossEntropyLoss(), optim.SGD(groups, lr=0.1)) as trainer:
        trainer.step(*batch())
    after = weights(net)
    assert [name for name in after if not np.array_equal(after[name], before[name])] == ["3.weight", "3.bias"]


def test_a_schedule_goes_on_with_the_steps():
    net = small()
    sgd = optim.SGD(net.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.OneCycleLR(sgd, 0.4, total_steps=10)
    with train.Trainer(net, nn.CrossEntropyLoss(), sgd, schedule=schedule) as trainer:
        trainer.step(*batch())
    assert schedule.last_epoch == 1 and sgd.param_groups[0]["lr"] == pytest.approx(0.208)


# ---- files ----


def test_a_resumed_run_has_the_same_bits(tmp_path):
    whole, first = with_norm(), with_norm()
    with trainer_of(whole, seed=3) as trainer:
        for i in range(6):
            trainer.step(*batch(8, seed=i))
    with trainer_of(first, seed=3) as trainer:
        for i in range(3):
            trainer.step(*batch(8, seed=i))
        trainer.save(tmp_path / "a.ckpt")
    rest = with_norm()
    rest[0].bias.data = np.ones(4)  # which the checkpoint overwrites
    adam = optim.AdamW(rest.parameters(), lr=1e-2)
    with train.Trainer.resume(tmp_path / "a.ckpt", rest, nn.CrossEntropyLoss(), adam, seed=3) as trainer:
        assert trainer.steps == 3
        for i in range(3, 6):
            trainer.step(*batch(8, seed=i))
    assert_same(weights(whole), weights(rest))


@pytest.fixture
def saved(tmp_path):
    with trainer_of(small()) as trainer:
        trainer.step(*batch())
        trainer.save(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


def resume(path, net, optimizer=None):
    return train.Trainer.resume(path, net, nn.CrossEntropyLoss(), optimizer or optim.AdamW(net.parameters()))


def test_a_checkpoint_of_another_net_is_refused_with_all_differences(saved):
    net = small(classes=4)
    net.append(nn.Linear(4, 3))
    before = weights(net)
    with pytest.raises(CheckpointError) as error:
        resume(saved, net, optim.SGD(net.parameters()))
    for part in ("3.weight", "3.bias", "4.weight", "SGD", "AdamW"):
        assert part in str(error.value)
    assert_same(weights(net), before)


def test_damaged_checkpoints_are_refused(saved, tmp_path):
    whole = saved.read_bytes()
    for name, content in {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "other": b"no checkpoint at all",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CheckpointError, match=name):
            resume(tmp_path / name, small())
    np.savez(tmp_path / "arrays.npz", a=np.zeros(3))
    with pytest.raises(CheckpointError):
        resume(tmp_path / "arrays.npz", small())


def test_a_file_that_cannot_be_written_leaves_the_old_one(saved, tmp_path, monkeypatch):
    before = saved.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    with trainer_of(small()) as trainer:
        trainer.step(*batch())
        monkeypatch.setattr(np, "savez", full)
        with pytest.raises(OSError, match="No space"):
            trainer.save(saved)
    assert saved.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["a.ckpt"]


def test_nothing_to_save_before_the_first_batch(tmp_path):
    with pytest.raises(StateError, match="nothing was trained"):
        trainer_of(small()).save(tmp_path / "a.ckpt")


# ---- bad input ----


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (np.zeros((2, 2, 6, 6)), [0, 3], ArgumentError, "sample 1 has label 3; there are 3 classes"),
        (np.zeros((2, 2, 6, 6)), [-1, 0], ArgumentError, "sample 0 has label -1"),
        (np.zeros((2, 2, 6, 6)), [0.5, 1], DtypeError, "labels must be integers"),
        (np.zeros((2, 2, 6, 6)), [0], ShapeError, "one for each of the 2 samples"),
        (np.zeros((0, 2, 6, 6)), [], ShapeError, "not empty"),
        (np.array(["a", "b"]), [0, 1], DtypeError, "real numbers"),
        (np.zeros((2, 3, 6, 6)), [0, 1], ShapeError, "channels"),
    ],
)
def test_bad_batches_are_refused_before_anything_is_sent(x, y, error, message):
    net = small()
    before = weights(net)
    with trainer_of(net) as trainer:
        with pytest.raises(error, match=message):
            trainer.step(x, np.array(y))
        assert trainer.steps == 0
    assert_same(weights(net), before)


def test_a_step_that_is_not_finite_changes_nothing():
    net = with_norm()
    with trainer_of(net) as trainer:
        trainer.step(*batch(8))
        before = weights(net)
        x, y = batch(8)
        x[0, 0, 0, 0] = np.inf
        with pytest.raises(NonFiniteError, match=r"step 2: .*layer '0' is the first"):
            trainer.step(x, y)
        assert trainer.steps == 1
        assert_same(weights(net), before)
        trainer.step(*batch(8))  # goes on


def test_batch_norm_over_one_value_is_refused():
    net = nn.Sequential(nn.Flatten(), nn.Linear(72, 3), nn.BatchNorm1d(3))
    with trainer_of(net) as trainer, pytest.raises(ShapeError, match="one value a channel"):
        trainer.step(*batch(1))


def test_parameters_out_of_reach_are_told():
    net = small()
    net.spare = nn.Linear(2, 2)
    net.forward = lambda x: nn.Sequential(*[net[i] for i in range(4)]).forward(x)
    adam = optim.AdamW([*net[0].parameters(), net.spare.weight])
    with (
        train.Trainer(net, nn.CrossEntropyLoss(), adam) as trainer,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        trainer.step(*batch())
    assert "does not depend on parameter 'spare.weight'" in str(told[0].message)


def test_bad_arguments_are_refused():
    net = small()
    loss, adam = nn.CrossEntropyLoss(), optim.AdamW(net.parameters())
    with pytest.raises(ArgumentError, match="net must be a Module"):
        train.Trainer(3, loss, adam)
    with pytest.raises(ArgumentError, match="optimizer must be"):
        train.Trainer(net, loss, 0.1)
    with pytest.raises(UnsupportedError, match="medium"):
        train.Trainer(net, loss, adam, precision="medium")
    with pytest.raises(ArgumentError, match="none of strict"):
        train.Trainer(net, loss, adam, precision="best")
    other = small()
    with (
        train.Trainer(net, loss, optim.AdamW(other.parameters())) as trainer,
        pytest.raises(ArgumentError, match="no parameter of the net"),
    ):
        trainer.step(*batch())
    with trainer_of(net) as one, trainer_of(net) as two:
        one.step(*batch())
        with pytest.raises(StateError, match="another trainer|belongs to a trainer"):
            two.step(*batch())


def test_nothing_to_evaluate():
    with trainer_of(small()) as trainer, pytest.raises(ArgumentError, match="no batch"):
        trainer.evaluate([])


def test_digits_are_learned_quickly():
    pytest.importorskip("sklearn")
    data = train.digits()
    nn.init.manual_seed(0)
    net = clcnn.zoo.lenet5()
    with train.Trainer(net, nn.CrossEntropyLoss(), optim.AdamW(net.parameters(), lr=2e-3)) as trainer:
        for _ in range(2):
            for x, y in data.train.batches(32):
                trainer.step(x, y)
        assert trainer.evaluate(data.test)["accuracy"] > 0.9
