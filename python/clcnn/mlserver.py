"""Runtime: ONNX models behind MLServer, which speaks the Open Inference Protocol by REST and gRPC.

model-settings.json: {"name": "net", "implementation": "clcnn.mlserver.Runtime", "parameters": {"uri":
"./net.onnx", "extra": {"device": "gpu"}}}
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.errors import InferenceError, MLServerError
from mlserver.types import InferenceRequest, InferenceResponse, MetadataTensor
from mlserver.utils import get_model_uri
from numpy.typing import NDArray

from clcnn.errors import Error
from clcnn.ort_values import WORDS
from clcnn.session import InferenceSession

__all__ = ["Runtime"]

QUEUE = 64  # requests that wait or run where "queue" says nothing
FULL = 503  # HTTP's "service unavailable"
OPTIONS = ("device", "precision", "workspace_limit", "memory_limit", "max_plans")  # of sessions


class Runtime(MLModel):  # type: ignore[misc]
    """A session for each worker of MLServer.

    "extra" of the model's parameters may have "device" (a selector, or a list of them), "precision",
    "workspace_limit", "memory_limit" and "max_plans" as for clcnn.InferenceSession, and "queue": how many
    requests may wait or run (64), beyond which the answer is 503 at once. Where MLServer gathers requests
    ("max_batch_size") and the model's first dimension is free, batches are filled up to powers of two, so
    that few plans serve all of them.
    """

    async def load(self) -> bool:
        """Makes the session. Raises as clcnn.InferenceSession does."""
        parameters = self.settings.parameters
        extra = dict(parameters.extra or {}) if parameters is not None else {}
        self._room = int(extra.pop("queue", QUEUE))
        unknown = sorted(set(extra) - set(OPTIONS))
        if unknown:
            raise InferenceError(f"extra: there is no {unknown}; there are {sorted((*OPTIONS, 'queue'))}")
        uri = await get_model_uri(self.settings)
        devices = extra.get("device")
        self._threads = ThreadPoolExecutor(len(devices) if isinstance(devices, list) else 1, "clcnn-serve")
        self._session: InferenceSession = await self._in_thread(lambda: InferenceSession(uri, **extra))
        if not self.settings.inputs:
            self.inputs = [_metadata(row) for row in self._session.get_inputs()]
        if not self.settings.outputs:
            self.outputs = [_metadata(row) for row in self._session.get_outputs()]
        self._fills = bool(self.settings.max_batch_size) and all(
            row.shape and not isinstance(row.shape[0], int)
            for row in (*self._session.get_inputs(), *self._session.get_outputs())
        )
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        """Raises InferenceError (400) with what is wrong with the request, MLServerError (503) where the
        queue is full."""
        if self._room == 0:
            raise MLServerError(f"model {self.name}: the queue is full", FULL)
        feed = {row.name: self.decode(row, default_codec=NumpyCodec) for row in payload.inputs}
        wanted = [row.name for row in payload.outputs or []] or [r.name for r in self._session.get_outputs()]
        self._room -= 1
        try:
            results = await self._in_thread(lambda: self._run(wanted, feed))
        except Error as error:
            raise InferenceError(f"{type(error).__name__}: {error}") from error
        finally:
            self._room += 1
        outputs = [NumpyCodec.encode_output(name, result) for name, result in zip(wanted, results)]
        return InferenceResponse(model_name=self.name, model_version=self.version, outputs=outputs)

    async def unload(self) -> bool:
        """Gives the device memory back, after what is at work."""
        await asyncio.to_thread(self._threads.shutdown)
        self._session.close()
        return True

    async def _in_thread(self, work: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _run(self, wanted: list[str], feed: dict[str, NDArray[Any]]) -> list[NDArray[Any]]:
        rows = {len(x) for x in feed.values() if np.ndim(x)}
        if not self._fills or len(rows) != 1 or 0 in rows:
            return self._session.run(wanted, feed)
        count = rows.pop()
        more = (1 << (count - 1).bit_length()) - count
        full = {name: np.concatenate([x, np.repeat(x[-1:], more, axis=0)]) for name, x in feed.items()}
        return [y[:count] for y in self._session.run(wanted, full)]


def _metadata(row: Any) -> MetadataTensor:
    """Of an input or output, as the protocol has it: -1 for a dimension that is free."""
    word = row.type.removeprefix("tensor(").removesuffix(")")
    kind = np.dtype({other: name for name, other in WORDS.items()}.get(word, word))
    datatype = NumpyCodec.encode_output(row.name, np.zeros(1, kind)).datatype
    return MetadataTensor(
        name=row.name, datatype=datatype, shape=[n if isinstance(n, int) else -1 for n in row.shape]
    )
