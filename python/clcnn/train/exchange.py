"""How devices get the sums of what each has computed of its part of a batch.

A piece is an output of the gradients' plans: a bucket of gradients, or running statistics. The plan that
updates takes each piece from so many sources, and adds them in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import clcnn
from clcnn.train.ranks import Ranks
from clcnn.train.team import Mirrors, Team, add_up

Pieces = Mapping[str, int]  # name: elements
Given = dict[str, Any]  # inputs of the plan that updates: arrays, or tensors of its device


def source_name(piece: str, source: int) -> str:
    """Of the input for what a source has computed of a piece."""
    return f"{piece}:from:{source}"


class OnDevices:
    """Each device has every source's pieces in tensors. What it computes itself stays there, and goes on to
    the others while it still computes the next ones; sums are taken by all devices alike."""

    def __init__(self, team: Team, pieces: Pieces, sources: int) -> None:
        self.sources = sources
        self._pieces = dict(pieces)
        self._tensors = [
            [{name: clcnn.Tensor(device, (size,)) for name, size in pieces.items()} for _ in range(sources)]
            for device in team.devices
        ]
        self._left_out = [False] * sources

    def targets(self, source: int) -> tuple[list[Any], list[list[clcnn.Tensor]]]:
        """Where the source's plan writes its pieces, and where they go on to."""
        self._left_out[source] = False
        others = [of for device, of in enumerate(self._tensors) if device != source]
        own = self._tensors[source][source]
        return [own[name] for name in self._pieces], [
            [of[source][name] for of in others] for name in self._pieces
        ]

    def leave_out(self, source: int) -> None:
        """A source that computes nothing in this step: zeros in place of its pieces."""
        if self._left_out[source]:
            return
        for of in self._tensors:
            for name, tensor in of[source].items():
                tensor.write(np.zeros(self._pieces[name], np.float32))
        self._left_out[source] = True

    def gather(self, busy: Sequence[int]) -> list[Given]:
        """For each device what the plan that updates is given. Once all sources are done."""
        return [
            {source_name(name, i): of[i][name] for i in range(self.sources) for name in self._pieces}
            for of in self._tensors
        ]


class OnHost:
    """Sums are taken on the host, over the devices and then over the ranks, and sent to all devices."""

    sources = 1

    def __init__(self, team: Team, pieces: Pieces, parts: int, ranks: Ranks) -> None:
        self._team, self._ranks = team, ranks
        self._flats, self._parts = [], []
        bounds = np.cumsum([0, *pieces.values()])
        for _ in range(max(1, parts)):  # there is no part where other ranks have all samples
            flat = np.zeros(bounds[-1], np.float32)
            self._flats.append(flat)
            self._parts.append({name: flat[a:b] for name, a, b in zip(pieces, bounds, bounds[1:])})

    def targets(self, source: int) -> tuple[list[Any], None]:
        """As of OnDevices."""
        return list(self._parts[source].values()), None

    def leave_out(self, source: int) -> None:
        """As of OnDevices: sums leave it out."""

    def gather(self, busy: Sequence[int]) -> list[Given]:
        """As of OnDevices, with the sums over all ranks."""
        if not busy:
            self._flats[0][:] = 0
        first, *_ = busy or [0]
        total = add_up(self._team, [self._flats[i] for i in busy or [0]])
        self._ranks.add(total)
        given = {source_name(name, 0): piece for name, piece in self._parts[first].items()}
        return [given] * len(self._team.devices)


def exchange(states: Mirrors, pieces: Pieces, parts: int, ranks: Ranks | None) -> OnDevices | OnHost:
    """The one for these pieces of so many parts: steps on batches of other shapes use it, too. It lives as
    long as the states, and then as plans that timed out."""
    key = (parts, *pieces)
    if key not in states.shared:
        made = (
            OnDevices(states.team, pieces, parts)
            if ranks is None
            else OnHost(states.team, pieces, parts, ranks)
        )
        states.shared[key] = made
    found: OnDevices | OnHost = states.shared[key]
    return found
