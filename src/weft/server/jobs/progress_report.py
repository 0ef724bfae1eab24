"""A progress report of a run, validated. The other end is `weft.train`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weft.wire.views.jobs import CheckpointView
from weft.wire.views.timestamps import iso

MAX_METRICS: Final = 64
MAX_STEPS: Final = 1 << 53


@dataclass
class Report:
    first_at: float
    """When the first step was reported. The pace counts from there."""
    first_step: int | None = None
    step: int = 0
    at: float = 0.0
    total: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    checkpoint: CheckpointView | None = None
    journalled_at: float = 0.0

    def update(self, body: Mapping[str, Any], now: float) -> None:
        """Record a message of the run. Keys that it leaves out keep their values."""
        if body.get("step") is not None:
            step = _count(body["step"])
            if self.first_step is None or step < self.step:  # the job counts from the start again
                self.first_step, self.first_at = step, now
            self.step = step
        if body.get("total"):
            self.total = _count(body["total"])
        self.metrics |= {str(name)[:100]: _finite(value) for name, value in (body.get("metrics") or {}).items()}
        while len(self.metrics) > MAX_METRICS:
            del self.metrics[next(iter(self.metrics))]
        self.checkpoint = checkpoint_of(body.get("checkpoint")) or self.checkpoint
        self.at = now

    def remaining_s(self, now: float) -> float | None:
        """Return the seconds that are left at the pace so far."""
        steps, seconds = self.step - (self.first_step or 0), self.at - self.first_at
        if not self.total or steps <= 0 or seconds <= 0:
            return None
        return max((self.total - self.step) * seconds / steps - (now - self.at), 0.0)


def _count(value: Any) -> int:
    found = int(value)
    if not 0 <= found <= MAX_STEPS:
        raise ValueError(value)
    return found


def _finite(value: Any) -> float | None:
    """Return a number that JSON can hold, or None."""
    found = math.nan if value is None else float(value)
    return found if math.isfinite(found) else None


def checkpoint_of(body: Any) -> CheckpointView | None:
    """Return the checkpoint that a job reported."""
    if not isinstance(body, dict):
        return None
    step = None if body.get("step") is None else _count(body["step"])
    return CheckpointView(str(body["path"])[:4096], step, iso(float(body["time"])))
