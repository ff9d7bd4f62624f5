"""Every algorithm of a layer of products keeps its bound (contract.py) on numbers of any distribution, and
powers of two of an image or a filter come out of it to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import contract
from clcnn import _core
from clcnn._reference import REFERENCE
from helpers import need_blocks
from runner import LOOSE

Array = np.ndarray
HALF_MAX = 65504.0


class Form(NamedTuple):
    """An operator with shapes: of x, and of its weights, the last of which has the filters."""

    op: str
    shapes: tuple[tuple[int, ...], ...]
    attrs: dict[str, Any]


# A few shapes for each operator; every algorithm runs those that it can.
FORMS = {
    "1x1": Form("conv", ((3, 192, 7, 9), (128, 192, 1, 1)), {}),
    "3x3": Form("conv", ((3, 64, 14, 13), (64, 64, 3, 3)), {"padding": (1,)}),
    "3x3 strided": Form("conv", ((3, 64, 14, 18), (64, 64, 3, 3)), {"padding": (1,), "stride": (2,)}),
    "4x4 strided": Form("conv", ((3, 64, 14, 18), (64, 64, 4, 4)), {"padding": (1,), "stride": (2,)}),
    "3x3 of groups": Form("conv", ((3, 32, 9, 11), (48, 16, 3, 3)), {"padding": (1,), "groups": 2}),
    "3x3 of few channels": Form("conv", ((3, 3, 14, 18), (32, 3, 3, 3)), {"padding": (1,)}),
    "4x4": Form("conv", ((3, 64, 9, 11), (64, 64, 4, 4)), {"padding": (1,)}),
    "5x5": Form("conv", ((3, 32, 9, 11), (32, 32, 5, 5)), {"padding": (2,)}),
    "depthwise": Form("conv", ((3, 48, 14, 18), (48, 1, 3, 3)), {"padding": (1,), "groups": 48}),
    "separable": Form("separable", ((3, 192, 7, 14), (192, 1, 3, 3), (128, 192, 1, 1)), {"padding": (1,)}),
    "inverted residual": Form(
        "inverted_residual",
        ((3, 24, 9, 15), (96, 24, 1, 1), (96, 1, 3, 3), (40, 96, 1, 1)),
        {"padding": (1,)},
    ),
    "linear": Form("linear", ((3, 1536), (80, 1536)), {}),
    "linear row": Form("linear", ((1, 1536), (80, 1536)), {}),
    "matmul": Form("matmul", ((3, 1536), (1536, 80)), {}),
}


# Where biases that there are not would be among the inputs.
MERGED = {"separable": (2,), "inverted_residual": (2, 4)}


def spread(
    form: Form,
    arrays: list[Array],
    images: Array | float = 1.0,
    channels: Array | float = 1.0,
    filters: Array | float = 1.0,
) -> list[Array]:
    """The numbers times a factor for each image (or row), channel (which weights undo) and filter."""
    x, *between, w = arrays
    tail = [1] * (x.ndim - 2)
    images = np.broadcast_to(images, x.shape[:1]).reshape(-1, 1, *tail)
    channels = np.broadcast_to(channels, x.shape[1:2])
    x = x * images * channels.reshape(1, -1, *tail)
    if form.op == "matmul":
        w = w / channels[:, None] * filters
    elif len(between) == 2:  # the first weights read the channels, and the last ones have the filters
        between[0] = between[0] / channels.reshape(1, -1, *tail)
        w = w * np.broadcast_to(filters, len(w)).reshape(-1, 1, *tail)
    else:
        groups = form.attrs.get("groups", 1)
        undone = np.repeat(channels.reshape(groups, -1), len(w) // groups, axis=0)
        w = w / undone.reshape(*undone.shape, *tail) * np.broadcast_to(filters, len(w)).reshape(-1, 1, *tail)
    return [np.ascontiguousarray(a, np.float32) for a in (x, *between, w)]


def normal(rng: np.random.Generator, form: Form) -> list[Array]:
    return [rng.standard_normal(shape, dtype=np.float32) for shape in form.shapes]


def heavy(sigma: float) -> Callable[[np.random.Generator, Form], list[Array]]:
    return lambda rng, form: [
        (rng.choice([-1.0, 1.0], shape) * np.exp(sigma * rng.standard_normal(shape))).astype(np.float32)
        for shape in form.shapes
    ]


def ranged(decades: int) -> Callable[[np.random.Generator, Form], list[Array]]:
    def make(rng: np.random.Generator, form: Form) -> list[Array]:
        x, w = form.shapes[0], form.shapes[-1]
        factors = 10.0 ** rng.uniform(-decades, decades, x[1])
        spreading = 10.0 ** rng.uniform(-decades, decades, w[1] if form.op == "matmul" else w[0])
        return spread(form, normal(rng, form), channels=factors, filters=spreading)

    return make


def sparse(rng: np.random.Generator, form: Form) -> list[Array]:
    return [np.where(rng.random(a.shape) < 0.8, 0.0, a).astype(np.float32) for a in normal(rng, form)]


def outliers(rng: np.random.Generator, form: Form) -> list[Array]:
    return [np.where(rng.random(a.shape) < 0.001, 1e4 * a, a).astype(np.float32) for a in normal(rng, form)]


def images(rng: np.random.Generator, form: Form) -> list[Array]:
    return spread(form, normal(rng, form), images=np.resize([1.0, 1e-8, 1e8], form.shapes[0][0]))


# The numbers of x and of the weights.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, Form], list[Array]]] = {
    "normal": normal,
    "log-normal, sigma 2": heavy(2.0),
    "log-normal, sigma 3": heavy(3.0),
    "channels and filters from 1e-3 to 1e3": ranged(3),
    "channels and filters from 1e-6 to 1e6": ranged(6),
    "zeros": sparse,
    "outliers": outliers,
    "mean 100": lambda rng, form: [a + np.float32(100.0) for a in normal(rng, form)],
    "1e-36": lambda rng, form: spread(form, normal(rng, form), images=1e-36),
    "1e17": lambda rng, form: spread(form, normal(rng, form), images=1e17, filters=1e17),
    "images from 1e-8 to 1e8": images,
}


class Layer:
    """One operator by one algorithm; weights are inputs, so that it is built once for all numbers."""

    def __init__(self, device: _core.Device, form: Form, algo: str) -> None:
        graph = _core.Graph()
        values = [graph.input(f"x{i}", shape) for i, shape in enumerate(form.shapes)]
        if form.op in MERGED:  # what the rewriter makes one of
            x, *weights, last = values
            for number, (w, shape) in enumerate(zip(weights, form.shapes[1:])):
                depthwise = form.attrs | {"groups": shape[0]} if shape[1] == 1 else {}
                x = graph.node("conv", f"y{number}" if number else "y", [x, w], depthwise)[0]
            out = graph.node("conv", "z", [x, last], {})[0]
        else:
            out = graph.node(form.op, "y", values, form.attrs)[0]
        graph.output(out, "out")
        self.plan = _core.Plan(device, graph, overrides={"y": algo}, precision=LOOSE.get(algo, "highest"))
        rows = self.plan.layers()
        self.form, self.algo = form, algo
        order = ["exact", "strict", "highest", "high", "medium"]
        self.error_class = max((row["error_class"] for row in rows), key=order.index)
        self.bound = max(row["error_bound"] for row in rows)  # in the alphabet "normwise" comes last
        self.roundings = {row["error_rounding"] for row in rows}

    def __call__(self, arrays: list[Array]) -> Array:
        return self.plan.run(arrays)[0]

    def exact(self, arrays: list[Array]) -> Array:
        wide = [a.astype(np.float64) for a in arrays]
        for place in MERGED.get(self.form.op, ()):
            wide.insert(place, None)
        return REFERENCE[self.form.op](*wide, **self.form.attrs)

    def fits(self, arrays: list[Array]) -> bool:
        """Whether halves, if the algorithm has them, can hold the numbers."""
        return self.error_class != "medium" or max(float(np.abs(a).max()) for a in arrays) < HALF_MAX

    def check(self, name: str) -> None:
        arrays = DISTRIBUTIONS[name](np.random.default_rng(11), self.form)
        if not self.fits(arrays):
            return
        p, terms = contract.products(self.form.op, arrays, self.form.attrs)
        limit = contract.allowed(p, terms, self.error_class, self.bound, self.roundings)
        contract.check(self(arrays), self.exact(arrays), limit, f"{self.form.op} by {self.algo}, {name}")


# What an ordinary run tries: algorithms that add operands up, round them or scale many together, on the shape
# that suits them, and a plain one of each operator. Building kernels is what takes the time.
QUICK = {
    "1x1": "amx fip strassen wgmma wgmma_halves wgmma_scaled",
    "3x3": "amx winograd winograd2 winograd_fused winograd_mma wgmma_window blocked implicit",
    "3x3 strided": "winograd_strided",
    "4x4 strided": "winograd_strided",
    "4x4": "winograd4",
    "5x5": "winograd5 fft",
    "separable": "amx fip strassen affine_mma",
    "linear": "amx fixed fip strassen gemv gemv_half half tf32 mma wgmma",
    "linear row": "fixed_skip skip",
    "matmul": "tiled mma",
}
PAIRS = [
    pytest.param(
        name, algo, id=f"{name}-{algo}", marks=[] if algo in QUICK.get(name, "").split() else pytest.mark.slow
    )
    for name, form in FORMS.items()
    for algo in _core.ops()[form.op]["algos"]
]


def layer_of(device: _core.Device, form: Form, algo: str) -> Layer:
    need_blocks(device, form.op, algo)
    try:
        return Layer(device, form, algo)
    except _core.UnsupportedError as why:
        pytest.skip(str(why).rpartition(": ")[2])


@pytest.mark.parametrize(("name", "algo"), PAIRS)
def test_numbers_of_any_distribution(device, name, algo):
    layer = layer_of(device, FORMS[name], algo)
    failures = []
    for numbers in DISTRIBUTIONS:
        try:
            layer.check(numbers)
        except AssertionError as why:
            failures.append(str(why))
    layer.plan.close()
    assert not failures, "\n".join(failures)


def test_only_weights_of_24_bits_may_be_rounded():
    """Four terms, one of them 2^14 times as small, which takes 4 bits for the exponent: 20 are left."""
    p = contract.Products(np.ones((1, 4, 1)), np.array([[[1.0], [2.0**-14], [1.0], [1.0]]]), {})
    exact = p(p.x, p.w)
    rounded = exact * (1.0 + 2.0**-20)
    contract.check(rounded, exact, contract.allowed(p, 4, "highest", "componentwise", {"24_bits"}), "fixed")
    with pytest.raises(AssertionError, match="too far off"):
        contract.check(rounded, exact, contract.allowed(p, 4, "highest", "componentwise"), "another one")


def scaled_exponents(rng: np.random.Generator, count: int, most: int) -> Array:
    return np.ldexp(1.0, rng.integers(-most, most + 1, count))


@pytest.mark.parametrize(("name", "algo"), PAIRS)
def test_powers_of_two_change_no_digit(device, name, algo):
    """Of each image (row of x) and each filter."""
    form = FORMS[name]
    layer, rng = layer_of(device, form, algo), np.random.default_rng(12)
    most = 3 if layer.error_class == "medium" else 30
    arrays = normal(rng, form)
    if layer.error_class == "medium":  # numbers that halves hold with all digits
        arrays = [np.copysign(np.clip(np.abs(a), 0.25, 4.0), a) for a in arrays]
    filters = form.shapes[-1][1 if form.op == "matmul" else 0]
    images, each = scaled_exponents(rng, form.shapes[0][0], most), scaled_exponents(rng, filters, most)
    wanted = layer(arrays)
    tail = [1] * (wanted.ndim - 2)
    wanted = (
        wanted
        * images.reshape(-1, 1, *tail).astype(np.float32)
        * each.reshape(1, -1, *tail).astype(np.float32)
    )
    got = layer(spread(form, arrays, images=images, filters=each))
    layer.plan.close()
    wrong = float(np.mean(got != wanted))
    assert wrong == 0.0, (
        f"{wrong:.1%} of the values differ, by {np.abs(got / wanted - 1.0).max():.3g} of each at most"
    )
