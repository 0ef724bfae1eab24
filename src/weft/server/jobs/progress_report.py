"""A progress report of a run, validated. The other end is `weft.train`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from weft.views.answers.jobs import CheckpointView, StageTimesView
from weft.views.from_state.timestamps import iso

MAX_METRICS: Final = 64
MAX_SERIES: Final = 8
"""Metrics of a run whose past is kept."""
MAX_SAMPLES: Final = 128
MAX_STEPS: Final = 1 << 53
MAX_SECONDS: Final = 1e9


class Series:
    """The past of each metric, in a limited number of values: when they are full, every second one goes."""

    def __init__(self) -> None:
        self.values: dict[str, list[float | None]] = {}
        self._strides: dict[str, int] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: Mapping[str, float | None]) -> None:
        for name, value in metrics.items():
            if name not in self.values:
                if len(self.values) >= MAX_SERIES:
                    continue
                self.values[name], self._strides[name], self._counts[name] = [], 1, 0
            values, stride = self.values[name], self._strides[name]
            if self._counts[name] % stride == 0:
                values.append(value)
                if len(values) >= MAX_SAMPLES:
                    del values[1::2]
                    self._strides[name] = stride * 2
            self._counts[name] += 1


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
    stages: StageTimesView | None = None
    series: Series = field(default_factory=Series)
    journalled_at: float = 0.0
    metrics_kept_at: float = 0.0
    """When the journal last got the metrics."""
    profiled_at: float = 0.0
    last: Mapping[str, Any] = field(default_factory=dict)

    def update(self, body: Mapping[str, Any], now: float) -> None:
        """Record a message of the run. Keys that it leaves out keep their values."""
        if body.get("step") is not None:
            step = _count(body["step"])
            if self.first_step is None or step < self.step:  # the job counts from the start again
                self.first_step, self.first_at = step, now
            self.step = step
        if body.get("total"):
            self.total = _count(body["total"])
        reported = {str(name)[:100]: _finite(value) for name, value in (body.get("metrics") or {}).items()}
        self.metrics |= reported
        if body != self.last:  # a worker repeats the last report when it connects again
            self.series.add(reported)
        self.last = dict(body)
        while len(self.metrics) > MAX_METRICS:
            del self.metrics[next(iter(self.metrics))]
        self.checkpoint = checkpoint_of(body.get("checkpoint")) or self.checkpoint
        self.stages = stage_times_of(body.get("stages")) or self.stages
        self.at = now

    @property
    def has_progress(self) -> bool:
        """True if the job reports more than the times of its stages, which hooks do for it."""
        return self.first_step is not None or bool(self.metrics) or self.checkpoint is not None

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


_TIMES: Final = ("data_s", "gpu_s", "net_s", "wait_s", "turn_s", "step_s")
_OTHER_TIMES: Final = ("first_step_s", "fetch_s", "fetch_cpu_s")
_COUNTS: Final = ("steps", "memory_mb", "rss_mb", "workers")


def stage_times_of(body: Any) -> StageTimesView | None:
    """Return the times of stages that a job reported. Raise if they make no sense."""
    if not isinstance(body, dict):
        return None
    p90 = body.get("p90") or {}
    found: dict[str, Any] = {name: _count(body.get(name) or 0) for name in _COUNTS}
    found |= {name: _seconds(body.get(name, 0.0)) for name in _TIMES}
    found |= {name: _seconds(body[name]) for name in _OTHER_TIMES if body.get(name) is not None}
    found["p90"] = {name: _seconds(p90[name]) for name in _TIMES if name in p90}
    return StageTimesView(**found, separate_net=bool(body.get("separate_net")))


def _seconds(value: Any) -> float:
    found = float(value)
    if not 0 <= found <= MAX_SECONDS:
        raise ValueError(value)
    return found


def checkpoint_of(body: Any) -> CheckpointView | None:
    """Return the checkpoint that a job reported."""
    if not isinstance(body, dict):
        return None
    step = None if body.get("step") is None else _count(body["step"])
    return CheckpointView(str(body["path"])[:4096], step, iso(float(body["time"])))
