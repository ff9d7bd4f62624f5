"""Trainers on two devices: they compute what one does, keep equal states, and survive what happens to one."""

from __future__ import annotations

import gc
import random
import time

import numpy as np
import pytest

import clcnn
from clcnn import cli, nn, optim, train
from clcnn.errors import ArgumentError, DeviceError, NonFiniteError, RunTimeoutError, StateError
from clcnn.train import shared, team
from clcnn.train.layout import Layout, Slot
from clcnn.train.step import GradientRules, Recipe
from pair import needs_pair, run_on_a_pair
from trainers import assert_same, bits, interrupt_after

BOTH = [0, 1]


def net_of(norm=False):
    nn.init.manual_seed(4)
    layers = [nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.25)] if norm else [nn.ReLU()]
    return nn.Sequential(nn.Conv2d(2, 4, 3), *layers, nn.Flatten(), nn.Linear(64, 3))


def batch(n=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2, 6, 6), np.float32), rng.integers(0, 3, n)


def trainer_of(devices, norm=False, loss=None, schedule=False, **options):
    net = net_of(norm)
    adam = optim.AdamW(net.parameters(), lr=1e-2)
    plan = optim.lr_scheduler.CosineAnnealingLR(adam, 20) if schedule else None
    return train.Trainer(net, loss or nn.CrossEntropyLoss(), adam, device=devices, schedule=plan, **options)


def assert_close(one, other):
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-6, err_msg=name)


def train_on(devices, count=4, size=5, **options):
    """Losses and states."""
    with trainer_of(devices, **options) as trainer:
        return [trainer.step(*batch(size, i)) for i in range(count)], bits(trainer)


def test_on_a_pair():
    run_on_a_pair(__file__)


OPTIONS = {
    "plain": {},
    "one sample for each": {"size": 2},
    "fewer samples than devices": {"size": 1},
    "schedule": {"schedule": True},
    "clipped": {"clip_norm": 0.1, "clip_value": 0.05},
    "accumulated": {"accumulate": 2},
    "summed up": {"loss": nn.CrossEntropyLoss(reduction="sum")},
    "classes weighted": {"loss": nn.CrossEntropyLoss(weight=[0.2, 1.0, 3.0])},
    "a label ignored": {"loss": nn.CrossEntropyLoss(ignore_index=1)},
}


@needs_pair
@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_two_devices_compute_what_one_does(options):
    (one, wanted), (pair, found) = train_on(0, **options), train_on(BOTH, **options)
    np.testing.assert_allclose(pair, one, rtol=1e-5, atol=1e-6)
    assert_close(found, wanted)


@needs_pair
def test_two_devices_compute_the_same_bits_each_time():
    (one, first), (other, second) = (train_on(BOTH, norm=True, seed=3) for _ in range(2))
    assert one == other
    assert_same(first, second)


@needs_pair
@pytest.mark.parametrize("loss", [nn.CrossEntropyLoss(), nn.CrossEntropyLoss(weight=[0.2, 1.0, 3.0])])
def test_two_devices_evaluate_as_one_does(loss):
    x, y = batch(7, 99)
    found = []
    for devices in (0, BOTH):
        with trainer_of(devices, loss=loss) as trainer:
            found.append((trainer.predict(x), trainer.evaluate(train.Arrays(x, y), 7)))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-4, atol=1e-5)
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-5)


@needs_pair
def test_gradients_in_several_buckets_are_the_same(monkeypatch):
    whole = train_on(BOTH)
    monkeypatch.setattr(shared, "BUCKET", 310)
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch())
        outputs = list(next(iter(trainer._plans.values()))._gradients[0].outputs)
    assert outputs == ["loss", "params_0:0:3", "params_0:3:195", "params_0:195:271"]
    parted = train_on(BOTH)
    assert whole[0] == parted[0]
    assert_same(whole[1], parted[1])


