"""Optimizer: groups of parameters, each with its own learning rate and other settings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from clcnn.errors import ArgumentError
from clcnn.nn.parameter import Parameter

if TYPE_CHECKING:
    from clcnn.graph import Value


class Optimizer:
    """Base of all optimisers: what torch.optim.Optimizer keeps, and the node that updates a group.

    A subclass has moments() and update().

    Parameters
    ----------
    params : iterable of Parameter, or of dict
        Parameters, such as net.parameters(), or a dict for each group, {"params": parameters, "lr": 1e-4}.
        What a group leaves out is what the optimiser was given.
    **defaults
        The settings of groups.

    Attributes
    ----------
    param_groups : list of dict
        "params" and the settings of each group; "lr" may be changed between steps, as schedules do.
    defaults : dict
        What the optimiser was given.

    Raises
    ------
    ArgumentError
        No parameters, one that is given twice, something that is no Parameter, a setting that is unknown or
        outside its range.

    Examples
    --------
    >>> from clcnn import nn, optim
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> groups = [{"params": net[0].parameters(), "lr": 1e-3}, {"params": net[2].parameters()}]
    >>> [group["lr"] for group in optim.SGD(groups, lr=0.1).param_groups]
    [0.001, 0.1]
    """

    def __init__(self, params: Iterable[Parameter] | Iterable[Mapping[str, Any]], **defaults: Any) -> None:
        name = type(self).__name__
        given: list[Any] = list(params)
        if not given:
            raise ArgumentError(f"{name}: there are no parameters")
        groups = given if isinstance(given[0], Mapping) else [{"params": given}]
        self.defaults = defaults
        self.varied = {"lr", "initial_lr"}  # settings of a group that schedules change, and their beginnings
        self.param_groups: list[dict[str, Any]] = []
        seen: set[int] = set()
        for group in groups:
            if not isinstance(group, Mapping) or "params" not in group:
                raise ArgumentError(
                    f"{name}: a group must be a dict with 'params', got {type(group).__name__}"
                )
            unknown = sorted(set(group) - {"params", *defaults})
            if unknown:
                raise ArgumentError(f"{name}: unknown settings {unknown}; there are {sorted(defaults)}")
            settings = {**defaults, **group, "params": list(group["params"])}
            _check_parameters(name, settings["params"], seen)
            self._check(settings)
            self.param_groups.append(settings)

    def _check(self, group: Mapping[str, Any]) -> None:
        """Raises ArgumentError where a setting is outside its range."""
        for key in ("lr", "weight_decay", "eps"):
            self._require(key, group.get(key, 0.0), lambda x: x >= 0, "0 or more")

    def moments(self, group: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of the flat arrays that it keeps beside the parameters of a group.

        Parameters
        ----------
        group : dict
            A row of param_groups.

        Returns
        -------
        tuple of str
        """
        raise NotImplementedError

    def _require(self, key: str, value: Any, rule: Any, text: str) -> None:
        good = isinstance(value, (int, float)) and math.isfinite(value) and rule(value)
        if not good:
            raise ArgumentError(f"{type(self).__name__}: {key} must be {text}, got {value!r}")

    def update(
        self, group: Mapping[str, Any], p: Value, g: Value, moments: list[Value], hyper: Value
    ) -> tuple[Value, ...]:
        """Adds the node of a group's step to the graph.

        Parameters
        ----------
        group : dict
            A row of param_groups.
        p, g : Value
            All parameters of the group and their gradients, flat, of float32.
        moments : list of Value
            Flat arrays as long as p, one for each name of moments().
        hyper : Value
            What hyper() gives.

        Returns
        -------
        tuple of Value
            The new parameters, then the new moments.
        """
        raise NotImplementedError

    def hyper(self, group: Mapping[str, Any], step: int) -> tuple[float, ...]:
        """What differs from step to step.

        Parameters
        ----------
        group : dict
            A row of param_groups.
        step : int
            The number of the step, from 1 on.

        Returns
        -------
        tuple of float
            The learning rate, the number of the step, the momentum, and what else a rule needs.
        """
        return float(group["lr"]), float(step), self.momentum(group)

    def momentum(self, group: Mapping[str, Any]) -> float:
        """Momentum of a group, as schedules read it.

        Parameters
        ----------
        group : dict
            A row of param_groups.

        Returns
        -------
        float
            Its "momentum", or the first of its "betas".
        """
        return float(group["momentum"] if "momentum" in group else group["betas"][0])

    def set_momentum(self, group: dict[str, Any], value: float) -> None:
        """Changes a group's momentum, as schedules do.

        Parameters
        ----------
        group : dict
            A row of param_groups.
        value : float
        """
        if "momentum" in group:
            group["momentum"] = value
        else:
            group["betas"] = (value, *group["betas"][1:])

    def describe(self) -> dict[str, Any]:
        """What a checkpoint must agree with.

        Returns
        -------
        dict
            "rule", the name, and "groups", the settings other than those that schedules change.
        """
        left_out = {"params", *self.varied}
        fixed = [{k: v for k, v in group.items() if k not in left_out} for group in self.param_groups]
        return {"rule": type(self).__name__, "groups": fixed}

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={value!r}" for key, value in self.defaults.items())
        count = sum(len(group["params"]) for group in self.param_groups)
        return f"{type(self).__name__}({count} parameters, {shown})"


def _check_parameters(name: str, parameters: list[Any], seen: set[int]) -> None:
    if not parameters:
        raise ArgumentError(f"{name}: a group has no parameters")
    for parameter in parameters:
        if not isinstance(parameter, Parameter):
            raise ArgumentError(f"{name}: expected parameters, got {type(parameter).__name__}")
        if id(parameter) in seen:
            raise ArgumentError(f"{name}: {parameter!r} is given twice")
        seen.add(id(parameter))
