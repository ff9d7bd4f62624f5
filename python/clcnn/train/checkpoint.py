"""Checkpoints: all that a trainer needs to go on, in one npz file."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from clcnn import _arguments
from clcnn.errors import CheckpointError, StateError

if TYPE_CHECKING:
    from clcnn.train.trainer import Trainer

VERSION = 1
META = "clcnn_checkpoint"  # the entry that tells what the others are


def _describe(trainer: Trainer) -> dict[str, Any]:
    """What must be the same where a checkpoint is resumed."""
    layout = trainer._bound.layout
    places = {
        slot.name: [slot.state, slot.offset, list(slot.parameter.shape)] for slot in layout.slots.values()
    }
    return {
        "version": VERSION,
        "parameters": places,
        "accumulate": trainer.rules.accumulate,
        "optimizer": json.loads(json.dumps(trainer.optimizer.describe())),
        "schedule": type(trainer.schedule).__name__ if trainer.schedule else None,
    }


def _plain(record: dict[str, Any]) -> dict[str, Any]:
    """An epoch of the history as JSON has it."""
    return {key: value.tolist() if hasattr(value, "tolist") else value for key, value in record.items()}


def save(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Writes a file beside `path`, and puts it in its place when it is whole and on the disk."""
    target = Path(_arguments.path(path, "save(): path"))
    if trainer._home is None:
        raise StateError("save(): nothing was trained yet")
    meta = {
        **_describe(trainer),
        "input_shape": list(trainer._bound.input_shape),
        "steps": trainer.steps,
        "epochs": trainer.epochs,
        "history": [_plain(record) for record in trainer.history],
        "lr": [group["lr"] for group in trainer.optimizer.param_groups],
        "schedule_state": trainer.schedule.state_dict() if trainer.schedule else None,
    }
    state = trainer._bound.state
    arrays: dict[str, Any] = {name: state[name] for name in state.names()}
    arrays[META] = np.array(json.dumps(meta))
    part = target.with_name(target.name + ".part")  # what a killed process leaves, the next one writes over
    try:
        with part.open("wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Makes a new name last through a power failure, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def load(trainer: Trainer, path: str | os.PathLike[str]) -> None:
    """Puts a trainer where the checkpoint was written."""
    file = _arguments.path(path, "resume(): path")
    meta, arrays = _read(file)
    trainer._begin(tuple(meta["input_shape"]))
    _compare(file, meta, arrays, trainer)
    for name, array in arrays.items():
        trainer._bound.state[name] = array
    trainer._bound.changed()
    trainer.epochs, trainer.history = int(meta["epochs"]), list(meta["history"])
    for group, rate in zip(trainer.optimizer.param_groups, meta["lr"], strict=True):
        group["lr"] = rate
    if trainer.schedule is not None:
        trainer.schedule.load_state_dict(meta["schedule_state"])
        updates = int(meta["steps"]) // trainer.rules.accumulate
        trainer._schedule_start = trainer.schedule.last_epoch - updates
    trainer._advance_to(int(meta["steps"]))


def _read(file: str) -> tuple[dict[str, Any], dict[str, NDArray[np.float32]]]:
    try:
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as entries:
            meta = json.loads(str(entries[META][()]))
            arrays = {name: entries[name] for name in entries.files if name != META}
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise CheckpointError(f"{file}: is no checkpoint, or a damaged one: {error}") from error
    if not isinstance(meta, dict) or meta.get("version") != VERSION:
        raise CheckpointError(f"{file}: is a checkpoint of another version than {VERSION}")
    return meta, arrays


def _compare(
    file: str, meta: dict[str, Any], arrays: dict[str, NDArray[np.float32]], trainer: Trainer
) -> None:
    """Raises CheckpointError with all differences."""
    mine, state = _describe(trainer), trainer._bound.state
    wrong: list[str] = []
    theirs = meta["parameters"]
    for name in sorted({*theirs, *mine["parameters"]}):
        if name not in theirs:
            wrong.append(f"parameter {name!r} is not in the file")
        elif name not in mine["parameters"]:
            wrong.append(f"parameter {name!r} is not in the net")
        elif theirs[name] != mine["parameters"][name]:
            wrong.append(f"parameter {name!r} is {theirs[name]} in the file, {mine['parameters'][name]} here")
    for key in ("accumulate", "optimizer", "schedule"):
        if meta.get(key) != mine[key]:
            wrong.append(f"{key} is {meta.get(key)} in the file, {mine[key]} here")
    for name in sorted({*arrays, *state.names()}):
        if name not in arrays or name not in state.names() or arrays[name].shape != state[name].shape:
            wrong.append(f"array {name!r} differs")
    if wrong:
        raise CheckpointError(f"{file}: " + "; ".join(wrong))
