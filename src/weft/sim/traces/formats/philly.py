"""Microsoft's Philly trace: jobs with dates and durations. The reader draws their models and classes at random."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from weft.inputs.csv import Row
from weft.sim.traces.formats.draft import MAX_GPUS, Draft, Format

_EPOCH: Final = datetime(1970, 1, 1)


def draft(row: Row) -> Draft:
    return Draft(
        submit_s=_seconds(row),
        gpus=row.whole("num_gpus", low=1, high=MAX_GPUS),
        duration_s=row.number("duration", positive=True),
        id=row.text("job_id"),
        user=row.text("cluster"),
    )


def _seconds(row: Row) -> float:
    """Return the timestamp in seconds since 1970. A date without a zone is UTC, whatever the zone of this machine."""
    try:
        date = datetime.fromisoformat(row.text("timestamp"))
        if date.tzinfo is not None:
            date = date.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise row.error("timestamp", "a date such as 2017-10-09 07:01:55") from None
    return (date - _EPOCH).total_seconds()


FORMAT: Final = Format(
    name="philly",
    mark="timestamp",
    required=("timestamp", "duration", "num_gpus"),
    optional=("job_id", "gpu_time", "cluster"),
    draft=draft,
    from_earliest=True,
)
