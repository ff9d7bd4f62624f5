"""Module and Parameter: torch.nn.Module's bookkeeping over float32 NumPy arrays, and tracing into a graph."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from clcnn import _arguments, _arrays
from clcnn.errors import ArgumentError, DtypeError, ShapeError, StateError
from clcnn.nn import init
from clcnn.nn._docs import Docstring
from clcnn.nn._drawing import draw
from clcnn.report import html_table
from clcnn.value import Value

if TYPE_CHECKING:
    from clcnn.graph import Graph
    from clcnn.train.home import Home


MOST_ELEMENTS = 1 << 40  # of any value


class Parameter:
    """A float32 array of fixed shape that a module owns.

    In forward() it stands for its value in the graph: `x * self.scale`, `self.position[:, :n]`,
    `self.token.expand(n, -1, -1)`. While a trainer changes it on a device, reading it fetches the device's
    values.

    Parameters
    ----------
    shape : tuple of int, or array
        The shape; an array, or a torch tensor, gives its values too, as `torch.nn.Parameter` takes them.
    initializer : function of clcnn.nn.init, optional
        Fills it when it is first read; zeros without one.

    Raises
    ------
    ArgumentError
        For a dimension below 1, and 2^40 elements or more.
    DtypeError
        For an array that does not hold real numbers.

    Examples
    --------
    >>> from clcnn import nn
    >>> nn.Parameter((2, 3), nn.init.ones).data.sum().item()
    6.0
    """

    __array_ufunc__ = None  # NumPy's operators leave `array * parameter` alone

    def __init__(self, shape: Any, initializer: init.Initializer = init.zeros) -> None:
        values = _array(shape) if _arrays.speaks(shape) else None
        self.shape = tuple(int(n) for n in (shape if values is None else values.shape))
        if any(not 1 <= n < 1 << 31 for n in self.shape):
            raise ArgumentError(
                f"parameter shape {list(self.shape)}: every dimension must be from 1 to 2147483647"
            )
        if math.prod(self.shape) >= MOST_ELEMENTS:
            raise ArgumentError(f"parameter shape {list(self.shape)}: there must be fewer than 2^40 elements")
        self._initializer = initializer
        self._rng = init.generator()
        self._data: np.ndarray | None = values
        self._path = ""  # this and the next one while its module is traced
        self._graph: Graph | None = None
        self._home: Home | None = None
        self._requires_grad = True

    @property
    def requires_grad(self) -> bool:
        """Whether optimisers that are given it train it; false: it is a constant of a trainer's plans. To be
        set before the first batch of a trainer, or StateError is raised."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if self._home is not None and bool(value) != self._requires_grad:
            raise StateError(f"{self!r} belongs to a trainer: close() that one before freezing parameters")
        self._requires_grad = bool(value)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def data(self) -> np.ndarray:
        """The array itself, C-contiguous float32."""
        if self._home is not None:
            self._home.refresh()
        if self._data is None:
            self._data = np.require(self._initializer(self.shape, self._rng), np.float32, "C")
        return self._data

    @data.setter
    def data(self, value: np.ndarray) -> None:
        array = _array(value)
        if array.shape != self.shape:
            raise ShapeError(f"parameter has shape {list(self.shape)}, the new value {list(array.shape)}")
        if self._home is not None:
            self._home.push(self, array)
        self._data = array

    def as_value(self, graph: Graph) -> Value:
        """The parameter in a graph, under its dotted path."""
        return graph.parameter(self, self._path or "parameter")

    def _value(self) -> Value:
        if self._graph is None:
            raise StateError(
                f"{self!r} has a value only while its module is compiled, in forward(); see .data"
            )
        return self.as_value(self._graph)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Value, name):
            raise AttributeError(f"'Parameter' has no attribute '{name}'")
        return getattr(self._value(), name)

    def __getitem__(self, key: Any) -> Value:
        return self._value()[key]

    def take(self, array: np.ndarray) -> None:
        """Becomes an array of the right shape and type, which its home has fetched."""
        self._data = array

    def settle(self, home: Home | None) -> None:
        """Lives on a device from now on, or no longer (None). Raises StateError where another trainer has
        it."""
        if home is not None and self._home is not None:
            raise StateError(f"{self!r} belongs to a trainer already: close() that one first")
        self._home = home

    def numpy(self) -> np.ndarray:
        """The array itself, as `data`."""
        return self.data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if dtype is not None and np.dtype(dtype) != np.float32:
            if copy is False:
                raise ValueError("a parameter is float32: another dtype needs a copy")
            return self.data.astype(dtype)
        return self.data.copy() if copy else self.data

    def __repr__(self) -> str:
        return f"Parameter(shape={list(self.shape)})"


def _as_value(name: str) -> Callable[..., Value]:
    """An operator of Value, for Parameter."""

    def operator(self: Parameter, *others: Any) -> Value:
        made: Value = getattr(self._value(), name)(*others)
        return made

    return operator


for _word in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"):
    for _name in (f"__{_word}__", f"__r{_word}__"):
        if hasattr(Value, _name):
            setattr(Parameter, _name, _as_value(_name))
for _word in ("neg", "pos", "abs", "lt", "le", "gt", "ge"):
    setattr(Parameter, f"__{_word}__", _as_value(f"__{_word}__"))


