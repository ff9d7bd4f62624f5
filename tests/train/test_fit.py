"""Trainer.fit(): epochs, history, validation, callbacks, early stopping and checkpoints."""

from __future__ import annotations

import numpy as np
import pytest

from clcnn import nn, optim, train
from clcnn.errors import ArgumentError


def small():
    nn.init.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(8, 6), nn.ReLU(), nn.Dropout(0.2), nn.Linear(6, 3))


def data(n=20, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = rng.standard_normal((n, 2, 2, 2)).astype(np.float32) + y[:, None, None, None]
    return train.Arrays(x, y, seed=1)


def trainer_of(net, device, **options):
    adam = optim.AdamW(net.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.ExponentialLR(adam, 0.99)
    return train.Trainer(net, nn.CrossEntropyLoss(), adam, device=device, schedule=schedule, **options)


def resumed(path, net, device):
    adam = optim.AdamW(net.parameters(), lr=1e-2)
    schedule = optim.lr_scheduler.ExponentialLR(adam, 0.99)
    options = {"device": device, "schedule": schedule}
    return train.Trainer.resume(path, net, nn.CrossEntropyLoss(), adam, **options)


def test_history_and_progress(device, capsys):
    with trainer_of(small(), device) as trainer:
        history = trainer.fit(data(), 12, batch=8, validation=data(seed=1))
    printed = capsys.readouterr().out.splitlines()
    lines = [line for line in printed if line.startswith("epoch")]  # others tell of long waits for compilers
    assert [record["epoch"] for record in history] == list(range(1, 13))
    assert set(history[0]) == {"epoch", "loss", "lr", "seconds", "val_loss", "val_accuracy"}
    assert history[-1]["loss"] < 0.8 * history[0]["loss"]
    assert history[1]["lr"] == pytest.approx(1e-2 * 0.99**5)  # that of the epoch's last step
    assert len(lines) == 12 and lines[2].startswith("epoch   3/12  loss ") and "val_accuracy" in lines[2]


def test_fit_is_the_loop_over_steps(device):
    by_hand, by_fit = small(), small()
    with trainer_of(by_hand, device) as trainer:
        samples = data()
        losses = [[(trainer.step(x, y), len(x)) for x, y in samples.batches(8)] for _ in range(2)]
    with trainer_of(by_fit, device) as trainer:
        history = trainer.fit(data(), 2, batch=8, progress=False)
        assert trainer.steps == 6 and trainer.epochs == 2
    for name, array in by_hand.state_dict().items():
        np.testing.assert_array_equal(array, by_fit.state_dict()[name])
    for record, epoch in zip(history, losses):
        assert record["loss"] == pytest.approx(sum(loss * n for loss, n in epoch) / 20)


def test_batches_serve_as_data(device):
    x, y = data().x, data().y
    with trainer_of(small(), device) as trainer:
        trainer.fit([(x[:8], y[:8]), (x[8:], y[8:])], 2, progress=False)
        assert trainer.steps == 4
        once = iter([(x, y)])
        with pytest.raises(ArgumentError, match="no batch; data that can be walked once"):
            trainer.fit(once, 4, progress=False)


def test_a_split_brings_validation_and_augmentation(device):
    seen = []

    def augment(x, rng):
        seen.append(rng.random())
        return x

    split = train.Split(data(), data(seed=1), augment)
    with trainer_of(small(), device) as trainer:
        history = trainer.fit(split, 2, batch=10, progress=False, metrics=[train.ConfusionMatrix()])
    assert len(seen) == 4 == len(set(seen))
    assert history[0]["val_confusion"].sum() == 20 and "val_accuracy" not in history[0]


def test_a_resumed_fit_has_the_same_bits(device, tmp_path):
    whole, first, rest = small(), small(), small()
    options = {"batch": 8, "validation": data(seed=1), "progress": False}
    metrics = [train.Accuracy(), train.ConfusionMatrix()]
    with trainer_of(whole, device) as trainer:
        wanted = trainer.fit(data(), 5, metrics=metrics, **options)
    with trainer_of(first, device) as trainer:
        trainer.fit(data(), 2, metrics=metrics, checkpoint=tmp_path / "run", **options)
    with resumed(tmp_path / "run" / "last.ckpt", rest, device) as trainer:
        found = trainer.fit(data(), 5, metrics=metrics, **options)
    for name, array in whole.state_dict().items():
        np.testing.assert_array_equal(array, rest.state_dict()[name])
    for one, other in zip(wanted, found, strict=True):
        assert {k: v for k, v in one.items() if k not in ("seconds", "val_confusion")} == {
            k: v for k, v in other.items() if k not in ("seconds", "val_confusion")
        }
        np.testing.assert_array_equal(one["val_confusion"], other["val_confusion"])


def test_the_best_epoch_is_kept(device, tmp_path):
    net = small()
    validation = data(seed=1)
    with trainer_of(net, device) as trainer:
        for epoch in range(3):
            if epoch == 2:  # makes it worse
                net[4].weight.data = -5 * net[4].weight.data
            trainer.fit(data(), epoch + 1, validation=validation, checkpoint=tmp_path, progress=False)
        losses = [record["val_loss"] for record in trainer.history]
        assert losses[2] > losses[1] < losses[0]
        trainer.restore(tmp_path / "best.ckpt")
        assert trainer.epochs == 2 and trainer.evaluate(validation)["loss"] == losses[1]
        trainer.restore(tmp_path / "last.ckpt")
        assert trainer.epochs == 3 and trainer.evaluate(validation)["loss"] == losses[2]


def test_callbacks_are_all_called_and_may_stop(device):
    seen = []
    callbacks = [
        lambda trainer, record: record["epoch"] == 2,
        lambda trainer, record: seen.append((trainer.epochs, record["loss"])),
    ]
    with trainer_of(small(), device) as trainer:
        trainer.fit(data(), 9, callbacks=callbacks, progress=False)
    assert [epoch for epoch, _ in seen] == [1, 2]


class Past:
    """What EarlyStopping reads of a trainer."""

    def __init__(self, name, values):
        self.history = [{name: value} for value in values]


@pytest.mark.parametrize(
    ("options", "name", "values", "stops"),
    [
        ({"patience": 2}, "val_loss", [3, 2, 2.5], False),
        ({"patience": 2}, "val_loss", [3, 2, 2.5, 2], True),
        ({"patience": 2}, "val_loss", [3, 2, 2.5, 1.9], False),
        ({"patience": 2, "min_delta": 0.5}, "val_loss", [3, 2, 1.9, 1.8], True),
        ({"patience": 1, "monitor": "val_accuracy"}, "val_accuracy", [0.3, 0.4], False),
        ({"patience": 1, "monitor": "val_accuracy"}, "val_accuracy", [0.4, 0.3], True),
        ({"patience": 1, "monitor": "val_error", "mode": "min"}, "val_error", [0.4, 0.3], False),
        ({"patience": 2}, "val_loss", [float("nan"), float("nan"), float("nan")], True),
    ],
)
def test_early_stopping(options, name, values, stops):
    past = Past(name, values)
    assert train.EarlyStopping(**options)(past, past.history[-1]) is stops


def test_early_stopping_ends_a_fit(device):
    with trainer_of(small(), device) as trainer:
        history = trainer.fit(
            data(), 9, callbacks=[train.EarlyStopping("loss", patience=2, min_delta=100)], progress=False
        )
    assert len(history) == 3


def test_rates_go_down_on_a_plateau_and_a_resumed_fit_has_them(device, tmp_path):
    def made(path=None):
        net = small()
        sgd = optim.SGD(net.parameters(), lr=1.0)
        plateau = optim.lr_scheduler.ReduceLROnPlateau(
            sgd, "max", factor=0.5, patience=0, threshold=10.0, monitor="loss"
        )  # nothing is so much better: it goes down in every epoch but the first
        given = net, nn.CrossEntropyLoss(), sgd
        make = train.Trainer if path is None else lambda *a, **k: train.Trainer.resume(path, *a, **k)
        return plateau, make(*given, device=device)

    plateau, trainer = made()
    with trainer:
        history = trainer.fit(data(), 4, progress=False, callbacks=[plateau])
        assert [record["lr"] for record in history] == [1.0, 1.0, 0.5, 0.25] and plateau.get_last_lr() == [
            0.125
        ]
        whole = trainer.net.state_dict()
    plateau, trainer = made()
    with trainer:
        trainer.fit(data(), 2, progress=False, callbacks=[plateau], checkpoint=tmp_path)
    plateau, trainer = made(tmp_path / "last.ckpt")
    with trainer:
        assert trainer.fit(data(), 4, progress=False, callbacks=[plateau])[-1]["lr"] == 0.25
        for name, array in trainer.net.state_dict().items():
            np.testing.assert_array_equal(array, whole[name])
    with trainer_of(small(), device) as trainer, pytest.raises(ArgumentError, match="trainer has a schedule"):
        trainer.fit(data(), 1, callbacks=[plateau])


def test_bad_arguments_are_refused(device):
    with pytest.raises(ArgumentError, match="patience"):
        train.EarlyStopping(patience=0)
    with pytest.raises(ArgumentError, match="mode 'least'"):
        train.EarlyStopping(mode="least")
    with trainer_of(small(), device) as trainer:
        with pytest.raises(ArgumentError, match="no 'val_loss' in the history; there are"):
            trainer.fit(data(), 1, callbacks=[train.EarlyStopping()], progress=False)
        with pytest.raises(ArgumentError, match="epochs"):
            trainer.fit(data(), 0)
