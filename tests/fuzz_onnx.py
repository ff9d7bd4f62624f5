"""Fuzzes the loader of ONNX models: anything but a graph or a clcnn.Error is a finding.

    make fuzz ARGS=-max_total_time=60          (arguments are libFuzzer's)

Seeds are the models of onnx's own backend suite, written to a folder here. Half of the mutations are
libFuzzer's on bytes, which mostly break the protobuf; the others change one field of the parsed model, which
gets further.
One input may take 10 s of processor time; memory is limited by -rss_limit_mb (here 3 GB, of which the
sanitizers take one). Coverage, printed at the end, counts the Python of clcnn.onnx and the C core.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import atheris
import numpy as np

with atheris.instrument_imports(include=["clcnn.onnx"]):
    from clcnn.onnx import fold, importer, model, parse

import onnx
from onnx.backend.test.loader import load_model_tests

import clcnn

sys.path.insert(0, str(Path(__file__).parent / "lib"))
import onnx_models

SEED_BYTES = 20_000
SECONDS = 10.0
DEFAULTS = {
    "-timeout": "300",  # of the clock, for what never ends: it also runs while the process waits for its turn
    "-rss_limit_mb": "3072",
    "-print_final_stats": "1",
    "-max_len": str(2 * SEED_BYTES),
}
# Small enough that the memory limit tells a wrong belief in a declared size from honest work.
fold.MAX_GROWTH = 1 << 20
importer.MAX_FOLDED = 1 << 26
parse.LEAST_MEAN = 1  # divides small files too


def seeds() -> list[bytes]:
    """The small models of the backend suite, and two with what it lacks: functions of the model, and If."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes its expected values on the way
        cases = load_model_tests(kind="node")
    whole = {case.model.SerializeToString() for case in cases if case.model is not None}
    whole |= {
        proto.SerializeToString() for proto in (onnx_models.with_function(), onnx_models.with_branches())
    }
    return sorted(data for data in whole if len(data) <= SEED_BYTES)


def one(data: bytes) -> None:
    start = time.process_time()
    load(data)
    assert time.process_time() - start < SECONDS, "it takes too long"


def load(data: bytes) -> None:
    try:
        loaded = model.load(data)
        shapes = {i.name: [n if isinstance(n, int) else 2 for n in i.shape or ()] for i in loaded.inputs}
        values = {}
        for info in loaded.inputs:
            if info.name in loaded.value_inputs:
                kind = onnx.TensorProto.DataType.Value(info.type[len("tensor(") : -1].upper())
                dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
                if np.prod(shapes[info.name], dtype=object) > 1 << 16:
                    return
                values[info.name] = np.ones(shapes[info.name], dtype)
        program = loaded.specialise(shapes, values)
    except clcnn.Error:
        return
    assert set(program.outputs) == {o.name for o in loaded.outputs}


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """libFuzzer's mutation of the bytes, or a change of one field of the model."""
    rng = random.Random(seed)
    proto = onnx.ModelProto()
    try:
        if rng.random() < 0.5:
            raise ValueError
        proto.ParseFromString(data)
        change(proto, rng)
        changed = proto.SerializeToString()
    except Exception:  # not a model, or a change that its field does not take
        return bytes(atheris.Mutate(data, len(data) + 8 if len(data) + 8 < max_size else max_size))
    return changed if len(changed) <= max_size else data


def change(message: Any, rng: random.Random) -> None:
    """One field somewhere below is removed, doubled, or gets another value."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = rng.choice(fields)
    repeated = not hasattr(value, "ListFields") and hasattr(value, "append") or hasattr(value, "add")
    nested = field.message_type is not None
    if rng.random() < 0.05:
        message.ClearField(field.name)
    elif repeated and rng.random() < 0.3:
        i = rng.randrange(len(value))
        if rng.random() < 0.5:
            del value[i]
        else:
            value.append(value[rng.randrange(len(value))])
    elif nested:
        change(rng.choice(value) if repeated else value, rng)
    elif repeated:
        value[rng.randrange(len(value))] = another(rng.choice(value), rng)
    else:
        setattr(message, field.name, another(value, rng))


def another(value: Any, rng: random.Random) -> Any:
    """A value of the same type, near, extreme, or from a name that models use."""
    if isinstance(value, str):
        return rng.choice(
            ["", "x", "y", "axis", "ai.onnx", "Identity", "If", "Reshape", value + "_", value[:-1]]
        )
    if isinstance(value, bytes):
        return bytes(atheris.Mutate(value, len(value) + 8))
    if isinstance(value, float):
        return rng.choice([0.0, -1.0, 1e-30, 1e30, float("inf"), float("nan"), value * 2])
    return rng.choice([0, 1, -1, 2, 3, 7, 1 << 20, (1 << 31) - 1, -(1 << 31), value + 1, value - 1, -value])


def main() -> None:
    given = {argument.partition("=")[0] for argument in sys.argv[1:]}
    extra = [f"{name}={value}" for name, value in DEFAULTS.items() if name not in given]
    with tempfile.TemporaryDirectory() as corpus:
        for i, seed in enumerate(seeds()):
            (Path(corpus) / f"seed{i}").write_bytes(seed)
        atheris.Setup([*sys.argv, *extra, corpus], one, custom_mutator=mutate)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
