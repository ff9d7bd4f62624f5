"""The interface onnx.backend.base.Backend, as onnx's own test suite and tools use it.

    import clcnn.onnx.backend as backend
    outputs = backend.run_model(model, [x])          # onnx.ModelProto, NumPy arrays
    rep = backend.prepare(model, "CPU"); rep.run([x])

Devices are named in ONNX's way: "CPU", "CUDA" (an NVIDIA GPU by OpenCL), or any selector of clcnn.Device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper
from onnx.backend import base

from clcnn import compiler
from clcnn import device as devices
from clcnn.errors import ArgumentError, NoDeviceError, UnsupportedError
from clcnn.onnx.model import Model, load
from clcnn.onnx.program import Program
from clcnn.plan import Plan

__all__ = ["ClcnnBackend", "ClcnnRep", "is_compatible", "prepare", "run_node", "supports_device"]

SELECTORS = {"CPU": "cpu", "CUDA": "nvidia"}


class ClcnnRep(base.BackendRep):
    """A model ready for one device: what prepare() returns. The plan of the last shapes is kept.

    Parameters
    ----------
    model : clcnn.onnx.Model
    device : Device
    options : dict
        Of clcnn.compile().

    Examples
    --------
    >>> import numpy as np
    >>> import clcnn
    >>> from clcnn.onnx import backend
    >>> rep = backend.prepare(clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)))
    >>> rep.run([np.float32([[-1, 1]])])[0].tolist()
    [[0.0, 1.0]]
    >>> rep.close()
    """

    def __init__(self, model: Model, device: Any, options: Mapping[str, Any]) -> None:
        self.model = model
        self.device = device
        self.options = dict(options)
        self._last: tuple[Any, Program, Plan | None] | None = None

    def run(self, inputs: Any, **kwargs: Any) -> tuple[NDArray[Any], ...]:
        """One inference.

        Parameters
        ----------
        inputs : sequence of arrays, {name: array}, or the one array
            A sequence is in the order of the model's inputs.

        Returns
        -------
        tuple of arrays
            All outputs in order.

        Raises
        ------
        ArgumentError
            How many inputs there are, or their names. And what Model.specialise(), clcnn.compile() and
            Plan.run() raise.
        """
        if kwargs:
            raise ArgumentError(f"run: unknown arguments {sorted(kwargs)}")
        given = self._by_name(inputs)
        program, plan = self._prepared(given)
        return tuple(program.collect({} if plan is None else plan.run(program.feed(given))).values())

    def _by_name(self, inputs: Any) -> dict[str, NDArray[Any]]:
        names = [info.name for info in self.model.inputs]
        if isinstance(inputs, Mapping):
            if set(inputs) != set(names):
                raise ArgumentError(f"run: the model's inputs are {names}, got {sorted(inputs)}")
            return {name: np.asarray(inputs[name]) for name in names}
        arrays = inputs if isinstance(inputs, (list, tuple)) else [inputs]
        if len(arrays) != len(names):
            raise ArgumentError(
                f"run: the model has {len(names)} inputs, {names}, but {len(arrays)} were given"
            )
        return {name: np.asarray(array) for name, array in zip(names, arrays)}

    def _prepared(self, given: Mapping[str, NDArray[Any]]) -> tuple[Program, Plan | None]:
        values = {name: given[name] for name in self.model.value_inputs}
        shapes = {name: array.shape for name, array in given.items()}
        key = (shapes, {name: (array.dtype.str, array.tobytes()) for name, array in values.items()})
        if self._last is not None and self._last[0] == key:
            return self._last[1:]
        self.close()
        program = self.model.specialise(shapes, values)
        plan = None
        if program.graph is not None:
            plan = compiler.compile(program.graph, device=self.device, **self.options)
        self._last = key, program, plan
        return program, plan

    def close(self) -> None:
        """Gives the plan's device memory back. run() compiles another one."""
        if self._last is not None and self._last[2] is not None:
            self._last[2].close()
        self._last = None


