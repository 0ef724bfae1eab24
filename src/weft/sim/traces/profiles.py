"""How long an iteration of each known model takes, and its stages, by number of GPUs.

Source of the table: Muri, SIGCOMM'22, Apache-2.0, measured on V100 nodes.
"""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Final

from weft.errors import UnknownName
from weft.model import Profile

CONTENTION: Final = 1.015
"""Muri's reader lengthens every solo iteration by this, its allowance for what shares the node; the published
figures contain it, so a reproduction must too. Stage times stay as measured."""

UNKNOWN_START_S: Final = 10.0
"""What starting a model costs where nobody measured it (Muri's default)."""


def profile(model: str, gpus: int) -> Profile:
    """The profile measured on `gpus` GPUs, or on the nearest number that was measured (of two, the smaller)."""
    return _profile(model, gpus)


def start_s(model: str, gpus: int) -> float:
    """What a start of the model costs; a default for a model that is not in the table."""
    return _profile(model, gpus).start_s if model in _table() else UNKNOWN_START_S


def iteration_s(solo_ms: float) -> float:
    """Solo iteration as Muri's reader has it, in its order of operations, so that figures agree in every digit."""
    return solo_ms / 1000 * CONTENTION


@cache
def _profile(model: str, gpus: int) -> Profile:
    measured = _table().get(model)
    if measured is None:
        raise UnknownName("model", model, KNOWN)
    return measured[min(measured, key=lambda count: (abs(count - gpus), count))]


@cache
def _table() -> dict[str, dict[int, Profile]]:
    table: dict[str, dict[int, Profile]] = {}
    for row in _rows():
        table.setdefault(row["model"], {})[int(row["num_gpu"])] = Profile(
            model=row["model"],
            iteration_s=iteration_s(float(row["solo_iteration_ms"])),
            data_s=float(row["data_stage_ms"]) / 1000,
            gpu_s=float(row["gpu_stage_ms"]) / 1000,
            network_s=float(row["network_stage_ms"]) / 1000,
            start_s=float(row["start_overhead_s"]),
        )
    return table


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files("weft.sim").joinpath("data", "model_profiles.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))


KNOWN: Final = tuple(sorted(_table()))
"""Every model that was measured."""

MODELS: Final = tuple(sorted({row["model"] for row in _rows() if row["in_traces"] == "1"}))
"""The models that occur in traces; a trace without models draws from these."""
