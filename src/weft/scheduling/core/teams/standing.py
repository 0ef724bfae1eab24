"""The standing of teams at one moment: the GPUs that each holds, and which runs its guarantee covers.

A run counts for its team and for the departments above it, with its share of its GPUs; the members of a weave count
together as one run. A guarantee covers whole runs in a given order, as far as it goes: first that of the team, then
what is left of its department's. A run that no guarantee covers is *borrowed*.

A waiting job may have a run stopped if the job's side needs it and the run's side can give it. Let A be the innermost
department that has both of them (or the whole cluster). The team or department below A on the job's side must stay
within its guarantee with the job, and no guarantee below A on the run's side may cover the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from weft.model import JobId
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.scheduling.core.state.teams import Path, Teams

ROUNDING: Final = 1e-9
"""The error of sums of shares of GPUs."""
NOT_COVERED: Final = 0


Unit = tuple[Sequence[JobState], float]
"""Jobs that hold GPUs together, a weave or one job, and how many GPUs they count."""


def gpus_of(job: JobState) -> float:
    """Return the GPUs that a waiting job counts."""
    return job.gpus * min(job.wanted_share.request, 1.0)


def held_by(run: JobState) -> float:
    """Return the GPUs that a run holds, alone or with the other members of its weave: of shared GPUs its share."""
    return run.gpus * min(run.share.request, 1.0)


def cover_order(run: JobState) -> tuple[bool, float, int]:
    """Return the place of a run in the order in which guarantees cover runs: replicas, then the ones that run longest,
    so that a run which starts later never makes an earlier one borrowed."""
    return run.job.replica is None, run.started_at, run.seq


def units_of(runs: Iterable[JobState]) -> list[Unit]:
    """Return the runs, with the members of a weave together at the place of the first. Those that stay hold all of its
    GPUs."""
    units: dict[object, list[JobState]] = {}
    for run in runs:
        units.setdefault(run.weave or run.id, []).append(run)
    return [(unit, held_by(unit[0])) for unit in units.values()]


class Standing:
    """The GPUs of each team. `units` are in the order in which guarantees cover them."""

    def __init__(self, teams: Teams, units: Iterable[Unit] = ()) -> None:
        self._teams = teams
        self.held: dict[str, float] = {}
        """The GPUs of each team, those of the teams below it included. Jobs without a team have the name ""."""
        self.borrowed: dict[str, float] = {}
        """The GPUs of each team, without the teams below it, that no guarantee covers."""
        self.covered: dict[str, float] = {}
        """The GPUs of each team that guarantees covered at the beginning, those of the teams below it included."""
        self._depths: dict[JobId, int] = {}
        """The depth of the team or department whose guarantee covers a run: 1 for the outermost."""
        self._counts: dict[JobId, float] = {}
        """The GPUs that each run counts."""
        self._expected: dict[JobId, tuple[float, bool]] = {}
        """Waiting jobs that are to have GPUs, and count already; whether they borrow them."""
        self._cover(list(units))

    def path(self, job: JobState) -> Path:
        return self._teams.path(job.shape.family.team)

    def team(self, job: JobState) -> str:
        """Return the innermost team that a job counts for; empty: none."""
        path = self.path(job)
        return path[-1] if path else ""

    # ---- what a job may have

    def fits_guarantee(self, name: str, gpus: float) -> bool:
        """Return whether a team stays within its guarantee with these GPUs more."""
        return self.held.get(name, 0.0) + gpus <= self._teams.guarantees[name] + ROUNDING

    def is_entitled(self, job: JobState) -> bool:
        """Return whether the job's team or one of its departments stays within its guarantee with the job."""
        gpus = gpus_of(job)
        return gpus > 0 and any(self.fits_guarantee(name, gpus) for name in self.path(job))

    def full_team(self, job: JobState, gpus: float | None = None) -> str | None:
        """Return the team of the job, or a department, whose maximum has no room for the job, or for these GPUs more;
        None: all have room."""
        gpus = gpus_of(job) if gpus is None else gpus
        for name in self.path(job):
            most = self._teams.by_name[name].max_gpus
            if most is not None and gpus and self.held.get(name, 0.0) + gpus > most + ROUNDING:
                return name
        return None

    def may_stop(self, job: JobState, run: JobState) -> bool:
        """Return whether the guarantees allow to stop the run for the job. A job may take the place of a run that the
        same guarantee covers only if it covers the job then: otherwise the run would get its GPUs back."""
        depth, path = self._depths.get(run.id, NOT_COVERED), self.path(run)
        if not depth:
            return True
        gpus = gpus_of(job) - self._counts.get(run.id, 0.0)
        return depth <= _common(self.path(job), path) and self.fits_guarantee(path[depth - 1], gpus)

    def may_reclaim(self, job: JobState, run: JobState) -> bool:
        """Return whether the job may have the run stopped whatever the policy says, if the run's side can give it."""
        mine = self.path(job)
        common = _common(mine, self.path(run))
        return common < len(mine) and self.fits_guarantee(mine[common], gpus_of(job))

    def lenders(self, job: JobState, run: JobState) -> Path:
        """Return the departments and the team of a run, without those that it has in common with the job."""
        path = self.path(run)
        return path[_common(self.path(job), path) :]

    def is_lent(self, job: JobState, run: JobState) -> bool:
        """Return whether no guarantee of the run's side covers it."""
        return self.depth(run) <= len(self.path(run)) - len(self.lenders(job, run))

    def depth(self, run: JobState) -> int:
        """Return how deep the team is whose guarantee covers the run; 0: the run is borrowed."""
        return self._depths.get(run.id, NOT_COVERED)

    def growth(self, run: JobState, gpus: float) -> float:
        """Return how many GPUs more a run would count if it held this many, such as outside of its weave."""
        return max(gpus - self._counts.get(run.id, gpus), 0.0)

    # ---- what changes

    def expect(self, job: JobState, gpus: float | None = None) -> None:
        """Count a waiting job that is to have GPUs."""
        if job.id in self._expected:
            return
        gpus = gpus_of(job) if gpus is None else gpus
        borrows = not any(self.fits_guarantee(name, gpus) for name in self.path(job))
        self._expected[job.id] = gpus, borrows
        self._count(job, gpus)
        if borrows:
            self._borrow(job, gpus)

    def unexpect(self, job: JobState) -> None:
        """Count a waiting job no longer."""
        if job.id not in self._expected:
            return
        gpus, borrows = self._expected.pop(job.id)
        self._count(job, -gpus)
        if borrows:
            self._borrow(job, -gpus)

    def start(self, run: JobState) -> None:
        """Count a run that has just started."""
        self.unexpect(run)
        gpus, path = held_by(run) / max(len(run.weave), 1), self.path(run)
        depth = next((at + 1 for at in reversed(range(len(path))) if self.fits_guarantee(path[at], gpus)), NOT_COVERED)
        self._add(run, gpus)
        if depth:
            self._depths[run.id] = depth
        else:
            self._borrow(run, gpus)

    def stop(self, run: JobState) -> None:
        """Count a run no longer that is to stop."""
        gpus = self._counts.pop(run.id, 0.0)
        self._count(run, -gpus)
        if not self._depths.pop(run.id, NOT_COVERED):
            self._borrow(run, -gpus)

    # ---- inside

    def _count(self, job: JobState, gpus: float) -> None:
        for name in self.path(job) or ("",):
            self.held[name] = self.held.get(name, 0.0) + gpus

    def _borrow(self, run: JobState, gpus: float) -> None:
        name = self.team(run)
        self.borrowed[name] = self.borrowed.get(name, 0.0) + gpus

    def _add(self, run: JobState, gpus: float) -> None:
        self._counts[run.id] = gpus
        self._count(run, gpus)

    def _cover(self, units: list[Unit]) -> None:
        left = [(jobs, gpus, self.path(jobs[0])) for jobs, gpus in units]
        held, counts = self.held, self._counts
        for jobs, gpus, path in left:
            if len(jobs) > 1:
                for job in jobs:
                    self._add(job, gpus / len(jobs))
                continue
            counts[jobs[0].id] = gpus
            for name in path or ("",):
                held[name] = held.get(name, 0.0) + gpus
        for depth in range(max((len(path) for _, _, path in left), default=0), 0, -1):
            uncovered = []
            for unit in left:
                jobs, gpus, path = unit
                if len(path) < depth or not self._use_guarantee(path, depth, gpus):
                    uncovered.append(unit)
                    continue
                for job in jobs:
                    self._depths[job.id] = depth
            left = uncovered
        for jobs, gpus, _ in left:
            self._borrow(jobs[0], gpus)

    def _use_guarantee(self, path: Path, depth: int, gpus: float) -> bool:
        """Use so much of the guarantee of the team at this depth, if enough of it is left."""
        covered, name = self.covered, path[depth - 1]
        if covered.get(name, 0.0) + gpus > self._teams.guarantees[name] + ROUNDING:
            return False
        for outer in path[:depth]:
            covered[outer] = covered.get(outer, 0.0) + gpus
        return True


def standing_of(state: State) -> Standing:
    """Return the standing of all teams now."""
    runs = (run for run in state.active.values() if not run.releasing)
    return Standing(state.teams, units_of(sorted(runs, key=cover_order)))


def _common(one: Path, other: Path) -> int:
    """Return how many departments two paths have in common."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
