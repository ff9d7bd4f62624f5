"""Modules that hold others: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from clcnn.errors import ArgumentError
from clcnn.nn.module import Layer, Module


class _Numbered(Module):
    # Modules in a row, found by name ("0", "1", ...).

    def append(self, module: Module) -> Any:
        """Adds a module under the next number. Returns self. Raises ArgumentError (no module)."""
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Adds modules under the next numbers. Returns self. Raises ArgumentError (no module)."""
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> None:
        """Adds a module before the one at `index`; those after it go up by one number."""
        rows = list(self._modules.values())
        rows.insert(index, module)
        self._modules.clear()
        self.extend(rows)

    def _key(self, index: int) -> str:
        keys = list(self._modules)
        if not -len(keys) <= index < len(keys):
            raise IndexError(f"{type(self).__name__}: {index} is outside, it has {len(keys)} modules")
        return keys[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self.add_module(self._key(index), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))


class ModuleList(_Numbered):
    """A list of modules, named "0", "1" ...: index, slice, append and iterate as with a list.

    It is not called: forward() of its owner says what each module is for.

    Parameters
    ----------
    modules : iterable of Module
        The first entries, by default none.

    Raises
    ------
    ArgumentError
        Where an entry is no module.
    IndexError
        Where an index is outside.

    Examples
    --------
    >>> from clcnn import nn
    >>> blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
    >>> len(blocks), blocks[-1].weight.shape
    (3, (4, 4))
    >>> list(blocks.state_dict())[:2]
    ['0.weight', '0.bias']
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        """Puts a module in the place of another."""
        self.add_module(list(self._modules)[index], module)


class ModuleDict(Module):
    """Modules by name: index, update and iterate as with a dict.

    It is not called: forward() of its owner says what each module is for.

    Parameters
    ----------
    modules : dict of Module by name, or iterable of pairs
        The first entries, by default none.

    Raises
    ------
    ArgumentError
        Where an entry is no module, and for names that are empty or contain ".".
    KeyError
        Where there is no module of a name.

    Examples
    --------
    >>> from clcnn import nn
    >>> heads = nn.ModuleDict({"box": nn.Linear(8, 4), "label": nn.Linear(8, 10)})
    >>> list(heads)
    ['box', 'label']
    >>> heads["label"].weight.shape
    (10, 8)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        super().__init__()
        self.update(modules)

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules, in the place of those of the same names.

        Parameters
        ----------
        modules : {name: Module}, or iterable of (name, Module)

        Raises
        ------
        ArgumentError
            No module, or no name for one.

        Examples
        --------
        >>> from clcnn import nn
        >>> heads = nn.ModuleDict({"a": nn.Linear(2, 3)})
        >>> heads.update({"b": nn.Linear(2, 4)})
        >>> list(heads.keys())
        ['a', 'b']
        """
        for name, module in dict(modules).items():
            self[name] = module

    def keys(self) -> Iterable[str]:
        """The names, in order."""
        return self._modules.keys()

    def values(self) -> Iterable[Any]:
        """The modules, in order."""
        return self._modules.values()

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and modules, in order."""
        return self._modules.items()

    def pop(self, name: str) -> Any:
        """Takes a module out.

        Parameters
        ----------
        name : str

        Returns
        -------
        Module

        Raises
        ------
        KeyError
            There is no such name.
        """
        return self._modules.pop(name)

    def clear(self) -> None:
        """Takes all modules out."""
        self._modules.clear()

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __getitem__(self, name: str) -> Any:
        return self._modules[name]

    def __delitem__(self, name: str) -> None:
        del self._modules[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._modules))


class Sequential(_Numbered, Layer):
    """Modules one after the other: each is called on the result of the one before.

    A result that is a tuple gives several arguments.

    Parameters
    ----------
    *modules : Module
        Named "0", "1" ...; or one dict of modules by name.

    Raises
    ------
    ArgumentError
        Where an entry is no module; when called, where there is none.
    IndexError
        Where an index is outside.

    Examples
    --------
    >>> from clcnn import nn
    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    >>> list(net.state_dict())
    ['0.weight', '0.bias']
    >>> net[1]
    ReLU()
    """

    def __init__(self, *modules: Module | dict[str, Any]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            entries: list[tuple[str, Any]] = list(modules[0].items())
        else:
            entries = [(str(i), module) for i, module in enumerate(modules)]
        for name, module in entries:
            self.add_module(name, module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        """Puts a module in the place of another, such as a new head of a net with pretrained weights."""
        self.add_module(list(self._modules)[index], module)

    def forward(self, *inputs: Any) -> Any:
        if not self._modules:
            raise ArgumentError("Sequential: the model is empty")
        first, *rest = self._modules.values()
        x = first(*inputs)
        for module in rest:
            x = module(*x) if isinstance(x, tuple) else module(x)
        return x