class ClcnnBackend(base.Backend):
    """onnx.backend.base.Backend on OpenCL devices; its methods are functions of this module too.

    Examples
    --------
    >>> from clcnn.onnx import backend
    >>> backend.ClcnnBackend.selector("CUDA:1"), backend.ClcnnBackend.selector("CPU")
    ('nvidia', 'cpu')
    """

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether every operator of a model is supported.

        Parameters
        ----------
        model : onnx.ModelProto
        device : str
            Any.

        Returns
        -------
        bool

        Raises
        ------
        ModelError
            The model is damaged.

        Examples
        --------
        >>> import clcnn
        >>> from clcnn.onnx import backend
        >>> backend.is_compatible(clcnn.onnx.to_model(clcnn.nn.ReLU(), (1, 2)))
        True
        """
        try:
            load(model.SerializeToString())
        except UnsupportedError:
            return False
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether there is such an OpenCL device.

        Parameters
        ----------
        device : str
            In ONNX's way: "CPU", "CUDA", "CUDA:1"; or any selector of clcnn.Device.

        Returns
        -------
        bool

        Examples
        --------
        >>> from clcnn.onnx import backend
        >>> backend.supports_device("abacus")
        False
        """
        try:
            devices.get(cls.selector(device))
        except (NoDeviceError, ArgumentError):
            return False
        return True

    @classmethod
    def selector(cls, device: str) -> str:
        """clcnn's selector for a device as ONNX names it.

        Parameters
        ----------
        device : str
            As of supports_device().

        Returns
        -------
        str
            "cpu" for "CPU", "nvidia" for "CUDA" with any number, and others as they are.
        """
        return SELECTORS.get(device.partition(":")[0], device)

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> ClcnnRep:
        """Checks a model and opens the device.

        Parameters
        ----------
        model : onnx.ModelProto
        device : str
            As of supports_device(). Default "CPU".
        **kwargs
            Options of clcnn.compile().

        Returns
        -------
        ClcnnRep

        Raises
        ------
        ModelError, UnsupportedError
            As clcnn.onnx.load().
        NoDeviceError
            There is no such device.

        Examples
        --------
        See ClcnnRep.
        """
        checked = load(model.SerializeToString())
        return ClcnnRep(checked, devices.get(cls.selector(device)), kwargs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[NDArray[Any], ...]:
        """Runs one node as a model of its own.

        Parameters
        ----------
        node : onnx.NodeProto
        inputs : sequence of arrays, or the one array
            Of those inputs of the node that have names.
        device : str
            As of supports_device(). Default "CPU".
        outputs_info : sequence of (dtype, shape), optional
            Of the outputs. Without it they are of the first input's dtype.
        **kwargs
            opset_version, the newest when absent, and options of clcnn.compile().

        Returns
        -------
        tuple of arrays

        Raises
        ------
        ArgumentError
            The node has another number of inputs. And what prepare() and ClcnnRep.run() raise.

        Examples
        --------
        >>> import numpy as np
        >>> from onnx import helper
        >>> from clcnn.onnx import backend
        >>> node = helper.make_node("Relu", ["x"], ["y"])
        >>> backend.run_node(node, [np.float32([-1, 1])])[0].tolist()
        [0.0, 1.0]
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(a) for a in (inputs if isinstance(inputs, (list, tuple)) else [inputs])]
        names = [name for name in node.input if name]
        if len(names) != len(arrays):
            raise ArgumentError(f"run_node: the node has {len(names)} inputs, but {len(arrays)} were given")
        kinds: list[tuple[np.dtype[Any], Any]] = list(outputs_info or [])
        if not kinds:
            kinds = [(arrays[0].dtype if arrays else np.dtype(np.float32), None)] * len(node.output)
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [_info(name, array.dtype, array.shape) for name, array in zip(names, arrays)],
            [_info(name, np.dtype(dtype), shape) for name, (dtype, shape) in zip(node.output, kinds) if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.prepare(model, device, **kwargs).run(arrays)


def _info(name: str, dtype: np.dtype[Any], shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)


is_compatible = ClcnnBackend.is_compatible
prepare = ClcnnBackend.prepare
run_model = ClcnnBackend.run_model
run_node = ClcnnBackend.run_node
supports_device = ClcnnBackend.supports_device
