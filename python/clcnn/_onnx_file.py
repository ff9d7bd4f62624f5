"""ONNX files that compile() is given. Their graphs are kept in the cache folder: to read and fold thousands
of nodes takes a third of a second, to repeat the steps of the graph a tenth of that.

A graph is found by what tells its file from others, and from itself before it was written to: the inode, its
times and size, the first and the last bytes. Besides by the shapes asked for, and the code that made it.
Models of which parts lie in other files are not kept.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from clcnn import _core, _files
from clcnn._graph import kept
from clcnn._log import logger
from clcnn._version import __version__
from clcnn.device import cache_folder

if TYPE_CHECKING:
    from clcnn.graph import Graph

ENDS = 1 << 16  # bytes at the beginning and at the end that are looked at
CODE = ("", "onnx", "onnx/ops", "_graph")  # folders of the package whose code makes graphs


class OnnxFile:
    """A file whose graphs are asked for by shape."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def graph(self, input_shape: Any) -> Graph:
        """The graph for shapes as compile() takes them. Raises what clcnn.onnx.load() and Model.graph()
        raise."""
        folder, shapes = cache_folder(), _shapes_text(input_shape)
        if folder is None or shapes is None or not self.path.is_file():
            return self._imported(input_shape)[0]
        with suppress(OSError, kept.Unfit), self.path.open("rb", buffering=0) as file:
            entry = folder / _key(file, shapes)
            graph = kept.unpack(entry.read_bytes(), file)
            if entry != folder / _key(file, shapes):
                raise kept.Unfit  # somebody writes to the file
            os.utime(entry)
            logger.info("%s: its graph is in the cache", self.path.name)
            return graph
        return self._imported_and_kept(input_shape, folder, shapes)

    def _imported(self, input_shape: Any) -> tuple[Graph, list[kept.Place] | None]:
        """The graph, and the places of its arrays in the file."""
        from clcnn import onnx, sources

        model = onnx.load(self.path)
        return sources.graph_of(model, input_shape), model.places

    def _imported_and_kept(self, input_shape: Any, folder: Path, shapes: str) -> Graph:
        with self.path.open("rb", buffering=0) as file:
            name = _key(file, shapes)
            graph, places = self._imported(input_shape)
            with suppress(OSError, kept.Unfit):
                if places is not None and name == _key(file, shapes):
                    _files.replace(folder / name, kept.pack(graph, places))
        return graph


def _key(file: BinaryIO, shapes: str) -> str:
    """The name of the file in the cache folder that has the graph: as those of kernels, so that the kernel
    cache counts and clears it among its own (cache.c)."""
    facts = os.fstat(file.fileno())
    told = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    file.seek(0)
    first = file.read(ENDS)
    file.seek(max(facts.st_size - ENDS, 0))
    text = f"{__version__}\n{_code()}\n{told}\n{shapes}\n".encode() + first + file.read(ENDS)
    name = _core.hash128(text).hex() + _core.hash128(b"graph" + text).hex()
    return f"{name[:2]}/{name}.bin"


def _shapes_text(given: Any) -> str | None:
    """Shapes as text, the same for the same shapes; None for what is none."""
    if given is None:
        return "as declared"
    try:
        if isinstance(given, Mapping):
            return repr(sorted((str(name), [int(n) for n in shape]) for name, shape in given.items()))
        if all(hasattr(n, "__index__") for n in given):
            return repr([int(n) for n in given])
        return repr([[int(n) for n in shape] for shape in given])
    except (TypeError, ValueError):
        return None


@cache
def _code() -> str:
    """Stands for the code that makes graphs, as it was when the first of them was asked for."""
    package = Path(__file__).parent
    files = [file for folder in CODE for file in os.scandir(package / folder) if file.is_file()]
    return repr(sorted((file.path, file.stat().st_size, file.stat().st_mtime_ns) for file in files))
