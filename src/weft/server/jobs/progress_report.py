"""What a run says of itself, as far as it makes sense. See `weft.train` for the other end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weft.server.api.rows import iso
from weft.wire.views.jobs import CheckpointView

MOST_METRICS: Final = 64
MOST_STEPS: Final = 1 << 53


@dataclass
class Report:
    first_at: float
    """When the first step was heard of that the pace is reckoned from."""
    first_step: int | None = None
    step: int = 0
    at: float = 0.0
    total: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict)
    checkpoint: CheckpointView | None = None
    told_at: float = 0.0

    def take(self, body: Mapping[str, Any], now: float) -> None:
        """A message of the job; what it does not say stays."""
        if body.get("step") is not None:
            step = _count(body["step"])
            if self.first_step is None or step < self.step:  # it counts anew
                self.first_step, self.first_at = step, now
            self.step = step
        if body.get("total"):
            self.total = _count(body["total"])
        self.metrics |= {str(name)[:100]: _finite(value) for name, value in (body.get("metrics") or {}).items()}
        while len(self.metrics) > MOST_METRICS:
            del self.metrics[next(iter(self.metrics))]
        self.checkpoint = checkpoint_of(body.get("checkpoint")) or self.checkpoint
        self.at = now

    def rest_s(self, now: float) -> float | None:
        """What is left, at the pace so far."""
        steps, seconds = self.step - (self.first_step or 0), self.at - self.first_at
        if not self.total or steps <= 0 or seconds <= 0:
            return None
        return max((self.total - self.step) * seconds / steps - (now - self.at), 0.0)


def _count(value: Any) -> int:
    found = int(value)
    if not 0 <= found <= MOST_STEPS:
        raise ValueError(value)
    return found


def _finite(value: Any) -> float | None:
    """None: not a number that JSON could hold."""
    found = math.nan if value is None else float(value)
    return found if math.isfinite(found) else None


def checkpoint_of(body: Any) -> CheckpointView | None:
    """What a job has said of a checkpoint."""
    if not isinstance(body, dict):
        return None
    step = None if body.get("step") is None else _count(body["step"])
    return CheckpointView(str(body["path"])[:4096], step, iso(float(body["time"])))
