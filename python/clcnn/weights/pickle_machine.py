"""An interpreter for the few pickle opcodes that PyTorch's state dicts use, which can build plain data only.

`pickle.Unpickler` with a restricted `find_class` would run no foreign code either, but it allocates what the
stream declares (a memo index of 2**31 costs 32 GiB), and what it builds may be nested until hashing it
overflows the C stack. Here `pickletools` decodes the opcodes, which only reads bytes that are there, and a
table of handlers builds None, numbers, str, bytes, list, tuple, dict and what the caller's two hooks return.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from .errors import WeightsError, shown

MAX_STEPS = (
    4_000_000  # opcodes and called-with items; a state dict takes about 50 a tensor. Bounds time and memory
)
MAX_INT_BITS = 128  # PyTorch's magic number has 77; longer ones would make hashing and printing slow
MARK = object()
Callee = Callable[..., Any]


class Global:
    """A name that the stream refers to and the allow-list holds; calling it in the stream runs `call`."""

    def __init__(self, name: str, call: Callee | None) -> None:
        self.name = name
        self.call = call

    def __repr__(self) -> str:
        return f"<global {self.name}>"


class Machine:
    """One run over one pickle in `stream`, which is left just behind the pickle's STOP.

    allowed: dotted global name -> function that stands for a call of it, or None for a name only passed on.
    persistent: what turns a persistent id into an object, or None when the stream may have none.
    """

    def __init__(
        self,
        stream: BinaryIO,
        allowed: Mapping[str, Callee | None],
        persistent: Callable[[Any], Any] | None = None,
    ) -> None:
        self.stream = stream
        self.allowed = allowed
        self.persistent = persistent
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        self.steps = 0

    def run(self) -> Any:
        """The object that the pickle describes. Raises WeightsError on all that is not allowed."""
        for opcode, argument, position in decoded(self.stream):
            handler = HANDLERS.get(opcode.name)
            if handler is None:
                raise WeightsError(
                    f"pickle opcode {opcode.name} is not allowed in weights (at byte {position})"
                )
            self.spend(1)
            try:
                handler(self, argument)
            except WeightsError:
                raise
            except (IndexError, KeyError, TypeError, ValueError) as error:
                raise WeightsError(
                    f"damaged pickle: {opcode.name} at byte {position}: {type(error).__name__} {error}"
                ) from error
        if len(self.stack) != 1 or self.stack[0] is MARK:
            raise WeightsError(f"damaged pickle: {len(self.stack)} objects are left at its end")
        return self.stack[0]

    def spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise WeightsError(f"the pickle takes more than {MAX_STEPS} steps")

    def pop(self) -> Any:
        value = self.stack.pop()
        if value is MARK:
            raise TypeError("an object was expected, not a mark")
        return value

    def pop_to_mark(self) -> list[Any]:
        items = []
        while (value := self.stack.pop()) is not MARK:
            items.append(value)
        items.reverse()
        return items

    def top(self, kind: type) -> Any:
        value = self.stack[-1]
        if not isinstance(value, kind):
            raise TypeError(f"a {kind.__name__} was expected, not {type(value).__name__}")
        return value

    def find(self, module: str, name: str) -> Global:
        dotted = f"{module}.{name}"
        if dotted not in self.allowed:
            raise WeightsError(
                f"the file refers to the global {shown(dotted)}, which is not on the list of what "
                "weights may hold; nothing of it was run. Save the state dict alone"
            )
        return Global(dotted, self.allowed[dotted])


def decoded(stream: BinaryIO) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    """pickletools' opcodes, with every complaint about the bytes as WeightsError."""
    try:
        yield from pickletools.genops(stream)
    except WeightsError:
        raise
    except (
        ValueError,
        OverflowError,
        Warning,
    ) as error:  # Warning: of escapes in strings, where warnings are errors
        raise WeightsError(f"damaged pickle: {shown(str(error), 200)}") from error


def push(machine: Machine, value: Any) -> None:
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        raise WeightsError(f"the pickle has an integer of {value.bit_length()} bits, over {MAX_INT_BITS}")
    machine.stack.append(value)


def build_tuple(size: int) -> Callable[[Machine, Any], None]:
    def handler(machine: Machine, _: Any) -> None:
        items = [machine.pop() for _ in range(size)]
        machine.stack.append(tuple(reversed(items)))

    return handler


