"""ElasticFlow's traces (Microsoft ITP): times in seconds; the reader draws models and classes."""

from __future__ import annotations

from typing import Final

from weft.inputs.csv import Row
from weft.sim.traces.formats.draft import MAX_GPUS, Draft, Format


def draft(row: Row) -> Draft:
    return Draft(
        submit_s=row.number("submission_time"),
        gpus=row.whole("num_gpu", low=1, high=MAX_GPUS),
        duration_s=row.number("duration", positive=True),
        id=row.text("job_id"),
    )


FORMAT: Final = Format(
    name="elasticflow",
    mark="submission_time",
    required=("submission_time", "duration", "num_gpu"),
    optional=("job_id",),
    draft=draft,
)
