"""What a session tells of itself: inputs and outputs, its device, and its options."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clcnn import session_options
from clcnn._session import model as session_model
from clcnn._session.model import ModelMetadata, NodeArg
from clcnn.report import html_table
from clcnn.session_options import SessionOptions

if TYPE_CHECKING:
    from clcnn._core import Device
    from clcnn.onnx import Model, ValueInfo


class Facts:
    """The part of clcnn.InferenceSession that only looks."""

    if TYPE_CHECKING:
        _inputs: Sequence[ValueInfo]
        _outputs: Sequence[ValueInfo]
        _meta: ModelMetadata
        _provider: str
        _device: Device
        _arguments: dict[str, Any]
        _model: Model | None
        _file: session_model.File | None
        _closed: bool
        _compiled: Mapping[Any, Any]

    def get_inputs(self) -> list[NodeArg]:
        """The inputs that run() needs, in order.

        Returns
        -------
        list of NodeArg

        Examples
        --------
        >>> import clcnn
        >>> clcnn.onnx.save(clcnn.nn.ReLU(), "net.onnx", (2, 3))
        >>> with clcnn.InferenceSession("net.onnx") as session:
        ...     [(row.name, row.shape, row.type) for row in session.get_inputs()]
        [('input', [2, 3], 'tensor(float)')]
        """
        return [session_model.node_arg(info) for info in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """The outputs that run() can give, in order.

        Returns
        -------
        list of NodeArg
        """
        return [session_model.node_arg(info) for info in self._outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Nothing: initialisers are constants, also where the file lists them among the inputs.

        Returns
        -------
        list
            Empty.
        """
        return []

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of itself.

        Returns
        -------
        ModelMetadata
        """
        return self._meta

    def get_providers(self) -> list[str]:
        """The provider taken, alone: no other one steps in for it.

        Returns
        -------
        list of str
        """
        return [self._provider]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The device that stands for the provider.

        Returns
        -------
        {provider: dict of str}
            "device_id" and "device_name".
        """
        return {self._provider: {"device_id": str(self._device.index), "device_name": self._device.name}}

    def get_session_options(self) -> SessionOptions:
        """The session options as they were given.

        Returns
        -------
        SessionOptions
            A copy.
        """
        return session_options.own(self._arguments["sess_options"])

    @property
    def device(self) -> Device:
        """The device that the session runs on."""
        return self._device

    @property
    def model(self) -> Model:
        """The model, as clcnn.onnx.load() gives it; read from its file again where the session has no more
        use for it. Raises StateError where that file has changed or is gone.
        """
        if self._model is not None:
            return self._model
        assert self._file is not None
        return self._file.load()

    def __repr__(self) -> str:
        def words(rows: list[NodeArg]) -> str:
            return ", ".join(f"{row.name}{row.shape}" for row in rows)

        state = "closed" if self._closed else f"{len(self._compiled)} plans"
        return (
            f"<clcnn.InferenceSession on {self._device.name}: {words(self.get_inputs())} -> "
            f"{words(self.get_outputs())}, {state}>"
        )

    def _repr_html_(self) -> str:
        rows = [("input", i.name, str(i.shape), i.type) for i in self.get_inputs()]
        rows += [("output", o.name, str(o.shape), o.type) for o in self.get_outputs()]
        state = "closed" if self._closed else f"{len(self._compiled)} plans"
        name = html.escape(self._device.name)
        table = html_table(["", "name", "shape", "type"], rows)
        return f"<code>clcnn.InferenceSession</code> on {name}, {state}{table}"
