"""The counters of woven runs: their pace, their stage times, and which of them do not keep to their turns.

Pure: reports and the time go in, events come out. Agents report the counters with every heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final

from weft.access.wire.messages import StageCounters
from weft.model import Event, JobId, Profile, Progressed, Seconds, Unwoven
from weft.model.profiles import key_of
from weft.scheduling.core.state.job import JobState, weave_id
from weft.scheduling.core.state.state import State
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates
from weft.server.weaves.profiles import differs, profiled
from weft.server.weaves.rates import expected_rate
from weft.views.from_state.measured import StageUse, WovenRun

SILENT_S: Final = 60.0
"""A woven run that takes no token for this long is unwoven."""
STARTS_WAITED_FOR: Final = 2.0
"""Before its first token, a run has this many times the start time of its profile in addition."""
HANG_WINDOW_S: Final = 60.0
MAX_PASSED_OVER: Final = 3
"""A run that was passed over this often within the window is unwoven."""
PACE_WINDOW_S: Final = 30.0
MIN_PACE_S: Final = 5.0
"""The pace counts the iterations of this window, once that has lasted for the least time."""
RATE_PERIOD_S: Final = 10.0
MIN_RATE_CHANGE: Final = 0.1
MAX_RATE: Final = 10.0
PROFILE_PERIOD_S: Final = 60.0
MIN_PROFILE_GRANTS: Final = 20
GPU: Final = "gpu"
NET: Final = "net"
DATA: Final = "data"


class WeaveMonitor:
    """The woven runs as they last reported. `pace` returns how the policy counts weaves; None: it does not."""

    def __init__(self, pace: Callable[[], Pace | Rates | None] = lambda: None) -> None:
        self._pace = pace
        self._runs: dict[JobId, WovenRun] = {}
        self._totals: dict[str, StageUse] = {}

    def of(self, job: JobState) -> WovenRun | None:
        """Return what is known of the present run of a job in its present weave."""
        known = self._runs.get(job.id)
        return known if known is not None and (known.run, known.weave_id) == (job.run, weave_id(job)) else None

    def expected_rate(self, state: State, job: JobState) -> float:
        """Return the rate of a run until its counters say it."""
        return expected_rate(state, job, self._pace())

    def totals(self) -> Mapping[str, StageUse]:
        """Return the turns of all woven runs in each stage since the server started."""
        return self._totals

    def _count(self, known: WovenRun, stages: Mapping[str, StageUse]) -> None:
        """Record the counters of a run. Ignore a report that an earlier one overtook: counters never fall."""
        for name, use in stages.items():
            old = known.stages.get(name, StageUse())
            if use.grants < old.grants:
                return
            total = self._totals.get(name, StageUse())
            self._totals[name] = StageUse(
                total.served_s + max(use.served_s - old.served_s, 0.0),
                total.waited_s + max(use.waited_s - old.waited_s, 0.0),
                total.grants + use.grants - old.grants,
                total.passed_over + max(use.passed_over - old.passed_over, 0),
            )
        known.stages = {**known.stages, **stages}

    def prune(self, active: Collection[JobId]) -> None:
        """Forget jobs that do not run."""
        if len(self._runs) > 2 * len(active) + 100:
            self._runs = {job: run for job, run in self._runs.items() if job in active}

    def record(
        self, state: State, job: JobState, reported_id: str, stages: Iterable[StageCounters], now: Seconds
    ) -> list[Event]:
        """Record the counters of a run. Return what follows from them."""
        if reported_id != weave_id(job) or job.status != "running":
            return []
        if not reported_id:
            return self._leave(job, now)
        known, first = self.of(job), list[Event]()
        if known is None:
            known = self._runs[job.id] = WovenRun(job.run, reported_id, now, served_at=now, profiled_at=now)
            if job.rate_since < job.woven_at:  # its rate is that of before the weave
                first = [Progressed(now, job.id, job.run, None, self.expected_rate(state, job))]
        if job.suspended:  # its processes stand still: neither its pace nor its silence counts
            known.served_at = now
            known.iterations.clear()
            return first
        before = known.grants
        self._count(known, _read(stages))
        if known.grants > before:
            known.served_at = now
        profile = state.profiles.of(job.job)
        if why := _why_unwoven(known, profile, now):
            return [Unwoven(now, job.id, job.run, why)]
        return [*first, *_pace(job, known, profile, now), *_profile(state, job, known, profile, now)]

    def _leave(self, job: JobState, now: Seconds) -> list[Event]:
        """Forget the weave that a run has left. From now on it works as alone."""
        left = self._runs.pop(job.id, None)
        if left is None or left.run != job.run or job.rate == 1.0:
            return []
        return [Progressed(now, job.id, job.run, None, 1.0)]


def _read(stages: Iterable[StageCounters]) -> dict[str, StageUse]:
    return {each.stage: StageUse(each.served_s, each.waited_s, each.grants, each.passed_over) for each in stages}


def _why_unwoven(known: WovenRun, profile: Profile | None, now: Seconds) -> str:
    passes = known.passes
    passes.append((now, known.passed_over))
    while len(passes) > 1 and now - passes[1][0] >= HANG_WINDOW_S:
        passes.popleft()
    if passes[-1][1] - passes[0][1] >= MAX_PASSED_OVER:
        return "hangs"
    start_s = STARTS_WAITED_FOR * profile.start_s if profile is not None and not known.grants else 0.0
    return "silent" if now - known.served_at >= SILENT_S + start_s else ""


def _pace(job: JobState, known: WovenRun, profile: Profile | None, now: Seconds) -> list[Event]:
    """Measure the pace of a run against its solo pace. Record it when it has changed."""
    use = known.stages.get(GPU) or max(known.stages.values(), key=lambda stage: stage.grants, default=StageUse())
    window = known.iterations
    window.append((now, use.grants))
    while len(window) > 2 and now - window[1][0] >= PACE_WINDOW_S:
        window.popleft()
    seconds = now - window[0][0]
    if profile is None or seconds < MIN_PACE_S or not use.grants:
        return []
    rate = known.rate = min((use.grants - window[0][1]) / seconds * profile.iteration_s, MAX_RATE)
    last = known.recorded_rate
    is_due = now - known.rated_at >= RATE_PERIOD_S
    if rate <= 0 or not is_due or (last is not None and abs(rate - last) < MIN_RATE_CHANGE * last):
        return []
    known.rated_at, known.recorded_rate = now, rate
    return [Progressed(now, job.id, job.run, None, rate)]


def _profile(state: State, job: JobState, known: WovenRun, profile: Profile | None, now: Seconds) -> list[Event]:
    """Record the stage times of a run, if they are new."""
    if now - known.profiled_at < PROFILE_PERIOD_S:
        return []
    known.profiled_at = now
    gpu, net, data = (known.stages.get(name, StageUse()) for name in (GPU, NET, DATA))
    if gpu.grants < MIN_PROFILE_GRANTS or profile is None:
        return []
    iterations = gpu.grants
    stages = (
        data.served_s / iterations if data.grants else profile.data_s,
        gpu.served_s / iterations,
        net.served_s / iterations if net.grants else profile.network_s,
    )
    old = profile.data_s, profile.gpu_s, profile.network_s
    iteration_s = profile.iteration_s * sum(stages) / (sum(old) or sum(stages))
    measured = Profile(
        profile.model, iteration_s, *stages, profile.start_s, memory_mb=max(profile.memory_mb, job.measured_mb)
    )
    if not differs(measured, known.measured or profile):
        return []
    known.measured = measured
    return [profiled(state, job, key_of(job.job), measured, now, "woven")]
