"""The layer of teams: what planners see and may do while there are teams.

The layer works with the planner of any policy. It hides jobs that their team may not run now, and protects runs that a
guarantee covers from the jobs of other teams. The policy decides the rest: the order inside a team, and which of the
jobs that may borrow comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from math import inf
from typing import ClassVar, Final, Literal

from weft.model import Decision, JobId, Seconds, Start, Stop
from weft.scheduling.core.planning.planner import Context
from weft.scheduling.core.ports import Ask
from weft.scheduling.core.queue.cursors import Entry, QueueCursor, StreamCursor
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.teams import repacking
from weft.scheduling.core.teams.allowances import share_out
from weft.scheduling.core.teams.reclaim import find_reclaim, reclaim_for
from weft.scheduling.core.teams.standing import ROUNDING, Standing, Unit, cover_order, gpus_of, standing_of, units_of
from weft.scheduling.core.teams.view import TeamView

MIN_RECLAIM_GAP_S: Final = 300.0
"""The least time between two reclaims of one job; until then it borrows nothing."""
Refusal = Literal["max", "reclaimed", "allowance"]
"""Why a job may not start: its team has its maximum; it gave GPUs back lately; its team has borrowed its part."""


class TeamContext(Context):
    """A context with teams. `begin` comes first at each plan."""

    remembers: ClassVar[bool] = False
    refuses: ClassVar[bool] = True

    def __init__(self, base: Context) -> None:
        super().__init__(*(getattr(base, each.name) for each in fields(Context)))
        self._apply = base.decide
        self.decide = self.allocator.decide = self._follow
        self.gap_s = max(self.protection.min_run_s, MIN_RECLAIM_GAP_S)
        self.standing = Standing(self.state.teams)
        self.served: dict[JobId, None] = {}
        """Waiting jobs with GPUs promised by guarantee, and replicas with any: no plan asks for them again."""
        self._allowances: dict[str, float] | None = None
        self._counts_asks = False
        """True if the standing counts jobs of asks, which the planner may not have served."""
        self.begin()

    def begin(self) -> None:
        """Count the GPUs of all teams."""
        self.served = {}
        self._count()

    def view(self) -> TeamView:
        return TeamView(self)

    def _count(self) -> None:
        self.standing = standing_of(self.state)
        for name in self.served:
            self.standing.expect(self.state.jobs[name])
        self._allowances, self._counts_asks = None, False

    def _follow(self, decision: Decision) -> None:
        """Decide, and count what changes."""
        if isinstance(decision, Stop):
            self.standing.stop(self.state.jobs[decision.job])
        self._apply(decision)
        if isinstance(decision, Start):
            self.standing.start(self.state.jobs[decision.job])

    # ---- which jobs may have GPUs

    def refusal(self, job: JobState) -> Refusal | None:
        """Return why a waiting job may not start now, wherever there is room; None: it may."""
        standing = self.standing
        if not gpus_of(job) or job.id in self.served:
            return None
        if standing.full_team(job) is not None:
            return "max"
        if standing.is_entitled(job):
            return None
        if self.borrows_from(job) > self.state.now:
            return "reclaimed"
        team = standing.team(job)
        if standing.borrowed.get(team, 0.0) < self.allowance(team) - ROUNDING or self._may_replace(job):
            return None
        return "allowance"

    def _may_replace(self, job: JobState) -> bool:
        """Return whether the policy may give the job the place of a run that the same guarantee covers."""
        if not self.policy.preempts:
            return False
        gpus, sure, covered = gpus_of(job), self.state.teams.guarantees, self.standing.covered
        return any(covered.get(name, 0.0) > 0 and gpus <= sure[name] for name in self.standing.path(job))

    def borrows_from(self, job: JobState) -> Seconds:
        """Return from when on the job may borrow GPUs, and give them back again."""
        return -inf if job.reclaimed_at is None else job.reclaimed_at + self.gap_s

    def allowance(self, team: str) -> float:
        """Return the GPUs that a team may borrow, next to what others borrow or want to borrow."""
        if self._allowances is None:
            self._allowances = self._share_out()
        return self._allowances.get(team, inf)

    def _share_out(self) -> dict[str, float]:
        """Share out the GPUs that are borrowed or idle. Empty: no two teams want any."""
        teams, standing = self.state.teams, self.standing
        demands = {name: gpus for name, gpus in standing.borrowed.items() if gpus > ROUNDING}
        for name, gpus in self._within_rooms(self._wanted()).items():
            demands[name] = demands.get(name, 0.0) + gpus
        if len(demands) < 2:
            return {}
        idle = self.state.resources.after_release.total() - sum(self.allocator.promised.values())
        supply = sum(standing.borrowed.values()) + max(idle, 0)
        return share_out(supply, demands, {name: teams.weight(name) for name in demands})

    def _within_rooms(self, wanted: dict[str, float]) -> dict[str, float]:
        """Return what teams want, within the maxima of teams and departments; teams share the room of a department."""
        teams, standing = self.state.teams, self.standing
        for name in teams.guarantees:  # the innermost come first
            most = teams.by_name[name].max_gpus
            below = {team: gpus for team, gpus in wanted.items() if name in teams.path(team)}
            if most is not None and below:
                room = max(most - standing.held.get(name, 0.0), 0.0)
                wanted |= share_out(room, below, {team: teams.weight(team) for team in below})
        return wanted

    def _wanted(self) -> dict[str, float]:
        """Return the GPUs that the waiting jobs of each team want and could have. If the policy preempts, they could
        have GPUs that others have borrowed."""
        counts: dict[JobState, int] = {}
        if self.order.keyed:
            for entries in self.order.waiting.values():
                for _, _, first in entries:
                    counts[first] = len(entries)
                    break
        else:
            by_shape: dict[object, JobState] = {}
            for job in self.state.waiting.values():
                first = by_shape.setdefault(job.shape, job)
                counts[first] = counts.get(first, 0) + 1
        wanted: dict[str, float] = {}
        for job, count in counts.items():
            if not job.gpus or self.cache.impossible(job.shape, self.placement):
                continue
            if self.policy.preempts or self.allocator.fits(job.shape):
                team = self.standing.team(job)
                wanted[team] = wanted.get(team, 0.0) + gpus_of(job) * count
        return wanted

    def within_maximum(self, replicas: Iterable[JobState]) -> Iterator[JobState]:
        """Yield the waiting replicas and jobs, best first, that the maximum of no team forbids, next to the runs and to
        those before them. Call it between two steps."""
        standing = self.standing
        for replica in replicas:
            if standing.full_team(replica) is None:
                yield replica
                standing.expect(replica)
        cursor = repacking.waiting_cursor(self)
        for _, _, job in cursor:
            if standing.full_team(job) is not None:
                cursor.fail(job.shape)
                continue
            yield job
            standing.expect(job)

    def next_wake(self) -> Seconds | None:
        """Return when the next job may borrow again, or give back again what it borrows."""
        state, reclaimed = self.state, self.state.teams.reclaimed
        for name in [name for name, at in reclaimed.items() if at + self.gap_s <= state.now]:
            del reclaimed[name]
        first = min((at for name, at in reclaimed.items() if name not in state.ended), default=None)
        return None if first is None else first + self.gap_s

    # ---- what planners ask

    def serve_guarantees(self) -> None:
        """Give GPUs to jobs within the guarantees of their teams; others that borrowed them give them back."""
        self.allocator.begin()
        while self._serve_some():  # a guarantee that is used may leave runs of the same department without one
            self._count()
        self.allocator.kept = self.allocator.promised
        self.share_again()

    def share_again(self) -> None:
        """Share out again what teams may borrow: runs have started since."""
        self._allowances = None

    def _serve_some(self) -> bool:
        """Serve the jobs within guarantees; return whether some got GPUs and others did not."""
        allocator, served, failed = self.allocator, False, False
        cursor = repacking.waiting_cursor(self)
        for _, _, job in cursor:
            shape = job.shape
            if job.id in self.served:
                continue
            if not self.is_guaranteed(job):
                cursor.fail(shape)
            elif allocator.start((job,), shape, job.wanted_share):
                served = True
            elif allocator.promise(shape) or self.reclaim(job):
                served = True
                self.note_promise(job)
            else:
                failed = True
                cursor.fail(shape)
        return served and failed

    def cursor(self, *, fresh: bool = False) -> QueueCursor:  # noqa: ARG002
        self.order.fresh.clear()
        if self._counts_asks:
            self._count()
        self._expect_pending()
        return TeamCursor(self)

    def _expect_pending(self) -> None:
        """Count the jobs of the present plan that wait until GPUs are released."""
        for ids in self.state.pending:
            for job in filter(None, map(self.state.jobs.get, ids)):
                if job.ended_at is None and (job.waits or job.releasing):
                    self.standing.expect(job, gpus_of(job) / len(ids))

    def all_jobs(self) -> StreamCursor:
        return repacking.JobCursor(self, super().view().cursor())

    def all_asks(self) -> Iterable[Ask]:
        return repacking.arrange_asks(self, list(super().asks()))

    def asks(self) -> Iterator[Ask]:
        jobs, standing = self.state.jobs, self.standing
        self._counts_asks = self.policy.preempts
        for ask in super().asks():
            if ask.reserve:
                yield ask
                continue
            named = [jobs[name] for name in ask.jobs if name in jobs]
            refused = {job.id for job in named if job.waits and (job.id in self.served or self.refusal(job))}
            if refused:
                ask = replace(ask, jobs=tuple(job for job in ask.jobs if job not in refused))
            named = [job for job in named if job.id not in refused]
            if not named or not self._expect_ask(named, ask.gpus * min(ask.share.request, 1.0) / len(named)):
                continue
            yield ask
            if not self.policy.preempts:  # such a planner has served this ask by now
                for job in named:
                    standing.unexpect(job)

    def _expect_ask(self, jobs: Sequence[JobState], gpus_each: float) -> bool:
        """Count jobs that are to run together; False: a run would hold more than its team may, outside of its weave."""
        more = {job: gpus_each if job.waits else self.standing.growth(job, gpus_each) for job in jobs}
        run = next((job for job in jobs if not job.waits), None)
        if run is not None and more[run] and self.standing.full_team(run, sum(more.values())) is not None:
            return False
        for job, gpus in more.items():
            if gpus:
                self.standing.expect(job, gpus)
        return True

    def victims(self, job: JobState, runs: Iterator[JobState]) -> Iterator[JobState]:
        return (run for run in runs if self.standing.may_stop(job, run))

    def fixed_runs(self, asks: Sequence[Ask]) -> Iterator[set[JobId]]:
        """Yield the runs that guarantees cover if they cover what the policy wants most; then those they cover now."""
        (protected,) = super().fixed_runs(asks)
        jobs, active = self.state.jobs, self.state.active
        units: list[Unit] = [([jobs[job] for job in ask.jobs], ask.gpus) for ask in asks]
        asked = {job for ask in asks for job in ask.jobs}
        others = (run for run in active.values() if run.id not in asked and not run.releasing)
        wished = Standing(self.state.teams, [*units, *units_of(sorted(others, key=cover_order))])
        yield protected | {run.id for run in active.values() if wished.depth(run)}
        yield protected | {run.id for run in active.values() if self.standing.depth(run)}

    def accepts(self, staying: Iterable[Unit]) -> bool:
        """Return whether no team loses GPUs that its guarantee covers."""
        replicas = (run for run in self.state.active.values() if run.job.replica is not None and not run.releasing)
        units = list(staying)
        after, now = Standing(self.state.teams, [*units_of(replicas), *units]), self.standing
        if any(after.held.get(name, 0.0) < gpus - ROUNDING for name, gpus in now.covered.items()):
            return False
        kept = {job.id for jobs, _ in units for job in jobs}
        gone = (run for run in self.state.active.values() if run.id not in kept and now.depth(run))
        return not any(after.is_entitled(run) for run in gone if run.job.replica is None and not run.releasing)

    def kept_gpus(self) -> Mapping[int, int]:
        return self.allocator.kept

    def admits(self, job: JobState) -> bool:
        return self.refusal(job) is None

    def is_guaranteed(self, job: JobState) -> bool:
        return self.standing.is_entitled(job) and self.standing.full_team(job) is None

    def has_promise(self, job: JobState) -> bool:
        return job.id in self.served

    def note_promise(self, job: JobState) -> None:
        self.served[job.id] = None
        self.standing.expect(job)

    def reclaim(self, job: JobState) -> bool:
        found = find_reclaim(self, job)
        if found is None:
            return False
        shifts = not all(self.standing.is_lent(job, run) for run in found.forced)
        reclaim_for(self, job, found)
        if shifts:  # guarantees cover other runs now
            self._count()
        return True


class TeamCursor(QueueCursor):
    """A cursor over the waiting jobs that their teams may run."""

    def __init__(self, context: TeamContext) -> None:
        super().__init__(context.order.waiting.values(), context.state.resources.after_release.top)
        self._context = context

    def __iter__(self) -> Iterator[Entry]:
        context = self._context
        for entry in super().__iter__():
            job = entry[2]
            if job.id in context.served:
                continue
            refused = context.refusal(job)
            if refused is None:
                promised = sum(context.allocator.promised.values())
                yield entry
                if job.waits and sum(context.allocator.promised.values()) > promised:
                    context.standing.expect(job)
            elif refused != "reclaimed":
                self.fail(job.shape)
