"""Muri's traces: times in milliseconds, a model profile in every row, work in iterations."""

from __future__ import annotations

from typing import Final

from weft.inputs.csv import Row
from weft.model import Profile
from weft.sim.traces.formats.draft import MAX_GPUS, Draft, Format
from weft.sim.traces.profiles import iteration_s, start_s


def draft(row: Row) -> Draft:
    gpus = row.whole("num_gpu", low=1, high=MAX_GPUS)
    return Draft(
        submit_s=row.number("submit_time") / 1000,
        gpus=gpus,
        duration_s=row.number("duration", positive=True) / 1000,
        id=row.text("job_id"),
        profile=_profile(row, gpus),
        iterations=row.whole("iterations", low=1),
        opportunistic=row.whole("priority", high=1) == 1,
        params=_params(row),
    )


def _profile(row: Row, gpus: int) -> Profile:
    model = row.text("model_name")
    if not model:
        raise row.error("model_name", "the name of a model")
    return Profile(
        model=model,
        iteration_s=iteration_s(row.number("iteration_time", positive=True)),
        data_s=row.number("resource_time_0") / 1000,
        gpu_s=row.number("resource_time_1") / 1000,
        network_s=row.number("resource_time_2") / 1000,
        start_s=start_s(model, gpus),
    )


def _params(row: Row) -> tuple[tuple[str, str], ...]:
    batch_size = row.text("batch_size")
    return (("batch_size", batch_size),) if batch_size else ()


_STAGES: Final = ("resource_time_0", "resource_time_1", "resource_time_2")

FORMAT: Final = Format(
    name="muri",
    mark="submit_time",
    required=("num_gpu", "submit_time", "iterations", "model_name", "duration", "iteration_time", *_STAGES, "priority"),
    optional=("job_id", "batch_size", "interval"),
    draft=draft,
)
