"""Sequential and ModuleList."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from clcnn.errors import ArgumentError
from clcnn.nn.module import Module


class ModuleList(Module):
    """A list of modules that are found by name ("0", "1", ...); forward() is the owner's business."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        for module in modules:
            self.append(module)

    def append(self, module: Module) -> ModuleList:
        """Adds a module under the next number. Returns self."""
        self.add_module(str(len(self._modules)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    def __getitem__(self, index: int) -> Module:
        return list(self._modules.values())[index]

    def __setitem__(self, index: int, module: Module) -> None:
        """Puts a module in the place of another."""
        self.add_module(list(self._modules)[index], module)


class Sequential(Module):
    """Modules one after the other: Sequential(a, b, c), or Sequential({"name": module, ...})."""

    def __init__(self, *modules: Module | dict[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], dict):
            entries: list[tuple[str, Any]] = list(modules[0].items())
        else:
            entries = [(str(i), module) for i, module in enumerate(modules)]
        for name, module in entries:
            self.add_module(name, module)

    def append(self, module: Module) -> Sequential:
        """Adds a module under the next number. Returns self."""
        self.add_module(str(len(self._modules)), module)
        return self

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(list(self._modules.values()))

    def __getitem__(self, index: int | slice) -> Module:
        items = list(self._modules.items())
        if isinstance(index, slice):
            return Sequential(dict(items[index]))
        return items[index][1]

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