def _array(value: Any) -> np.ndarray:
    """The new value of a parameter. Raises DtypeError."""
    try:
        array = _arrays.host_array(value, "parameter")
        if array.dtype.kind in "biuf":
            return np.require(array, np.float32, "C")  # ascontiguousarray() would make rank 0 rank 1
    except (ShapeError, DtypeError) as error:
        raise DtypeError(f"parameter: expected an array of real numbers: {error}") from error
    raise DtypeError(f"parameter: expected an array of real numbers, got {_arguments.shown(value)}")


class Module:
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
        """Adds a child under a name that need not be an identifier ("0")."""
        if not isinstance(module, Module):
            raise ArgumentError(f"'{name}' is no Module but {type(module).__name__}")
        if not name or "." in name:
            raise ArgumentError(f"module name '{name}': must not be empty or contain '.'")
        self._modules[name] = module

    def register_buffer(self, name: str, buffer: Any) -> None:
        """A parameter, or an array that becomes one, that is not trained (running statistics)."""
        self._buffers[name] = buffer if isinstance(buffer, Parameter) else Parameter(np.asarray(buffer))

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """`None` keeps the attribute without a parameter (bias=False)."""
        if parameter is None:
            object.__setattr__(self, name, None)
        else:
            self._parameters[name] = parameter

    # ---- walking ----

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly below this one, with their names."""
        yield from self._modules.items()

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        yield from self._modules.values()

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted paths."""
        yield from self._walk(prefix, set())

    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            yield from child._walk(f"{prefix}.{name}" if prefix else name, seen)

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and all below it, with dotted names; no buffers."""
        for path, module in self.named_modules():
            for name, parameter in module._parameters.items():
                yield (f"{path}.{name}" if path else name), parameter

    def parameters(self) -> Iterator[Parameter]:
        """The parameters of this module and all below it; no buffers."""
        for _, parameter in self.named_parameters():
            yield parameter

    def _named_state(self) -> Iterator[tuple[str, Parameter]]:
        for path, module in self.named_modules():
            for table in (module._parameters, module._buffers):
                for name, parameter in table.items():
                    yield (f"{path}.{name}" if path else name), parameter

    # ---- weights ----

    def state_dict(self) -> dict[str, np.ndarray]:
        """Parameters and buffers by dotted name: the arrays themselves, not copies."""
        return {name: parameter.data for name, parameter in self._named_state()}

    def load_state_dict(self, state: Mapping[str, np.ndarray], strict: bool = True) -> None:
        """Takes over arrays by name. Raises WeightsError listing what is missing, left over (unless
        strict=False) or of another shape, before anything is changed."""
        from clcnn import weights

        mine = dict(self._named_state())
        weights.match(dict(state), {name: parameter.shape for name, parameter in mine.items()}, strict=strict)
        for name, parameter in mine.items():
            if name in state:
                parameter.data = state[name]

    def load(self, source: Any, strict: bool = True) -> Module:
        """Loads weights from a safetensors, npz or PyTorch .pth file (see clcnn.weights.load). Returns
        self."""
        from clcnn import weights

        self.load_state_dict(weights.load(source), strict=strict)
        return self

    def train(self, mode: bool = True) -> Module:
        """Sets `training` here and below, which decides what a trainer's step computes: plans of
        clcnn.compile() are for inference in either mode. Returns self."""
        for module in self.modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Module:
        """train(False): running statistics stay as they are."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Sets `requires_grad` of all parameters here and below. Returns self."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        return self

    def freeze(self) -> Module:
        """Keeps parameters and running statistics here and below as they are: a trainer's plans have them as
        constants, which are folded and packed once. Returns self. Raises StateError where a trainer trains
        them already."""
        return self._freeze(True)

    def unfreeze(self) -> Module:
        """Undoes freeze(), for trainers that begin from here on. Returns self."""
        return self._freeze(False)

    def _freeze(self, frozen: bool) -> Module:
        self.requires_grad_(not frozen)
        for module in self.modules():
            object.__setattr__(module, "frozen", frozen)
        return self

    def apply(self, function: Callable[[Module], Any]) -> Module:
        """Calls a function on all modules below and on this one, such as one that sets initial values.
        Returns self."""
        for child in self._modules.values():
            child.apply(function)
        function(self)
        return self

    # ---- tracing ----

    def _no_forward(self, *inputs: Value) -> Any:
        """Adds operators to the graph of the symbolic inputs, returns the result. Every subclass writes its
        own."""
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
        """Traces the module into `graph`; layers are named by their dotted paths."""
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
        """The parameter or buffer `name` as a constant of the graph; None when the module has none."""
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
        algorithms."""
        from clcnn.graph import trace

        return trace(self, input_shapes).summary()


class Layer(Module):
    """A module with one result, which type checkers know by this class."""

    def misfit(self, x: Value, rule: str) -> ShapeError:
        """The error for an input whose shape breaks a rule."""
        return ShapeError(f"{type(self).__name__} {self.layer_name or ''}: input {list(x.shape)} {rule}")

    if TYPE_CHECKING:

        def __call__(self, *inputs: Any, **named: Any) -> Value: ...
