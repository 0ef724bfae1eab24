"""Stage times, waits and the pace of woven jobs, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.views.answers.jobs import StageView


def pace(rate: float) -> str:
    """Return the pace of a job against its solo pace."""
    return f"{rate:.0%}"


def times(stages: Sequence[StageView]) -> str:
    """Return the mean time of each stage: `gpu 12.0 ms, net 3.1 ms`."""
    return ", ".join(f"{each.stage} {milliseconds(each.time_s)}" for each in stages if each.time_s is not None) or "-"


def waits(stages: Sequence[StageView]) -> str:
    """Return the mean wait for each stage, and how often the job was passed over there."""
    return ", ".join(_wait(each) for each in stages if each.wait_s is not None) or "-"


def _wait(stage: StageView) -> str:
    over = f" (passed over {stage.passed_over} times)" if stage.passed_over else ""
    return f"{stage.stage} {milliseconds(stage.wait_s)}{over}"


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e3:.1f} ms"