@needs_pair
def test_batch_norm_takes_each_devices_part():
    """The running statistics are the mean of what the parts alone would have made of them."""

    def statistics(x, device):
        net = nn.Sequential(nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 3))
        options = {"device": device}
        with train.Trainer(
            net, nn.CrossEntropyLoss(), optim.SGD(net.parameters(), 0.0), **options
        ) as trainer:
            trainer.step(x, np.zeros(len(x), np.int64))
            return bits(trainer)["statistics"]

    x = batch(4)[0]
    parts = [statistics(part, 0) for part in (x[:2], x[2:])]
    np.testing.assert_allclose(statistics(x, BOTH), np.mean(parts, axis=0), rtol=1e-6)


@needs_pair
def test_a_resumed_trainer_goes_on_with_the_same_bits(tmp_path):
    options = {"norm": True, "schedule": True, "seed": 3}
    with trainer_of(BOTH, **options) as straight:
        for i in range(6):
            straight.step(*batch(6, i))
        wanted = bits(straight)
    with trainer_of(BOTH, **options) as begun:
        for i in range(3):
            begun.step(*batch(6, i))
        begun.save(tmp_path / "a.ckpt")
    with trainer_of(BOTH, **options) as resumed:
        resumed.restore(tmp_path / "a.ckpt")
        for i in range(3, 6):
            resumed.step(*batch(6, i))
        assert_same(bits(resumed), wanted)
    with trainer_of(0, **options) as alone:  # a checkpoint belongs to no number of devices
        alone.restore(tmp_path / "a.ckpt")
        assert alone.steps == 3


@needs_pair
def test_devices_drop_elements_of_their_own():
    net = nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(64, 1, bias=False))
    options = {"device": BOTH, "seed": 1}
    with train.Trainer(net, nn.MSELoss(reduction="sum"), optim.SGD(net.parameters(), 1.0), **options) as t:
        t.step(np.ones((2, 1, 8, 8), np.float32), np.zeros((2, 1), np.float32))
        for sources in next(iter(t._plans.values()))._exchange._tensors:
            halves = [pieces["params_0:0:64"].numpy() for pieces in sources]
            assert all(16 < np.count_nonzero(half) < 48 for half in halves)
            assert np.any((halves[0] != 0) & (halves[1] == 0))


@needs_pair
def test_parameters_written_between_steps_reach_all_devices():
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch())
        bias = next(p for p in trainer.net.parameters() if p.size == 3)
        bias.data = np.full(3, 0.5, np.float32)
        state = bits(trainer)
        assert (state["params_0"][:3] == 0.5).all()
        trainer.step(*batch())
        bits(trainer)


# ---- what happens to them ----


@needs_pair
@pytest.mark.parametrize("bad", [0, 3])
def test_a_step_that_is_not_finite_is_committed_by_none(bad):
    x, y = batch(4)
    with trainer_of(BOTH) as trainer:
        trainer.step(x, y)
        before = bits(trainer)
        worse = x.copy()
        worse[bad] = np.inf
        with pytest.raises(NonFiniteError, match="step 2: .*Parameters are those of step 1"):
            trainer.step(worse, y)
        assert_same(bits(trainer), before)
        assert trainer.steps == 1
        trainer.step(x, y)
        assert trainer.steps == 2


@needs_pair
def test_ctrl_c_leaves_whole_steps_on_all_devices():
    rng, interrupted = random.Random(0), 0
    with trainer_of(BOTH, schedule=True) as trainer, trainer_of(BOTH, schedule=True) as undisturbed:
        start = time.perf_counter()
        for _ in range(10):
            trainer.step(*batch(5, trainer.steps))
        usual = (time.perf_counter() - start) / 10
        while interrupted < 40:
            try:
                with interrupt_after(rng.uniform(1e-5, 1.2 * usual)):
                    trainer.step(*batch(5, trainer.steps))
            except KeyboardInterrupt:
                interrupted += 1
            if interrupted % 10 == 0:
                while undisturbed.steps < trainer.steps:
                    undisturbed.step(*batch(5, undisturbed.steps))
                assert_same(bits(trainer), bits(undisturbed))


