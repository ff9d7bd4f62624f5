"""Module: state, names, containers, and a model written as a class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import clcnn
from clcnn import nn, ops
from clcnn._reference import REFERENCE as R
from clcnn.graph import trace
from tolerance import compare

BATCH_NORM = ("weight", "bias", "running_mean", "running_var")


class Block(nn.Module):
    """A branch, a shared activation, and a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Conv2d(3, 3, 1)
        self.right = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.BatchNorm2d(3))
        self.act = nn.ReLU()
        self.scale = nn.Parameter((3, 1, 1), nn.init.constant(2.0))

    def forward(self, x: Any) -> Any:
        scale = self.constant(x.graph, "scale")
        return self.act(ops.add(self.act(self.left(x)), self.right(x))) * scale


BLOCK_STATE = ["scale", "left.weight", "left.bias", "right.0.weight", "right.1.weight", "right.1.bias",
               "right.1.running_mean", "right.1.running_var"]  # fmt: skip


def test_state_and_walks() -> None:
    block = Block()
    assert list(block.state_dict()) == BLOCK_STATE
    assert [name for name, _ in block.named_parameters()] == BLOCK_STATE[:-2]
    assert [name for name, _ in block.named_modules()] == ["", "left", "right", "right.0", "right.1", "act"]
    assert [name for name, _ in block.named_children()] == ["left", "right", "act"]
    assert block.right[0].bias is None
    assert block.training and not block.eval().right[1].training and block.train().right[1].training


def test_replacing_a_child_replaces_its_state() -> None:
    block = Block()
    block.right = nn.Identity()
    assert list(block.state_dict()) == BLOCK_STATE[:3]
    block.left = None
    assert list(block.state_dict()) == ["scale"]


def test_layers_are_named_by_their_paths_and_a_shared_one_is_numbered(device: clcnn.Device) -> None:
    graph = trace(Block(), (2, 3, 5, 5))
    names = [row.name for row in graph.rows()]
    assert names[:2] == ["left", "act"]
    assert {"right.0", "right.1", "act_2"} <= set(names)
    with clcnn.compile(Block(), (2, 3, 5, 5), device, outputs=["right.1"]) as plan:
        assert set(plan.run(np.zeros((2, 3, 5, 5), np.float32))) == {"output", "right.1"}


def test_a_model_of_branches_computes_what_its_layers_say(device: clcnn.Device) -> None:
    block, x = Block(), np.random.default_rng(1).standard_normal((2, 3, 5, 5)).astype(np.float32)
    s = block.state_dict()
    left = np.maximum(R["conv"](x, s["left.weight"], s["left.bias"]), 0)
    right = R["batch_norm"](
        R["conv"](x, s["right.0.weight"], padding=[1, 1]), *(s[f"right.1.{name}"] for name in BATCH_NORM)
    )
    with clcnn.compile(block, x.shape, device) as plan:
        compare(plan(x), 2 * np.maximum(left + right, 0), "conv")


def test_a_refused_state_changes_nothing() -> None:
    block = Block()
    state = {name: array + 1 for name, array in block.state_dict().items()}
    before = block.left.weight.data
    with pytest.raises(clcnn.weights.WeightsError, match="1 missing .left.bias."):
        block.load_state_dict({name: array for name, array in state.items() if name != "left.bias"})
    assert block.left.weight.data is before
    block.load_state_dict({name: array for name, array in state.items() if name != "left.bias"}, strict=False)
    assert np.array_equal(block.left.weight.data, state["left.weight"])
    block.load_state_dict({**state, "right.1.num_batches_tracked": np.zeros((), np.int64)})
    assert np.array_equal(block.left.bias.data, state["left.bias"])


def test_parameters_keep_their_shape_and_type() -> None:
    parameter = nn.Linear(3, 2).weight
    with pytest.raises(clcnn.ShapeError, match=r"shape \[2, 3\], the new value \[3, 2\]"):
        parameter.data = np.zeros((3, 2), np.float32)
    parameter.data = np.arange(6.0).reshape(2, 3)
    assert parameter.data.dtype == np.float32 and parameter.size == 6
    assert np.asarray(parameter, np.float64).dtype == np.float64
    assert "Parameter(shape=[2, 3])" in repr(parameter)


def test_containers() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).append(nn.Linear(3, 2))
    assert len(net) == 3 and [type(m).__name__ for m in net] == ["Linear", "ReLU", "Linear"]
    assert list(net[1:].state_dict()) == ["2.weight", "2.bias"]
    assert net[2].out_features == 2
    modules = nn.ModuleList([nn.ReLU()])
    assert len(modules.append(nn.Tanh())) == 2 and isinstance(modules[1], nn.Tanh)
    with pytest.raises(TypeError, match="ModuleList defines no forward"):
        trace(modules, (1, 2))


def test_using_a_module_before_its_init_says_so() -> None:
    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.layer = nn.ReLU()

    with pytest.raises(
        AttributeError, match=r"Forgetful: call super\(\).__init__\(\) before setting 'layer'"
    ):
        Forgetful()


def test_reprs_and_summary_show_the_layers() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.PReLU(8), nn.Flatten(), nn.Linear(128, 10)
    )
    text = repr(net)
    assert "(0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=False)" in text
    assert "(3): Linear(in_features=128, out_features=10, bias=True)" in text
    summary = net.summary((1, 3, 4, 4))
    assert "1x8x4x4" in summary and "4 layers, 1,514 parameters" in summary


def test_initial_weights_have_pytorchs_range() -> None:
    nn.init.manual_seed(1)
    weight = nn.Conv2d(16, 64, 3).weight.data
    bound = 1 / np.sqrt(16 * 9)
    assert np.abs(weight).max() <= bound and np.abs(weight).max() > 0.99 * bound
    assert abs(weight.mean()) < 0.02 * bound and np.isclose(weight.std(), bound / np.sqrt(3), rtol=0.02)


