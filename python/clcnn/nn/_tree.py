"""What is below a module: walking over its parts, their weights, and settings of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from clcnn.nn.parameter import Parameter

if TYPE_CHECKING:
    from clcnn.nn.module import Module


class Tree:
    """The part of clcnn.nn.Module that is the same for a net and for a part of it."""

    if TYPE_CHECKING:
        _modules: dict[str, Module]
        _parameters: dict[str, Parameter]
        _buffers: dict[str, Parameter]

    @property
    def _itself(self) -> Module:
        return cast("Module", self)

    # ---- walking ----

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one.

        Yields
        ------
        (str, Module)
            Its name, and the module.
        """
        yield from self._modules.items()

    def children(self) -> Iterator[Module]:
        """The modules directly below this one.

        Yields
        ------
        Module
        """
        yield from self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once.

        Parameters
        ----------
        prefix : str
            What paths begin with. Default "".

        Yields
        ------
        (str, Module)
            The dotted path, "" for this one, and the module.

        Examples
        --------
        >>> from clcnn import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
        >>> [path for path, _ in net.named_modules()]
        ['', '0', '1']
        """
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self._itself
        for name, child in self._modules.items():
            yield from child._walk(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once.

        Yields
        ------
        Module
        """
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and all below it; no buffers.

        Yields
        ------
        (str, Parameter)
            The dotted name, and the parameter.

        Examples
        --------
        >>> from clcnn import nn
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        >>> [name for name, _ in net.named_parameters()]
        ['0.weight', '0.bias', '1.weight', '1.bias']
        """
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of this module and all below it, as optimisers take them; no buffers.

        Yields
        ------
        Parameter
        """
        for _, parameter in self.named_parameters():
            yield parameter

    def _named_state(self) -> Iterator[tuple[str, Parameter]]:
        for path, module in self.named_modules():
            for table in (module._parameters, module._buffers):
                for name, parameter in table.items():
                    yield (f"{path}.{name}" if path else name), parameter

    # ---- weights ----

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by dotted name.

        Returns
        -------
        {name: float32 array}
            The arrays themselves, not copies; those that a trainer changed are fetched from its device.

        Examples
        --------
        >>> from clcnn import nn
        >>> {name: array.shape for name, array in nn.Linear(2, 3).state_dict().items()}
        {'weight': (3, 2), 'bias': (3,)}
        """
        return {name: parameter.data for name, parameter in self._named_state()}

    def load_state_dict(self, state: Mapping[str, np.ndarray], strict: bool = True) -> None:
        """Takes over arrays by name.

        Parameters
        ----------
        state : {name: array}
            By the names of state_dict().
        strict : bool
            Refuse what is left over. Default True.

        Raises
        ------
        WeightsError
            Lists what is missing, left over or of another shape, before anything is changed.

        Examples
        --------
        >>> from clcnn import nn
        >>> net, other = nn.Linear(2, 3), nn.Linear(2, 3)
        >>> net.load_state_dict(other.state_dict())
        """
        from clcnn import weights

        mine = dict(self._named_state())
        weights.match(dict(state), {name: parameter.shape for name, parameter in mine.items()}, strict=strict)
        for name, parameter in mine.items():
            if name in state:
                parameter.data = state[name]

    def load(self, source: Any, strict: bool = True) -> Module:
        """Loads weights from a safetensors, npz or PyTorch .pth file.

        Parameters
        ----------
        source : path, or bytes
            See clcnn.weights.load().
        strict : bool
            As of load_state_dict(). Default True.

        Returns
        -------
        Module
            Itself.

        Raises
        ------
        WeightsError
            The file is damaged, or the weights do not fit.
        OSError

        Examples
        --------
        >>> import clcnn
        >>> net = clcnn.nn.Linear(2, 3)
        >>> clcnn.weights.save_safetensors("fc.safetensors", net.state_dict())
        >>> net.load("fc.safetensors")
        Linear(in_features=2, out_features=3, bias=True)
        """
        from clcnn import weights

        self.load_state_dict(weights.load(source), strict=strict)
        return self._itself

    def train(self, mode: bool = True) -> Module:
        """Sets `training` here and below, which decides what a trainer's step computes: plans of
        clcnn.compile() are for inference in either mode.

        Parameters
        ----------
        mode : bool
            Default True.

        Returns
        -------
        Module
            Itself.
        """
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self._itself

    def eval(self) -> Module:
        """train(False): running statistics stay as they are. Returns itself."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Sets `requires_grad` of all parameters here and below.

        Parameters
        ----------
        requires_grad : bool
            Default True.

        Returns
        -------
        Module
            Itself.

        Raises
        ------
        StateError
            A trainer has them.
        """
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self._itself

    def freeze(self) -> Module:
        """Keeps parameters and running statistics here and below as they are.

        A trainer's plans have them as constants, which are folded and packed once.

        Returns
        -------
        Module
            Itself.

        Raises
        ------
        StateError
            A trainer trains them already.

        Examples
        --------
        >>> from clcnn import nn
        >>> net = nn.Sequential(nn.Linear(2, 3).freeze(), nn.Linear(3, 1))
        >>> [parameter.requires_grad for parameter in net.parameters()]
        [False, False, True, True]
        """
        return self._freeze(True)

    def unfreeze(self) -> Module:
        """Undoes freeze(), for trainers that begin from here on. Returns itself."""
        return self._freeze(False)

    def _freeze(self, frozen: bool) -> Module:
        self.requires_grad_(not frozen)
        for module in self.modules():
            object.__setattr__(module, "frozen", frozen)
        return self._itself

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Calls a function on all modules below and on this one, such as one that sets initial values.

        Parameters
        ----------
        function : function of (Module)

        Returns
        -------
        Module
            Itself.

        Examples
        --------
        >>> from clcnn import nn
        >>> kinds = []
        >>> _ = nn.Sequential(nn.Linear(2, 3), nn.ReLU()).apply(lambda m: kinds.append(type(m).__name__))
        >>> kinds
        ['Linear', 'ReLU', 'Sequential']
        """
        for child in self._modules.values():
            child.apply(function)
        function(self._itself)
        return self._itself