@needs_pair
def test_a_device_that_fails_is_named():
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch())
        trainer._bound.state.states[1].close()
        with pytest.raises(StateError, match=r"^device 1 \(.*\): the state is closed"):
            trainer.step(*batch())


@needs_pair
def test_after_half_an_update_the_trainer_waits_for_a_checkpoint(tmp_path, monkeypatch):
    file = tmp_path / "a.ckpt"
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch())
        trainer.save(file)
        wanted = bits(trainer)
        step = next(iter(trainer._plans.values()))

        class Broken:
            def step(self, *inputs, timeout=None):
                raise DeviceError("lost")

        with monkeypatch.context() as patch:
            patch.setattr(step, "_apply", [step._apply[0], Broken()])
            patch.setattr(Broken, "inputs", step._apply[0].inputs, raising=False)
            with pytest.raises(DeviceError, match=r"device 1 \(.*\): lost"):
                trainer.step(*batch())
        for call in (lambda: trainer.step(*batch()), lambda: trainer.predict(batch()[0])):
            with pytest.raises(StateError, match=r"a device failed while all wrote it: restore\(\)"):
                call()
        trainer.restore(file)
        assert trainer.steps == 1
        assert_same(bits(trainer), wanted)
        trainer.step(*batch())


@needs_pair
def test_after_a_time_out_the_trainer_waits_for_a_checkpoint(tmp_path):
    file = tmp_path / "a.ckpt"
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch())
        trainer.save(file)
        wanted = bits(trainer)
        with pytest.raises(RunTimeoutError):
            for _ in range(1000):
                trainer.step(*batch(), timeout=1e-7)
        with pytest.raises(StateError, match="timed out"):
            trainer.step(*batch())
        for _ in range(1000):
            try:
                trainer.restore(file)
                break
            except StateError as error:
                assert "busy" in str(error)
                time.sleep(0.01)
        assert_same(bits(trainer), wanted)
        trainer.step(*batch())


# ---- which devices ----


def test_lists_of_devices_that_make_no_team():
    with pytest.raises(ArgumentError, match="Trainer: device: the list is empty"):
        trainer_of([])
    with pytest.raises(ArgumentError, match="Trainer: device: 0 and 0 are one device"):
        trainer_of([0, 0])


@needs_pair
def test_devices_must_be_of_one_kind():
    wrong = r"of one kind.*device 1 .* has compute_units \d+, device 0 .* 1"
    with (
        clcnn.Device(0, threads=1) as half,
        clcnn.Device(1) as whole,
        pytest.raises(ArgumentError, match=wrong),
    ):
        trainer_of([half, whole])


def test_a_list_of_one_device_is_that_device(device):
    with trainer_of([device]) as trainer:
        assert trainer.devices == [device] and trainer.device is device
        trainer.step(*batch())
        assert isinstance(trainer._bound.state, clcnn.State)


def test_parts_of_a_batch():
    assert shared.cut(5, 2) == [slice(0, 2), slice(2, 5)]
    assert shared.cut(1, 3) == [slice(0, 1)]
    for count, parts in ((7, 3), (64, 8), (3, 8)):
        found = shared.cut(count, parts)
        sizes = [part.stop - part.start for part in found]
        assert sum(sizes) == count and min(sizes) > 0 and max(sizes) - min(sizes) <= 1


def test_sums_are_taken_in_the_order_of_the_devices(device):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(3 * team.PIECE + 5, np.float32) for _ in range(3)]
    wanted = (arrays[0] + arrays[1]) + arrays[2]
    threads = team.Team([device])
    threads._workers *= 3
    threads.devices *= 3
    found = threads.lead(lambda: team.add_up(threads, arrays))
    threads.close()
    np.testing.assert_array_equal(found, wanted)


