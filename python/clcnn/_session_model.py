"""The model of a session: its file, what the file says of itself, and how it is read again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clcnn import _arguments
from clcnn.errors import StateError

if TYPE_CHECKING:
    from clcnn.onnx import Model


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the file says of itself."""

    producer_name: str
    graph_name: str
    domain: str
    description: str
    graph_description: str
    version: int
    custom_metadata_map: dict[str, str]


@dataclass(frozen=True)
class File:
    """A model's file, all of the model being in it, and how it was when it was read."""

    path: Path
    size: int
    changed_ns: int

    @classmethod
    def at(cls, path: Path) -> File:
        state = path.stat()
        return cls(path, state.st_size, state.st_mtime_ns)

    def load(self) -> Model:
        from clcnn import onnx

        try:
            same = self.at(self.path) == self
        except OSError as error:
            raise StateError(f"the session's model is gone: {error}") from error
        if not same:
            raise StateError(f"{self.path} has changed since the session was made from it")
        return onnx.load(self.path)


def opened(source: Any) -> tuple[File | None, Model]:
    """A model, and its file where it can be read again from there: not if some of it is in other files."""
    from clcnn import onnx

    if isinstance(source, onnx.Model):
        return None, source
    if not isinstance(source, (str, os.PathLike)):
        return None, onnx.load(source)
    file = File.at(Path(_arguments.path(source, "path_or_bytes")).absolute())
    model = onnx.load(source)
    whole = sum(array.nbytes for array in model.arrays.values()) <= file.size
    return file if whole else None, model


def metadata(model: Model) -> ModelMetadata:
    header, graph = model.header, model.graph_proto
    return ModelMetadata(
        header.producer_name,
        graph.name,
        header.domain,
        header.doc_string,
        graph.doc_string,
        header.model_version,
        {entry.key: entry.value for entry in header.metadata_props},
    )
