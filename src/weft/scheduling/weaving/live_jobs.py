"""The live jobs as columns of numbers, kept from one plan to the next: a plan reads only the jobs that changed.

A job changes only by a fact that names it, by one about all jobs, or when it leaves its GPUs. The progress of jobs that
run follows from their rates. Rows are in the order of submission, so that columns do not depend on what happened
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING, Final

from weft.model import (
    Exited,
    Fact,
    JobId,
    JobSnapshot,
    NodeEndChanged,
    NodeJoined,
    Profile,
    Profiled,
    Progressed,
    Rewoven,
    Seconds,
    Start,
    Started,
    StateSnapshot,
    Stop,
)
from weft.scheduling.core.ports import JobView, View
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.weaving.candidates import weavable_profile
from weft.scheduling.weaving.groups import MAX_TABLES, GroupTable, GroupTables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.intp]

MAX_IDLE_CLASSES: Final = 256
"""Classes without jobs are forgotten beyond this many."""
ABOUT_ALL: Final = frozenset({Profiled, StateSnapshot, NodeEndChanged})
"""Facts that may change every row. So may a node that joins and leaves at a known time: the shapes of all jobs then
include the time that they need."""
ABOUT_PROGRESS: Final = frozenset({Start, Started, Progressed})
"""Facts that change nothing of a job but its progress. A job that a lost node had may start again before the next
plan, and only its start names it."""
ABOUT_LENGTHS: Final = frozenset({Exited, JobSnapshot})
"""Facts after which the lengths of all jobs are estimated again."""
UNREAD: Final = frozenset({Stop, Rewoven})
"""Facts that name a job and change nothing that a plan reads of it."""


@dataclass(eq=False)
class JobClass:
    """Jobs that are alike to the choice: of one shape and one profile."""

    shape: Shape
    profile: Profile | None
    number: int
    held: float
    """The GPUs that one of its jobs holds; a part of a GPU counts as that part."""
    kind: int = 0
    """The number of the profile in the table of its shape."""


@dataclass(eq=False, repr=False)
class LiveJobs:
    """The jobs that wait or run, numbered by row, and what a plan needs to know of each."""

    jobs: list[JobView] = field(default_factory=list)
    active: list[JobView] = field(default_factory=list)
    """The jobs that hold GPUs, in the order in which they started."""
    active_rows: Indices = field(init=False)
    remaining_s: Numbers = field(init=False)
    """The solo seconds of work left; infinite where unknown."""
    worked_s: Numbers = field(init=False)
    class_of: Indices = field(init=False)
    """The number of each job's class."""
    without_gpus: list[JobView] = field(default_factory=list)
    """Jobs that wait or run and need no GPUs; they have no rows."""
    classes: list[JobClass] = field(default_factory=list)
    _columns: NDArray[np.float64] | None = None
    """The rows of `_read`, one column per job."""
    _known: set[JobView] = field(default_factory=set)
    """The jobs of the last plan."""
    _known_by_id: dict[JobId, JobView] = field(default_factory=dict)
    _known_without_gpus: set[JobView] = field(default_factory=set)
    _changed: set[JobId] = field(default_factory=set)
    _progressed: set[JobId] = field(default_factory=set)
    _class_by_id: dict[tuple[int, int], JobClass] = field(default_factory=dict)
    _class_by_value: dict[tuple[Shape, Profile | None], JobClass] = field(default_factory=dict)
    _tables: dict[tuple[int, ...], tuple[GroupTable, list[int]]] = field(default_factory=dict)
    """The tables by the numbers of the classes that are there, and the kinds of these classes."""

    @property
    def seq(self) -> Numbers:
        return self._column(0)

    @property
    def submitted_at(self) -> Numbers:
        return self._column(1)

    @property
    def rate(self) -> Numbers:
        return self._column(4)

    @property
    def gpu_counts(self) -> tuple[list[int], Indices]:
        """The numbers of GPUs that jobs need, and for each job the place of its number among them."""
        import numpy as np

        counts, which = np.unique([each.shape.gpus for each in self.classes], return_inverse=True)
        return counts.tolist(), which[self.class_of]

    @property
    def has_figures(self) -> bool:
        """True if more memory was measured for some jobs, or is known from their profiles, than counts alone."""
        return bool(self._column(6).any()) or any(each.profile and each.profile.memory_mb for each in self.classes)

    @property
    def estimate_s(self) -> Numbers:
        """The estimated seconds left of jobs of unknown length; not a number where they are to be estimated again. A
        policy keeps them here: those of waiting jobs last until a job ends."""
        return self._column(8)

    def _column(self, number: int) -> Numbers:
        found: Numbers = self._table[number]
        return found

    @property
    def _table(self) -> Numbers:
        assert self._columns is not None, "refresh comes first"
        return self._columns

    def observe(self, fact: Fact) -> None:
        """Mark the job that a fact names as changed."""
        kind = type(fact)
        named = getattr(fact, "job", None)
        if named is not None:
            only_progress = kind in ABOUT_PROGRESS or (type(fact) is Exited and fact.how == "stopped")
            changed = self._progressed if only_progress else self._changed
            changed.add(named if isinstance(named, str) else named.id)
        if kind in ABOUT_ALL or (isinstance(fact, NodeJoined) and fact.node.until is not None):
            self._forget()
        elif kind in ABOUT_LENGTHS and self._columns is not None:
            self.estimate_s.fill(nan)

    def refresh(self, view: View) -> None:
        """Bring the rows up to date."""
        waiting, active = list(view.waiting), list(view.active)
        current = set(waiting)  # thousands of jobs: each copy of a set would cost as much as the choice of a few groups
        current.update(active)
        known = self._known_by_id.get
        changed = [job for name in self._changed if (job := known(name)) in current]
        progressed = [job for name in self._progressed if (job := known(name)) in current]
        progressed += set(self.active).difference(active).intersection(current)
        self._changed.clear()
        self._progressed.clear()
        if self._is_outdated(changed, len(current)):
            self._forget()
        new = self._exchange(view, current)
        self._read_again(view, [job for job in changed if job not in new and job.gpus])
        self._read_progress([job for job in progressed if job not in new and job.gpus])
        self.without_gpus = []
        if self._known_without_gpus:
            self.without_gpus = [job for job in (*waiting, *active) if not job.gpus]
            active = [job for job in active if job.gpus]
        self.active, self.active_rows = active, self.rows([job.seq for job in active])
        self.estimate_s[self.active_rows] = nan
        self._advance(view.now)

    def _is_outdated(self, changed: Iterable[JobView], jobs: int) -> bool:
        """Return whether to read all jobs again: too many classes have no jobs, or a job got its first GPU."""
        without = self._known_without_gpus
        return len(self.classes) > MAX_IDLE_CLASSES + jobs or any(bool(job.gpus) == (job in without) for job in changed)

    def _exchange(self, view: View, current: set[JobView]) -> set[JobView]:
        """Remove the rows of jobs that are gone, and insert and return new jobs."""
        import numpy as np

        if self._columns is None:
            self._columns = np.empty((9, 0))
        without = self._known_without_gpus
        gone = self._known - current
        new = current - self._known if len(current) > len(self._known) - len(gone) else set[JobView]()
        if gone:
            for job in gone:
                self._known_by_id.pop(job.id)
            self._remove([job.seq for job in gone if job not in without])
            without -= gone
        if new:
            self._known_by_id.update([(job.id, job) for job in new])
            without.update([job for job in new if not job.gpus])
            self._insert(view, sorted([job for job in new if job.gpus], key=lambda job: job.seq))
        self._known = current
        return new

    def _advance(self, now: Seconds) -> None:
        """Compute what the jobs have done by now, and have left, as `JobView` does."""
        import numpy as np

        left_s, worked_s, rate, since = self._table[2:6]
        done_s = rate * (now - since)
        self.worked_s = worked_s + done_s
        self.remaining_s = np.where(rate != 0, np.maximum(left_s - done_s, 0.0), left_s)
        self.class_of = self._column(7).astype(np.intp)

    def _read_again(self, view: View, changed: Sequence[JobView]) -> None:
        if changed:
            self._table[:, self.rows([job.seq for job in changed])] = self._read(view, changed)

    def _read_progress(self, progressed: Sequence[JobView]) -> None:
        import numpy as np

        if progressed:
            rows = self.rows([job.seq for job in progressed])
            self._table[2:6, rows] = np.array([_progress(job) for job in progressed]).T
            self.estimate_s[rows] = nan

    def table_of(self, classes: Sequence[JobClass], tables: GroupTables) -> GroupTable:
        """Return the table of the groups of these classes, and set their kinds. They have one shape."""
        classes = sorted(classes, key=lambda each: each.number)
        numbers = tuple([each.number for each in classes])
        if numbers not in self._tables:
            if len(self._tables) >= MAX_TABLES:
                self._tables.clear()
            self._tables[numbers] = tables.table([each.profile for each in classes])
        table, kinds = self._tables[numbers]
        for each, kind in zip(classes, kinds, strict=True):
            each.kind = kind
        return table

    def rows(self, seqs: Sequence[int]) -> Indices:
        """Return the rows of the jobs with these sequence numbers."""
        import numpy as np

        return np.asarray(np.searchsorted(self.seq, seqs))

    def _forget(self) -> None:
        self.jobs.clear()
        self.classes.clear()
        self._columns = None
        self._known = set()
        self._known_by_id.clear()
        self._known_without_gpus.clear()
        self._class_by_id.clear()
        self._class_by_value.clear()
        self._tables.clear()

    def _remove(self, seqs: Sequence[int]) -> None:
        import numpy as np

        if not seqs:
            return
        rows = self.rows(seqs)
        for row in sorted(rows.tolist(), reverse=True):
            del self.jobs[row]
        self._columns = np.delete(self._table, rows, axis=1)

    def _insert(self, view: View, new: Sequence[JobView]) -> None:
        import numpy as np

        if not new:
            return
        read = self._read(view, new)
        if not self.jobs or new[0].seq > self.jobs[-1].seq:
            self.jobs += new
            self._columns = np.concatenate((self._table, read), axis=1)
            return
        self.jobs = sorted([*self.jobs, *new], key=lambda job: job.seq)
        self._columns = np.insert(self._table, self.rows([job.seq for job in new]), read, axis=1)

    def _read(self, view: View, jobs: Iterable[JobView]) -> Numbers:
        import numpy as np

        return np.array(
            [
                (job.seq, job.submitted_at, *_progress(job), job.measured_mb, self._class(view, job).number, nan)
                for job in jobs
            ]
        ).T

    def _class(self, view: View, job: JobView) -> JobClass:
        shape, profile = job.shape, job.job.profile
        if profile is None or not shape.plain or job.unwoven:
            profile = weavable_profile(view, job)
        found = self._class_by_id.get((id(shape), id(profile)))
        if found is None:
            found = self._class_by_value.get((shape, profile))
            if found is None:
                held = shape.gpus * min(job.wanted_share.request, 1.0)
                found = JobClass(shape, profile, len(self.classes), held)
                self._class_by_value[shape, profile] = found
                self.classes.append(found)
            if shape is found.shape and profile is found.profile:  # the class keeps both alive: no id is used twice
                self._class_by_id[id(shape), id(profile)] = found
        return found


def _progress(job: JobView) -> tuple[float, float, float, float]:
    left_s = job.remaining_s
    return inf if left_s is None else left_s, job.worked_s, job.rate, job.rate_since