def test_devices_add_up_in_the_order_of_the_sources(device, monkeypatch):
    """Also where a group's gradients are in several buckets."""
    monkeypatch.setattr(shared, "BUCKET", 310)
    monkeypatch.setattr(shared, "LEAST", 310)
    net = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(64, 3))
    sgd = optim.SGD(net.parameters(), 1.0)
    layout = Layout(net, sgd, (2, 2, 6, 6))
    graph = shared.apply_graph(
        Recipe(net, nn.CrossEntropyLoss(), sgd, layout, GradientRules()), True, True, 3
    )
    arrays = {name: np.zeros(size, np.float32) for name, size in layout.sizes.items()}
    arrays |= {
        f"{moment}_0": np.zeros_like(arrays["params_0"]) for moment in sgd.moments(sgd.param_groups[0])
    }
    rng = np.random.default_rng(0)
    given = {name: rng.standard_normal(value.shape, np.float32) for name, value in graph.inputs.items()}
    given |= {
        "loss": np.zeros(1, np.float32),
        "hyper_0": np.array(sgd.hyper(sgd.param_groups[0], 1), np.float32),
    }
    pieces = list(dict.fromkeys(name.partition(":from:")[0] for name in given if ":from:" in name))
    assert len(pieces) > 3
    sums = {}
    for piece in pieces:
        one, two, three = (given[f"{piece}:from:{i}"] for i in range(3))
        sums[piece] = (one + two) + three
    with clcnn.State({**arrays, "progress": np.zeros(1, np.int64)}, device=device) as state:
        plan = clcnn.compile(graph, device=device, state=state)
        plan.step(*(given[name] for name in plan.inputs))
        np.testing.assert_array_equal(state["statistics"], sums.pop("statistics"))
        np.testing.assert_array_equal(-state["params_0"], np.concatenate(list(sums.values())))
        plan.close()


def test_buckets_become_small_before_backward_ends():
    def sizes(*parameters):
        slots, offset = [], 0
        for size in parameters:
            slots.append(Slot("", nn.Parameter(np.zeros(size, np.float32)), "params_0", offset))
            offset = slots[-1].end
        return [sum(slot.parameter.size for slot in found) for found in shared.buckets(slots)]

    mib = (1 << 20) // 4
    assert sizes(40 * mib, 1) == [40 * mib, 1]
    assert sizes(*[mib] * 100) == [n * mib for n in (32, 32, 18, 9, 4, 2, 1, 1, 1)]
    assert sizes(3, 4) == [7]


@needs_pair
def test_most_gradients_are_there_before_backward_ends():
    with trainer_of(BOTH, norm=True) as trainer:
        trainer.step(*batch())
        plan = next(iter(trainer._plans.values()))._gradients[0]
        loss, gradients, statistics = plan._core.ready
        assert 0 < loss < gradients <= len(plan.steps) and statistics > 0


@needs_pair
def test_a_part_without_a_label_is_left_out_again_and_again():
    """And taken again: what it has computed before, or would, counts for nothing."""
    loss = nn.CrossEntropyLoss(ignore_index=1)

    def train_on_some(devices):
        with trainer_of(devices, loss=loss) as trainer:
            for i, left_out in enumerate([None, 0, 0, 1, None, 1]):
                x, y = batch(4, i)
                y[:] = np.where(y == 1, 0, y)
                if left_out is not None:
                    y[2 * left_out : 2 * left_out + 2] = 1
                trainer.step(x, y)
            return bits(trainer)

    assert_close(train_on_some(BOTH), train_on_some(0))


@needs_pair
def test_steps_on_batches_of_several_shapes_share_what_they_exchange():
    with trainer_of(BOTH) as trainer:
        trainer.step(*batch(6))
        gc.collect()  # the tests before this one use the same devices, and may leave cycles
        before = trainer.devices[1].stats()["bytes_now"]
        trainer.step(*batch(4))
        steps = list(trainer._plans.values())
        assert steps[0]._exchange is steps[1]._exchange
        for step in steps[1:]:
            step.close()
        assert trainer.devices[1].stats()["bytes_now"] == before


@needs_pair
def test_the_command_takes_several_devices(capsys):
    pytest.importorskip("sklearn")
    assert cli.main(["train", "digits", "--epochs", "1", "--device", "0,1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    name = clcnn.devices()[0].name
    assert lines[0].startswith(f"device {name}, {name}: 1438 samples") and "accuracy" in lines[-1]
