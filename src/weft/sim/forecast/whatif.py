"""The forecast of the present queue under a change, compared with the forecast without it.

Both run over the same sampled times, so that they differ by the change alone. Waits count from now.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from weft.model import Cancelled, Edited, Event, Gpu, JobId, Node, NodeId, NodeJoined, Seconds, Wake
from weft.model.status import ENDED
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.state import State
from weft.sim.forecast.calibration import Calibration
from weft.sim.forecast.quantiles import Forecast, JobForecast, Sampling, forecast
from weft.sim.forecast.remaining import remaining_times

NODE_PREFIX: Final = "whatif-"
MAX_CHANGES: Final = 5
"""The jobs that gain most, and the ones that lose most."""
LEAST_S: Final = 1.0
"""A smaller difference is no change."""


@dataclass(frozen=True)
class Change:
    """A change of the present. Jobs that are not there any more are ignored."""

    policy: str = ""
    """Empty: the present one."""
    add_nodes: tuple[int, ...] = ()
    """The GPUs of each further node. They are like most GPUs of the cluster."""
    cancel: tuple[JobId, ...] = ()
    priorities: Mapping[JobId, int] | None = None

    def events(self, scheduler: Scheduler, now: Seconds) -> list[Event]:
        """Return the events of the change, as if they happened now."""
        state, events = scheduler.state, list[Event]()
        if self.policy:
            events.append(Wake(now))  # it plans at once
        for number, gpus in enumerate(self.add_nodes, start=1):
            events.append(NodeJoined(now, _node(state, number, gpus)))
        for job in self.cancel:
            if job in state.jobs and state.jobs[job].status not in ENDED:
                events.append(Cancelled(now, job))
        for job, priority in (self.priorities or {}).items():
            known = state.jobs.get(job)
            if known is not None and not known.active and known.status not in ENDED:
                events.append(Edited(now, replace(known.job, priority=priority)))
        return events


@dataclass(frozen=True, slots=True)
class Waits:
    """The waits of the jobs that wait now, from now on."""

    average_s: float | None
    p90_s: float | None
    """The median wait that nine of ten jobs do not exceed."""
    unknown: int
    """Jobs without an estimate."""


@dataclass(frozen=True, slots=True)
class UserEffect:
    user: str
    jobs: int
    before_s: float | None
    after_s: float | None
    """The average waits."""


@dataclass(frozen=True, slots=True)
class JobEffect:
    job: JobId
    user: str
    what: str
    """start, of a job that waits; end, of one that runs."""
    before_s: float | None
    after_s: float | None
    """Seconds from now; None: no estimate."""

    @property
    def gain_s(self) -> float:
        return _seconds(self.before_s) - _seconds(self.after_s) if self.before_s != self.after_s else 0.0


@dataclass(frozen=True, slots=True)
class WhatIf:
    at: Seconds
    samples: int
    waiting: int
    """Jobs that wait now and are not cancelled by the change."""
    before: Waits
    after: Waits
    users: tuple[UserEffect, ...]
    gain: tuple[JobEffect, ...]
    lose: tuple[JobEffect, ...]


def what_if(
    scheduler: Scheduler, now: Seconds, change: Change, *, changed: Scheduler | None = None,
    sampling: Sampling | None = None, calibration: Calibration | None = None,
) -> WhatIf:  # fmt: skip
    """Compare the forecasts with and without a change. `changed`: a scheduler with the policy of the change."""
    calibration = calibration or Calibration()
    times = remaining_times(scheduler.state, now)
    before = forecast(scheduler, now, sampling, times=times)
    after = forecast(scheduler, now, sampling, changes=change.events, changed=changed, times=times)
    return compare(calibration.correct(before), calibration.correct(after), change.cancel)


def compare(before: Forecast, after: Forecast, cancelled: Iterable[JobId] = ()) -> WhatIf:
    """Compare two forecasts of the same jobs."""
    now, gone = before.at, set(cancelled)
    effects = [
        _effect(each, after.jobs[job], now)
        for job, each in before.jobs.items()
        if job not in gone and job in after.jobs
    ]
    waiting = [each for each in effects if each.what == "start"]
    users: dict[str, list[JobEffect]] = {}
    for effect in waiting:
        users.setdefault(effect.user, []).append(effect)
    by_user = [
        UserEffect(user, len(jobs), _mean(each.before_s for each in jobs), _mean(each.after_s for each in jobs))
        for user, jobs in sorted(users.items())
    ]
    changed = sorted((each for each in effects if abs(each.gain_s) >= LEAST_S), key=lambda each: -each.gain_s)
    return WhatIf(
        now, min(before.samples, after.samples), len(waiting),
        _waits([each.before_s for each in waiting]), _waits([each.after_s for each in waiting]), tuple(by_user),
        tuple(each for each in changed[:MAX_CHANGES] if each.gain_s > 0),
        tuple(each for each in changed[: -MAX_CHANGES - 1 : -1] if each.gain_s < 0),
    )  # fmt: skip


def _effect(before: JobForecast, after: JobForecast, now: Seconds) -> JobEffect:
    if before.waits:
        return JobEffect(before.job, before.user, "start", _left(before.start.p50, now), _left(after.start.p50, now))
    return JobEffect(before.job, before.user, "end", _left(before.end.p50, now), _left(after.end.p50, now))


def _left(at: Seconds | None, now: Seconds) -> float | None:
    return None if at is None else max(at - now, 0.0)


def _seconds(left_s: float | None) -> float:
    return math.inf if left_s is None else left_s


def _mean(waits: Iterable[float | None]) -> float | None:
    known = [wait_s for wait_s in waits if wait_s is not None]
    return fmean(known) if known else None


def _waits(waits: Sequence[float | None]) -> Waits:
    known = sorted(wait_s for wait_s in waits if wait_s is not None)
    p90_s = known[math.ceil(0.9 * len(known)) - 1] if known else None
    return Waits(_mean(known), p90_s, len(waits) - len(known))


def _node(state: State, number: int, gpus: int) -> Node:
    """Return a further node with the GPUs that are the most frequent."""
    counts = Counter(gpu for host in state.resources.nodes if host.alive for gpu in host.node.gpus)
    usual = counts.most_common(1)[0][0] if counts else Gpu()
    taken = state.resources.by_id
    while (name := NodeId(f"{NODE_PREFIX}{number}")) in taken:
        number += 1
    return Node(name, (usual,) * gpus)
