"""Initial values: torch.nn.init's distributions, by their moments and limits."""

from __future__ import annotations

import math

import numpy as np
import pytest

import clcnn
from clcnn import nn
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn import init

SHAPE = (64, 32, 3, 3)  # fan_in 288, fan_out 576


def fresh() -> nn.Parameter:
    init.manual_seed(3)
    return nn.Parameter(SHAPE, init.zeros)


# What fills a parameter, its standard deviation, the largest absolute value (None: none).
FILLS = [
    (lambda p: init.uniform_(p, -0.5, 0.5), 1 / math.sqrt(12), 0.5),
    (lambda p: init.normal_(p, 0.0, 0.2), 0.2, None),
    (lambda p: init.xavier_uniform_(p, 2.0), 2 * math.sqrt(2 / 864), 2 * math.sqrt(6 / 864)),
    (init.xavier_normal_, math.sqrt(2 / 864), None),
    (init.kaiming_uniform_, math.sqrt(2 / 288), math.sqrt(6 / 288)),
    (lambda p: init.kaiming_uniform_(p, a=math.sqrt(5)), 1 / math.sqrt(3 * 288), 1 / math.sqrt(288)),
    (lambda p: init.kaiming_normal_(p, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 576), None),
    (lambda p: init.trunc_normal_(p, std=0.02), 0.02, 2.0),
    (lambda p: init.trunc_normal_(p, std=1.0), 0.8796, 2.0),
    (lambda p: init.orthogonal_(p, 3.0), 3 / math.sqrt(288), None),
]


@pytest.mark.parametrize("number", range(len(FILLS)))
def test_distributions(number):
    fill, deviation, most = FILLS[number]
    parameter = fresh()
    assert fill(parameter) is parameter
    values = parameter.data.astype(np.float64)
    assert abs(values.mean()) < 4 * deviation / math.sqrt(values.size)
    assert values.std() == pytest.approx(deviation, rel=0.02)
    if most is not None:
        assert np.abs(values).max() <= most * (1 + 1e-6)


def test_constants():
    parameter = fresh()
    for fill, value in ((init.ones_, 1), (init.zeros_, 0), (lambda p: init.constant_(p, 0.25), 0.25)):
        assert (fill(parameter).data == value).all()


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (6, 2, 3, 3)])
def test_orthogonal_rows_or_columns(shape):
    matrix = init.orthogonal_(nn.Parameter(shape, init.zeros)).data.reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)


def test_the_seed_decides():
    one, same, other = fresh(), fresh(), fresh()
    init.normal_(one)
    init.manual_seed(3)
    nn.Parameter(SHAPE, init.zeros)
    init.normal_(same)
    init.normal_(other)
    assert np.array_equal(one.data, same.data) and not np.array_equal(one.data, other.data)


def test_gains_are_pytorchs():
    known = {"relu": math.sqrt(2), "tanh": 5 / 3, "selu": 0.75, "sigmoid": 1, "conv2d": 1, "linear": 1}
    assert {name: init.calculate_gain(name) for name in known} == known
    assert init.calculate_gain("leaky_relu", 0.5) == pytest.approx(math.sqrt(1.6))
    with pytest.raises(ArgumentError, match="'swish' is none of"):
        init.calculate_gain("swish")


def test_functions_are_applied_from_the_inside():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4)))
    seen = []
    assert net.apply(lambda module: seen.append(type(module).__name__)) is net
    assert seen == ["Linear", "Linear", "Sequential", "Sequential"]
    net.apply(lambda module: init.zeros_(module.weight) if isinstance(module, nn.Linear) else None)
    assert not net[0].weight.data.any() and net[0].bias.data.any()


def test_bad_arguments_are_refused():
    with pytest.raises(ShapeError, match=r"2 dimensions or more, got \[3\]"):
        init.xavier_normal_(nn.Parameter((3,), init.zeros))
    with pytest.raises(ArgumentError, match="mode 'fan'"):
        init.kaiming_normal_(fresh(), mode="fan")
    with pytest.raises(ArgumentError, match="too little between 5 and 6"):
        init.trunc_normal_(fresh(), a=5, b=6)


class Wide(nn.Module):
    """Enough elements for its parameters to be drawn by threads."""

    def __init__(self, initializer: nn.init.Initializer) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(nn.Conv2d(n, 64, 3) for n in (3, 64, 64)))
        self.table = nn.Parameter((1024, 1024), initializer)

    def forward(self, x):
        return self.layers(x).mean((2, 3)) * self.table[0, :64]


def test_values_are_the_same_whoever_draws_them():
    """All at once for a graph, or one by one, in any order."""
    traced, read = [], []
    for values in (traced, read):
        nn.init.manual_seed(5)
        net = Wide(nn.init.he_normal(9))
        if values is traced:
            clcnn.graph.trace(net, (1, 3, 9, 9))
        values += [p.data for p in reversed(list(net.parameters()))]
    assert all(np.array_equal(a, b) for a, b in zip(traced, read, strict=True))


def test_what_an_initialiser_raises_comes_with_its_layer():
    def broken(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        raise RuntimeError("no such numbers")

    with pytest.raises(RuntimeError, match="no such numbers"):
        clcnn.graph.trace(Wide(broken), (1, 3, 9, 9))
