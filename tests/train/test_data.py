"""Data sets, augmentation and the digits."""

import numpy as np
import pytest

from clcnn import train
from clcnn.errors import ArgumentError, ShapeError
from clcnn.train.augment import affine


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def numbers(count=10):
    return train.Arrays(np.arange(count, dtype=np.float32)[:, None], np.arange(count), seed=3)


def test_batches_hold_every_sample_once():
    seen = np.concatenate([y for _, y in numbers().batches(4)])
    assert sorted(seen) == list(range(10)) and list(seen) != list(range(10))
    assert [len(x) for x, _ in numbers().batches(4)] == [4, 4, 2]
    assert [len(x) for x, _ in numbers().batches(4, drop_last=True)] == [4, 4]


def test_x_and_y_stay_together():
    assert all((x[:, 0] == y).all() for x, y in numbers().batches(3))


def test_the_order_is_that_of_seed_and_epoch():
    one, other = numbers(), numbers()
    first = [y.tolist() for _, y in one.batches(4)]
    second = [y.tolist() for _, y in one.batches(4)]
    assert first != second
    other.epoch = 1
    assert [y.tolist() for _, y in other.batches(4)] == second
    assert [y.tolist() for _, y in one.batches(5, shuffle=False)] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert one.epoch == 2  # what is not shuffled does not count


def test_two_walks_at_once_do_not_disturb_each_other():
    alone = [y.tolist() for _, y in numbers().batches(4)]
    data = numbers()
    walk = data.batches(4)
    found = [next(walk)[1].tolist()]
    list(data.batches(2))
    assert found + [y.tolist() for _, y in walk] == alone


def test_bad_data_is_refused():
    with pytest.raises(ArgumentError, match="no samples"):
        train.Arrays(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(ShapeError, match=r"x \[4, 3\] and y \[5\]"):
        train.Arrays(np.zeros((4, 3)), np.zeros(5))
    with pytest.raises(ArgumentError, match="size"):
        numbers().batches(0)


def identity(count):
    return np.broadcast_to(np.eye(2, 3), (count, 2, 3))


def test_affine_leaves_images_as_they_are(rng):
    x = rng.random((2, 3, 5, 6), np.float32)
    np.testing.assert_array_equal(affine(x, identity(2), (5, 6)), x)


def test_affine_moves_and_fills_with_zeros(rng):
    x = rng.random((1, 2, 5, 6), np.float32)
    moved = affine(x, identity(1) + [[0, 0, 1], [0, 0, -2]], (5, 6))  # from one row below, two columns left
    np.testing.assert_array_equal(moved[0, :, :4, 2:], x[0, :, 1:, :4])
    assert not moved[0, :, 4].any() and not moved[0, :, :, :2].any()
    half = affine(x, identity(1) + [[0, 0, 0.5], [0, 0, 0]], (5, 6))
    np.testing.assert_allclose(half[0, :, :4], (x[0, :, :4] + x[0, :, 1:]) / 2, rtol=1e-6)


def test_affine_turns(rng):
    x = rng.random((1, 1, 5, 5), np.float32)
    quarter = np.array([[[0.0, 1, 0], [-1, 0, 0]]])
    np.testing.assert_allclose(affine(x, quarter, (5, 5))[0, 0], np.rot90(x[0, 0]), atol=1e-6)


def test_augmentation_stays_within_its_limits():
    x = np.zeros((200, 1, 28, 28), np.float32)
    x[:, :, 13:15, 13:15] = 1  # in the middle: turning and scaling leave it there
    moved = train.RandomAffine(shift=2, degrees=10, scale=0.1)(x, np.random.default_rng(0))
    weight = moved.sum((1, 2, 3))
    rows = (moved.sum((1, 3)) * np.arange(28)).sum(1) / weight - 13.5
    assert 1.7 < np.abs(rows).max() <= 2.05 and weight.min() > 3 and weight.max() < 5.2
    assert not np.array_equal(moved[0], moved[1])


def test_digits_are_split_by_class():
    pytest.importorskip("sklearn")
    data = train.digits()
    assert len(data.train) == 1438 and len(data.test) == 359
    assert data.train.x.shape[1:] == (1, 28, 28) and data.train.x.min() >= 0 and data.train.x.max() <= 1
    counts = np.bincount(data.test.y)
    assert len(counts) == 10 and counts.min() >= 35 and counts.max() <= 37
    other = train.digits(seed=1)
    assert not np.array_equal(other.test.x, data.test.x)
    np.testing.assert_array_equal(train.digits().test.x, data.test.x)
