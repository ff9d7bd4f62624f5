"""Module: torch.nn.Module's bookkeeping over float32 NumPy arrays, and tracing into a graph."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arrays
from clcnn.errors import ArgumentError, ShapeError
from clcnn.nn._docs import Docstring
from clcnn.nn._drawing import draw
from clcnn.nn._tree import Tree
from clcnn.nn.parameter import Parameter
from clcnn.report import html_table
from clcnn.value import Value

if TYPE_CHECKING:
    from clcnn.graph import Graph


class Module(Tree):
    """Base of all layers and nets: subclass it, create layers in __init__, and write forward().

    Attributes that are modules, parameters or buffers (Parameters given to register_buffer) are found by
    name, as in PyTorch. forward() receives and returns symbolic values, see `clcnn.Value`. Takes no
    arguments: subclasses have their own, and call super().__init__() first.

    Examples
    --------
    >>> import clcnn
    >>> from clcnn import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.conv = nn.Conv2d(3, 8, 3, padding=1)
    ...         self.fc = nn.Linear(8, 10)
    ...     def forward(self, x):
    ...         return self.fc(self.conv(x).relu().mean((2, 3)))
    >>> print(Net().summary((1, 3, 32, 32)).splitlines()[-1])
    4 layers, 314 parameters, 221,264 multiply-adds
    """

    training: bool
    frozen: bool
    _modules: dict[str, Module]
    _parameters: dict[str, Parameter]
    _buffers: dict[str, Parameter]

    def __init_subclass__(cls, **options: Any) -> None:
        """Python's words on wrong arguments name the class: "Conv2d() missing ...", not _Conv.__init__(); and
        its docstring takes in the text and the sections of a private base."""
        super().__init_subclass__(**options)
        code = getattr(cls.__init__, "__code__", None)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
        own = cls.__dict__.get("__doc__")
        if own:
            private = [base for base in cls.__bases__ if base.__name__.startswith("_")]
            cls.__doc__ = Docstring(own, private, names)  # type: ignore[assignment]
        theirs = cls.__init__
        if isinstance(theirs, FunctionType):
            made = FunctionType(
                theirs.__code__, theirs.__globals__, theirs.__name__, theirs.__defaults__, theirs.__closure__
            )
            functools.update_wrapper(made, theirs)
            made.__dict__.pop("__wrapped__")
            made.__kwdefaults__ = theirs.__kwdefaults__
            made.__qualname__ = cls.__name__
            cls.__init__ = made  # type: ignore[method-assign]

    def __init__(self) -> None:
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_buffers", {})
        object.__setattr__(self, "training", True)
        object.__setattr__(self, "frozen", False)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() before setting '{name}'")
        for table in (self._modules, self._parameters, self._buffers):
            table.pop(name, None)
        if isinstance(value, Module):
            self._modules[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            entries = self.__dict__.get(table, {})
            if name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    def add_module(self, name: str, module: Module) -> None:
        """Adds a child under a name that need not be an identifier ("0").

        Parameters
        ----------
        name : str
            Without ".", as dotted paths are made of it.
        module : Module

        Raises
        ------
        ArgumentError
            No Module; an empty name, or one with ".".

        Examples
        --------
        >>> from clcnn import nn
        >>> net = nn.Module()
        >>> net.add_module("0", nn.Linear(2, 3))
        >>> list(net.state_dict())
        ['0.weight', '0.bias']
        """
        if not isinstance(module, Module):
            raise ArgumentError(f"'{name}' is no Module but {type(module).__name__}")
        if not name or "." in name:
            raise ArgumentError(f"module name '{name}': must not be empty or contain '.'")
        self._modules[name] = module

    def register_buffer(self, name: str, buffer: Any) -> None:
        """An array that belongs to the state but is not trained, such as running statistics.

        Parameters
        ----------
        name : str
        buffer : Parameter, or array
            An array becomes a Parameter.

        Examples
        --------
        >>> import numpy as np
        >>> from clcnn import nn
        >>> net = nn.Module()
        >>> net.register_buffer("scale", np.ones(3))
        >>> list(net.parameters()), list(net.state_dict())
        ([], ['scale'])
        """
        self._buffers[name] = buffer if isinstance(buffer, Parameter) else Parameter(np.asarray(buffer))

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """A parameter under a name, as setting the attribute.

        Parameters
        ----------
        name : str
        parameter : Parameter, or None
            None keeps the attribute without a parameter (bias=False).
        """
        if parameter is None:
            object.__setattr__(self, name, None)
        else:
            self._parameters[name] = parameter

    # ---- tracing ----

    def _no_forward(self, *inputs: Value) -> Any:
        """Adds operators to the graph of the symbolic inputs. Every subclass writes its own; see Module's
        example.

        Parameters
        ----------
        *inputs : Value

        Returns
        -------
        Value, or a sequence or dict of them
        """
        raise TypeError(f"{type(self).__name__} defines no forward()")

    # A method called forward would bind subclasses to its parameters; each has its own.
    forward: Callable[..., Any] = _no_forward

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """Adds this module's operators to the graph of its inputs and returns the symbolic result(s)."""
        for x in (*inputs, *named.values()):
            if _arrays.speaks(x) and not isinstance(x, Parameter):
                raise TypeError(
                    f"{type(self).__name__}: called on {type(x).__name__}; modules take symbolic values. "
                    "Use plan = clcnn.compile(model, input_shape), then plan(array)"
                )
        return self.forward(*inputs, **named)

    def build(self, graph: Graph, *inputs: Value) -> Any:
        """Traces the module into a graph; layers are named by their dotted paths.

        Parameters
        ----------
        graph : Graph
        *inputs : Value
            Of the graph, as forward() takes them.

        Returns
        -------
        Value, or a sequence or dict of them
            What forward() returns.
        """
        draw([parameter for _, parameter in self._named_state() if parameter._data is None])
        with self._named_paths(graph):
            return self(*inputs)

    @contextlib.contextmanager
    def _named_paths(self, graph: Graph) -> Iterator[None]:
        modules, parameters = list(self.named_modules()), list(self._named_state())
        try:
            for path, module in modules:
                object.__setattr__(module, "_path", path)
            for path, parameter in parameters:
                parameter._path, parameter._graph = path, graph
            yield
        finally:
            for _, module in modules:
                module.__dict__.pop("_path", None)
            for _, parameter in parameters:
                parameter._path, parameter._graph = "", None

    @property
    def layer_name(self) -> str | None:
        """Dotted path while tracing from the root; None when a module is called by itself (names are then
        numbered)."""
        return self.__dict__.get("_path") or None

    def constant(self, graph: Graph, name: str) -> Any:
        """A parameter or buffer as a constant of the graph.

        Parameters
        ----------
        graph : Graph
        name : str
            Its attribute's.

        Returns
        -------
        Value, or None
            None when the module has none of this name.
        """
        parameter = self._parameters.get(name) or self._buffers.get(name)
        if parameter is None:
            return None
        path = self.layer_name
        return graph.parameter(parameter, f"{path}.{name}" if path else name)

    # ---- showing ----

    def extra_repr(self) -> str:
        """The arguments between the parentheses of repr()."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [f"  ({name}): " + repr(child).replace("\n", "\n  ") for name, child in self._modules.items()]
        head = type(self).__name__
        if not lines:
            return f"{head}({extra})"
        return f"{head}({extra}\n" + "\n".join(lines) + "\n)"

    def _repr_html_(self) -> str:
        rows = [
            (
                path,
                type(module).__name__,
                module.extra_repr(),
                sum(p.size for p in module._parameters.values()),
            )
            for path, module in self.named_modules()
            if path and (not module._modules or module._parameters)
        ]
        total = sum(parameter.size for parameter in self.parameters())
        head = ["module", "type", "arguments", "parameters"]
        table = html_table(head, rows or [("", type(self).__name__, self.extra_repr(), total)])
        return f"<code>{type(self).__name__}</code>, {total:,} parameters{table}"

    def summary(self, *input_shapes: tuple[int, ...]) -> Any:
        """Table of layers: output shape, parameters, multiply-adds. Needs no device; plan.summary() adds
        algorithms.

        Parameters
        ----------
        *input_shapes : tuple of int
            Of each input, N, C, spatial...

        Returns
        -------
        str

        Examples
        --------
        >>> from clcnn import nn
        >>> print(nn.Linear(2, 3).summary((1, 2)).splitlines()[-1])
        1 layers, 9 parameters, 6 multiply-adds
        """
        from clcnn.graph import trace

        return trace(self, input_shapes).summary()


class Layer(Module):
    """A module with one result, which type checkers know by this class."""

    def misfit(self, x: Value, rule: str) -> ShapeError:
        """The error for an input whose shape breaks a rule."""
        return ShapeError(f"{type(self).__name__} {self.layer_name or ''}: input {list(x.shape)} {rule}")

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, **named: Any) -> Value: ...