def set_items(machine: Machine, items: list[Any]) -> None:
    target = machine.top(dict)
    for key, value in zip(items[::2], items[1::2], strict=True):
        # Only these keys: their hashes can neither recurse nor be made to collide in numbers.
        if not isinstance(key, (str, int, type(None))) or isinstance(key, int) and key.bit_length() > 64:
            raise TypeError(f"a dict key of type {type(key).__name__}, or beyond 64 bits")
        target[key] = value


def set_all(machine: Machine, _: Any) -> None:
    items = machine.pop_to_mark()
    if len(items) % 2:
        raise TypeError("a key without a value")
    set_items(machine, items)


def set_one(machine: Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    set_items(machine, [key, value])


def new_dict(machine: Machine, _: Any) -> None:
    items = machine.pop_to_mark()
    machine.stack.append({})
    if len(items) % 2:
        raise TypeError("a key without a value")
    set_items(machine, items)


def append(machine: Machine, _: Any) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def append_all(machine: Machine, _: Any) -> None:
    items = machine.pop_to_mark()
    machine.top(list).extend(items)


def put(machine: Machine, index: int) -> None:
    value = machine.pop()
    machine.memo[index] = value
    machine.stack.append(value)


def stack_global(machine: Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    machine.stack.append(machine.find(str(module), str(name)))


def reduce(machine: Machine, _: Any) -> None:
    arguments, callee = machine.pop(), machine.pop()
    if not isinstance(callee, Global) or not isinstance(arguments, tuple):
        raise TypeError("only a global is called, with a tuple")
    if callee.call is None:
        raise TypeError(f"{callee.name} is not called in weights")
    # The memo lets a stream call with one long list many times, which opcodes alone would not count.
    machine.spend(sum(len(item) for item in arguments if isinstance(item, (list, tuple, dict))))
    try:
        machine.stack.append(callee.call(*arguments))
    except TypeError as error:
        raise TypeError(f"{callee.name}: {error}") from error


def build(machine: Machine, _: Any) -> None:
    """Drop the attributes of a dict (PyTorch hangs `_metadata`, layer versions, on its OrderedDict)."""
    machine.pop()
    machine.top(dict)


def persistent_id(machine: Machine, _: Any) -> None:
    if machine.persistent is None:
        raise TypeError("no persistent ids are expected here")
    machine.stack.append(machine.persistent(machine.pop()))


PUSHED = (
    "INT",
    "BININT",
    "BININT1",
    "BININT2",
    "LONG",
    "LONG1",
    "LONG4",
    "FLOAT",
    "BINFLOAT",
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
    "BINBYTES",
    "SHORT_BINBYTES",
    "BINBYTES8",
)
HANDLERS: dict[str, Callable[[Machine, Any], object]] = {
    **dict.fromkeys(PUSHED, push),
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), lambda machine, _: None),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), put),
    **dict.fromkeys(
        ("GET", "BINGET", "LONG_BINGET"), lambda machine, index: machine.stack.append(machine.memo[index])
    ),
    "MEMOIZE": lambda machine, _: put(machine, len(machine.memo)),
    "NONE": lambda machine, _: machine.stack.append(None),
    "NEWTRUE": lambda machine, _: machine.stack.append(True),
    "NEWFALSE": lambda machine, _: machine.stack.append(False),
    "MARK": lambda machine, _: machine.stack.append(MARK),
    "POP": lambda machine, _: machine.stack.pop(),
    "POP_MARK": lambda machine, _: machine.pop_to_mark(),
    "EMPTY_TUPLE": build_tuple(0),
    "TUPLE1": build_tuple(1),
    "TUPLE2": build_tuple(2),
    "TUPLE3": build_tuple(3),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.pop_to_mark())),
    "EMPTY_LIST": lambda machine, _: machine.stack.append([]),
    "LIST": lambda machine, _: machine.stack.append(machine.pop_to_mark()),
    "APPEND": append,
    "APPENDS": append_all,
    "EMPTY_DICT": lambda machine, _: machine.stack.append({}),
    "DICT": new_dict,
    "SETITEM": set_one,
    "SETITEMS": set_all,
    "GLOBAL": lambda machine, name: machine.stack.append(machine.find(*name.split(" ", 1))),
    "STACK_GLOBAL": stack_global,
    "REDUCE": reduce,
    "BUILD": build,
    "BINPERSID": persistent_id,
}
