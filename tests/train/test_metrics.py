"""Metrics: what they count, alone and in an evaluation."""

import numpy as np
import pytest

from clcnn import nn, optim, train
from clcnn.errors import ArgumentError

SCORES = np.array([[3, 2, 1], [1, 3, 2], [0, 1, 2], [5, 4, 3]], np.float32)
LABELS = np.array([0, 2, 2, 2])


def of(metric, *batches):
    metric.reset()
    for batch in batches:
        metric.add(*batch)
    return metric.value()


def test_accuracy_counts_over_batches():
    assert of(train.Accuracy(), (SCORES, LABELS)) == 0.5
    assert of(train.Accuracy(2), (SCORES[:1], LABELS[:1]), (SCORES[1:], LABELS[1:])) == 0.75
    assert of(train.Accuracy(3), (SCORES, LABELS)) == 1
    assert [train.Accuracy(k).name for k in (1, 5)] == ["accuracy", "top5"]
    assert np.isnan(of(train.Accuracy()))


def test_of_equal_results_the_first_class_is_best():
    assert of(train.Accuracy(), (np.zeros((3, 3)), np.arange(3))) == pytest.approx(1 / 3)


def test_confusion_has_a_row_for_each_label():
    matrix = of(train.ConfusionMatrix(), (SCORES, LABELS), (SCORES[:1], LABELS[:1]))
    np.testing.assert_array_equal(matrix, [[2, 0, 0], [0, 0, 0], [1, 1, 1]])


def test_metrics_in_an_evaluation(device):
    net = nn.Identity()
    net.bias = nn.Parameter((1, 3), nn.init.zeros)
    net.forward = lambda x: x + net.constant(x.graph, "bias")
    metrics = [train.Accuracy(), train.Accuracy(2), train.ConfusionMatrix()]
    sgd = optim.SGD(net.parameters())
    with train.Trainer(net, nn.CrossEntropyLoss(), sgd, device=device) as trainer:
        found = trainer.evaluate(train.Arrays(SCORES, LABELS), 3, metrics)
        again = trainer.evaluate(train.Arrays(SCORES, LABELS), 4, metrics)
    assert (found["accuracy"], found["top2"]) == (0.5, 0.75)
    np.testing.assert_array_equal(found["confusion"], [[1, 0, 0], [0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(again["confusion"], found["confusion"])
    assert found["loss"] == pytest.approx(again["loss"], rel=1e-6)


def test_metrics_of_numbers_get_results_as_they_are(device):
    class Largest:
        name = "largest"

        def reset(self):
            self.found = 0.0

        def add(self, result, target):
            assert result.shape == target.shape
            self.found = max(self.found, float(np.abs(result - target).max()))

        def value(self):
            return self.found

    net = nn.Linear(3, 2)
    x, y = SCORES, np.zeros((4, 2), np.float32)
    with train.Trainer(net, nn.MSELoss(), optim.SGD(net.parameters()), device=device) as trainer:
        found = trainer.evaluate([(x, y)], metrics=[Largest()])
        assert found["largest"] == pytest.approx(np.abs(trainer.predict(x)).max())


def test_bad_metrics_are_refused():
    with pytest.raises(ArgumentError, match="top"):
        train.Accuracy(0)
