"""Arrays as people have them: torch tensors, lists, views, whatever speaks `__array__` or DLPack.

Plans, sessions and trainers take their inputs through here; what has no plain array is refused in words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments, _core
from clcnn._log import logger
from clcnn.errors import ArgumentError, DtypeError, ShapeError

HOST = {1, 3, 11, 13}  # DLPack's devices whose memory the host can read: CPU, pinned by CUDA or ROCm, managed
NUMBERS = (list, tuple, int, float)  # have no element type of their own


def speaks(given: Any) -> bool:
    """Whether something says itself that it is an array."""
    return hasattr(given, "__array__") or hasattr(given, "__dlpack__")


def host_array(given: Any, what: str) -> NDArray[Any]:
    """An array with the values, which are copied only where they must be.

    given: a NumPy array, a torch tensor, nested lists of numbers, anything with `__array__` or `__dlpack__`.
    what: names it in errors.

    Raises DtypeError (no array, a complex or masked one), ShapeError (lists of different lengths),
    ArgumentError (on another device, sparse, or with gradients).
    """
    if isinstance(given, np.ndarray):
        return np.asarray(_arguments.plain(given, what))
    if given is None or isinstance(given, (str, bytes)):
        raise _no_array(given, what)
    _check_place(given, what)
    try:
        from_dlpack = hasattr(given, "__dlpack__") and not hasattr(given, "__array__")
        array = np.from_dlpack(given) if from_dlpack else np.asarray(given)
    except ValueError as error:  # lists of different lengths
        raise ShapeError(f"{what}: expected an array, got {type(given).__name__}: {error}") from error
    except (TypeError, RuntimeError, BufferError) as error:  # torch's bfloat16, for one
        raise DtypeError(f"{what}: {type(given).__name__} has no NumPy array: {error}") from error
    if array.dtype == object and not isinstance(given, NUMBERS):
        raise _no_array(given, what)
    return array


def _no_array(given: Any, what: str) -> DtypeError:
    return DtypeError(f"{what}: expected a NumPy array, got {type(given).__name__}; pass np.asarray(x)")


def _check_place(given: Any, what: str) -> None:
    """Refuses tensors of other libraries whose values NumPy cannot see as they are."""
    name = type(given).__name__
    if not _on_host(given):
        where = getattr(given, "device", None) or given.__dlpack_device__()
        raise ArgumentError(
            f"{what}: the {name} is on device {where}, of which clcnn reads no memory; pass x.cpu()"
        )
    if str(getattr(given, "layout", "")).startswith("torch.sparse"):
        raise ArgumentError(f"{what}: the {name} is sparse; pass x.to_dense()")
    if hasattr(given, "toarray") and hasattr(given, "nnz"):  # SciPy's
        raise ArgumentError(f"{what}: the {name} is sparse; pass x.toarray()")
    if getattr(given, "is_conj", bool)() or "complex" in str(getattr(given, "dtype", "")):
        raise DtypeError(f"{what}: the {name} is complex; pass x.real, or what stands for it")
    if getattr(given, "requires_grad", False):
        raise ArgumentError(f"{what}: the {name} needs gradients, which would end here; pass x.detach()")


def _on_host(given: Any) -> bool:
    if not hasattr(given, "__dlpack_device__"):
        return True
    try:
        return int(given.__dlpack_device__()[0]) in HOST
    except (ValueError, RuntimeError, BufferError):  # torch's "meta", which has no memory
        return False


def typed(given: Any, wanted: np.dtype[Any], what: str) -> NDArray[Any]:
    """host_array() in the machine's byte order; numbers and lists of them take the wanted type."""
    array = host_array(given, what)
    if isinstance(given, NUMBERS) and array.dtype != wanted and np.can_cast(array.dtype, wanted, "same_kind"):
        logger.debug("%s: copied: it was a %s", what, type(given).__name__)
        return array.astype(wanted)
    if not array.dtype.isnative and array.dtype.newbyteorder("=") == wanted:
        logger.debug("%s: copied: its bytes were in the other order", what)
        return array.astype(wanted)
    return array


def plan_input(given: Any, name: str, shape: tuple[int, ...], dtype: str) -> Any:
    """What the core takes for an input of a plan: `given` itself if it is a device tensor, or an array of
    which the core says best what is wrong. Raises as host_array() does, and ShapeError."""
    if isinstance(given, _core.Tensor):
        return given
    what, wanted = f"input {name}", np.dtype(dtype)
    array = typed(given, wanted, what)
    if array.dtype != wanted:
        if array.dtype.kind == "c":
            raise DtypeError(
                f"{what}: the array is complex ({array.dtype}); pass x.real, or what stands for it"
            )
        if array is given:
            return given
        raise DtypeError(
            f"{what}: expected {wanted}, got {type(given).__name__} of {array.dtype}; convert it first"
        )
    if array.shape != tuple(shape):  # before a copy, which may be of any size
        raise ShapeError(f"{what}: expected shape {tuple(shape)}, got {array.shape}")
    plain = np.require(array, requirements=("C", "A"))
    if plain is not array:
        logger.debug("%s: copied: it was not contiguous, or not aligned", what)
    return plain


def plan_inputs(given: Sequence[Any], core: _core.Plan) -> list[Any] | None:
    """The inputs of a plan as the core takes them; None where they are that already, or are too few or
    many."""
    rows = list(zip(core.inputs, core.input_dtypes, strict=True))
    if len(given) != len(rows):
        return None
    taken = [
        plan_input(x, name, shape, dtype) for x, ((name, shape), (_, dtype)) in zip(given, rows, strict=True)
    ]
    return None if all(a is b for a, b in zip(taken, given, strict=True)) else taken


def plan_outputs(given: Sequence[Any], names: Sequence[str]) -> list[Any] | None:
    """What plans write to, as the core takes it: arrays over the memory of other libraries' tensors; None
    where it is that already. Raises as host_array() does."""
    foreign = [x is not None and speaks(x) and not isinstance(x, (np.ndarray, _core.Tensor)) for x in given]
    if not any(foreign):
        return None
    return [
        host_array(x, f"output {name}") if other else x
        for x, name, other in zip(given, names, foreign, strict=True)
    ]
