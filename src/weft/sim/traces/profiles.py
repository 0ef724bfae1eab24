"""Profiles of the known models: iteration time and stage times, by number of GPUs.

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
"""Muri's reader multiplies every solo iteration by this, as an allowance for other load on the node. The published
figures contain it, so a reproduction must too. Stage times stay as measured."""

UNKNOWN_START_S: Final = 10.0
"""Start-up time of a model that was not measured (Muri's default)."""


UNMEASURED: Final = Profile("none", iteration_s=1.0, data_s=0.0, gpu_s=1.0, network_s=0.0)
"""The profile of a job that was not measured: it uses the GPU all the time, and starts at once."""


def profile(model: str, gpus: int) -> Profile:
    """Return the profile measured on `gpus` GPUs, or on the nearest measured number (of two, the smaller)."""
    return _profile(model, gpus)


def start_s(model: str, gpus: int) -> float:
    """Return the start-up time of a model; a default if the model is not in the table."""
    return _profile(model, gpus).start_s if model in _table() else UNKNOWN_START_S


def iteration_s(solo_ms: float) -> float:
    """Return a solo iteration with Muri's order of operations, so that figures agree in every digit."""
    return solo_ms * CONTENTION / 1000


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
"""All measured models."""

MODELS: Final = tuple(sorted({row["model"] for row in _rows() if row["in_traces"] == "1"}))
"""The models that occur in traces; a trace without models draws from these."""
