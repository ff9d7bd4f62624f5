"""Fuzzes the readers of weight and model files: anything but a clean load or a WeightsError is a finding.

    make fuzz ARGS=-max_total_time=60          (arguments are libFuzzer's)

Seeds are small real files of each format, written here. Memory is limited, so that a reader that believes a
declared size is found out.
"""

from __future__ import annotations

import io
import resource
import sys
import tempfile
import zipfile
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["clcnn.weights"]):
    from clcnn import weights

sys.path.insert(0, str(Path(__file__).parent / "lib"))
import torch_files

LIMIT_BYTES = 2 << 30


def seeds() -> list[bytes]:
    """One small file of each format."""
    state = {"a.weight": np.arange(12, dtype=np.float32).reshape(3, 4), "a.bias": np.ones(3, np.float32)}
    files = []
    with tempfile.TemporaryDirectory() as folder:
        for save in (weights.save_safetensors, weights.save_npz):
            path = Path(folder) / "seed"
            save(path, state)
            files.append((path if path.exists() else path.with_suffix(".npz")).read_bytes())
    tree = {name: torch_files.whole(str(i), array) for i, (name, array) in enumerate(state.items())}
    storages = {str(i): array.ravel() for i, array in enumerate(state.values())}
    return files + [make(tree, storages) for make in (torch_files.zip_file, torch_files.stream_file)]


def one(data: bytes) -> None:
    try:
        loaded = weights.load(data)
    except weights.WeightsError:
        return
    for name, array in loaded.items():
        assert isinstance(name, str) and array.flags["C_CONTIGUOUS"], name
    assert sum(a.nbytes for a in loaded.values()) <= 4 * max(len(data), 1) + _unpacked(data)


def _unpacked(data: bytes) -> int:
    """What a zip archive may grow to."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return 4 * sum(info.file_size for info in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, EOFError):
        return 0


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT_BYTES, LIMIT_BYTES))
    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(seeds()):
            (Path(corpus) / f"seed{i}").write_bytes(seed)
        atheris.Setup([*sys.argv, corpus], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
