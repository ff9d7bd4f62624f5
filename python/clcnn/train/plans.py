"""The plans of a trainer: one for each kind of work and shape of a batch, compiled when it first comes."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike, NDArray

import clcnn
from clcnn import _arguments
from clcnn.errors import StateError
from clcnn.train import batches
from clcnn.train.home import Home
from clcnn.train.shared import SharedEvaluation, SharedStep
from clcnn.train.step import GradientRules, Recipe, evaluation_graph, training_graph
from clcnn.train.team import Mirrors

if TYPE_CHECKING:
    from clcnn._core import Device
    from clcnn.graph import Graph
    from clcnn.nn import Module
    from clcnn.optim import Optimizer
    from clcnn.plan import Plan
    from clcnn.state import State
    from clcnn.train.ranks import Ranks


class Plans:
    """The part of clcnn.train.Trainer that compiles."""

    if TYPE_CHECKING:
        net: Module
        loss: Module
        optimizer: Optimizer
        rules: GradientRules
        devices: list[Device]
        ranks: Ranks | None
        precision: _arguments.Precision
        memory_limit: int
        _home: Home | None
        _plans: dict[Any, Any]

    @property
    def _bound(self) -> Home:
        assert self._home is not None
        return self._home

    def _begin(self, input_shape: tuple[int, ...]) -> None:
        """Moves parameters to the device, once."""
        if self._home is None:
            self._home = Home(self.net, self.optimizer, self.rules, self.devices, input_shape, self.ranks)
            for name in self._home.layout.unused:
                warnings.warn(f"the net's result does not depend on parameter {name!r}", stacklevel=4)

    def _plan(self, kind: str, inputs: list[NDArray[Any]]) -> Any:
        shapes = tuple(x.shape for x in inputs)
        key = (kind, shapes)
        self._begin(shapes[0])
        if any(p.requires_grad for p in self._bound.layout.frozen):
            raise StateError("a parameter was unfrozen after the first batch: close() this trainer first")
        if key not in self._plans:
            self._plans[key] = self._make(kind, shapes)
        return self._plans[key]

    def _make(self, kind: str, shapes: tuple[tuple[int, ...], ...]) -> Any:
        layout, state = self._bound.layout, self._bound.state
        recipe = Recipe(self.net, self.loss, self.optimizer, layout, self.rules)
        train = kind in ("step", "gather")
        if isinstance(state, Mirrors):
            if train:
                return SharedStep(recipe, state, shapes, kind == "step", self._compile, self.ranks)
            return SharedEvaluation(recipe, state, shapes, kind == "evaluate", self._compile)
        if train:
            graph = training_graph(recipe, shapes, kind == "step")
        else:
            graph = evaluation_graph(self.net, self.loss if kind == "evaluate" else None, layout, shapes)
        return self._compile(graph, self.devices[0], state)

    def _compile(self, graph: Graph, device: Device, state: State) -> Plan:
        limit = self.memory_limit
        return clcnn.compile(graph, device=device, precision=self.precision, memory_limit=limit, state=state)

    def _classes(self, shape: tuple[int, ...]) -> int:
        """Of the net's result: dimension 1."""
        if not hasattr(self, "_class_count"):
            graph = clcnn.graph.trace(self.net, (1, *shape[1:]))
            self._class_count = next(iter(graph.outputs.values())).shape[1]
        return self._class_count

    @property
    def _target_dtype(self) -> str:
        return str(getattr(self.loss, "target_dtype", "float32"))

    @property
    def _ignored(self) -> int | None:
        """The label that counts for nothing."""
        return getattr(self.loss, "ignore_index", None)

    def _batch(self, x: ArrayLike | clcnn.Tensor, y: ArrayLike) -> list[NDArray[Any]]:
        images = batches.images(x)
        target = batches.target(y, images.shape[0], self._target_dtype)
        if self._target_dtype == "int64":
            batches.check_labels(target, self._classes(images.shape), self._ignored)
        return [images, target]