# ---- containers, and parameters as people write them ----


class Branches(nn.Module):
    """What PyTorch's programs do with containers and parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleDict({"a": nn.Conv2d(3, 4, 1), "b": nn.Conv2d(3, 4, 3, padding=1)})
        self.blocks = nn.ModuleList(nn.Conv2d(4, 4, 1) for _ in range(2))
        self.blocks.append(nn.ReLU())
        self.scale = nn.Parameter(np.linspace(0.5, 2, 4, dtype=np.float32).reshape(4, 1, 1))
        self.shift = nn.Parameter((4, 1, 1))
        self.register_buffer("mean", np.array([0.5], np.float32))

    def forward(self, x: Any, skip: Any = None, gain: float = 1.0) -> Any:
        outs = [branch(x - self.mean) for branch in self.branches.values()]
        y = self.scale * sum(outs) + self.shift
        for block in self.blocks:
            y = block(y)
        return y * gain if skip is None else y * gain + skip


def test_containers_and_parameters_as_in_torch(device: clcnn.Device) -> None:
    net = Branches()
    assert list(net.state_dict()) == [
        "scale", "shift", "mean", "branches.a.weight", "branches.a.bias", "branches.b.weight",
        "branches.b.bias", "blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias",
    ]  # fmt: skip
    graph = trace(net, (2, 3, 5, 5))
    assert {"scale", "shift", "mean", "blocks.0.weight"} <= set(graph.constants)
    assert {"branches.a", "blocks.1", "blocks.2"} <= {row.name for row in graph.rows()}
    state = net.state_dict()
    x = np.random.default_rng(1).standard_normal((2, 3, 5, 5)).astype(np.float32)
    a, b = (
        R["conv"](
            x.astype(np.float64) - 0.5,
            state[f"branches.{n}.weight"],
            state[f"branches.{n}.bias"],
            padding=[p, p],
        )
        for n, p in (("a", 0), ("b", 1))
    )  # fmt: skip
    wanted = (a + b) * state["scale"] + state["shift"]
    for i in range(2):
        wanted = R["conv"](wanted, state[f"blocks.{i}.weight"], state[f"blocks.{i}.bias"])
    with clcnn.compile(net, x.shape, device) as plan:
        compare(plan(x), np.maximum(wanted, 0), "conv", trust=False)


def test_forward_takes_more_than_values(device: clcnn.Device) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Branches()

        def forward(self, x: Any) -> Any:
            return self.part(x, skip=self.part(x), gain=0.0)

    x = np.ones((1, 3, 4, 4), np.float32)
    net = Twice()
    with clcnn.compile(net, x.shape, device) as plan, clcnn.compile(net.part, x.shape, device) as once:
        np.testing.assert_allclose(plan(x), once(x), atol=1e-6)
    with pytest.raises(TypeError, match="called on ndarray"):
        net.part(clcnn.Graph().input("x", x.shape), skip=x)


def test_lists_and_dictionaries_of_modules() -> None:
    row = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    row.extend([nn.SiLU()]).insert(1, nn.ELU())
    assert [type(m).__name__ for m in row] == ["ReLU", "ELU", "Tanh", "SiLU"]
    assert isinstance(row[-1], nn.SiLU) and [type(m).__name__ for m in row[1:3]] == ["ELU", "Tanh"]
    row[0] = nn.GELU()
    assert list(dict(row.named_children())) == ["0", "1", "2", "3"] and isinstance(row[0], nn.GELU)
    chain = nn.Sequential(nn.ReLU(), nn.Tanh())
    chain.insert(0, nn.ELU())
    chain[2] = nn.SiLU()
    assert [type(m).__name__ for m in chain] == ["ELU", "ReLU", "SiLU"] and len(chain[:2]) == 2
    named = nn.ModuleDict([("a", nn.ReLU())])
    named.update({"b": nn.Tanh()})
    assert "a" in named and list(named) == ["a", "b"] and len(named) == 2
    assert isinstance(named.pop("a"), nn.ReLU) and list(named.keys()) == ["b"]
    del named["b"]
    named["c"] = nn.ELU()
    assert isinstance(named["c"], nn.ELU) and [n for n, _ in named.items()] == ["c"]
    named.clear()
    assert not list(named.values())


def test_modules_show_themselves_in_notebooks() -> None:
    text = Branches()._repr_html_()
    assert "branches.b" in text and "Conv2d" in text and "176 parameters" in text
    assert "ReLU" in nn.ReLU()._repr_html_()


def test_parameters_stand_for_their_values_in_forward_alone(device: clcnn.Device) -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(np.arange(6, dtype=np.float32).reshape(1, 2, 3))
            self.gain = nn.Parameter(np.full(1, 2, np.float32))

        def forward(self, x: Any) -> Any:
            both = (self.gain * self.token)[:, :1].expand(x.size(0), -1, -1) - (1 - self.gain)
            return ops.concat(x, both * -self.gain, dim=1)

    net = Tokens()
    with clcnn.compile(net, (2, 1, 3), device) as plan:
        y = plan(np.zeros((2, 1, 3), np.float32))
    np.testing.assert_array_equal(y[:, 1], np.tile(-2 * (2 * np.arange(3) + 1), (2, 1)))
    for use in (
        lambda: net.token[0],
        lambda: net.token.expand(2, -1, -1),
        lambda: -net.gain,
        lambda: net.gain + 1,
    ):
        with pytest.raises(clcnn.StateError, match="only while its module is compiled"):
            use()
    with pytest.raises(AttributeError, match="'Parameter' has no attribute 'nothing'"):
        _ = net.token.nothing
