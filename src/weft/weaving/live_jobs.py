"""The live jobs as columns of numbers, kept from one plan to the next: a plan reads only the jobs that changed.

A job that waits changes only by a fact that names it, or by one about all jobs. Jobs that run are read at every plan.
Rows are in the order of submission, so that columns do not depend on what happened before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import TYPE_CHECKING, Final

from weft.core.ports import JobView, View
from weft.core.resources.shapes import Shape
from weft.model import Exited, Fact, JobId, JobSnapshot, Profile, Profiled, StateSnapshot
from weft.weaving.candidates import weavable_profile
from weft.weaving.groups import MAX_TABLES, GroupTable, GroupTables

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.intp]

MAX_IDLE_CLASSES: Final = 256
"""Classes without jobs are forgotten beyond this many."""


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


@dataclass(eq=False)
class LiveJobs:
    """The jobs that wait or run, numbered by row, and what a plan needs to know of each."""

    jobs: list[JobView] = field(default_factory=list)
    without_gpus: list[JobView] = field(default_factory=list)
    """Jobs that wait or run and need no GPUs; they have no rows."""
    classes: list[JobClass] = field(default_factory=list)
    _columns: NDArray[np.float64] | None = None
    """The rows of `_read`, one column per job."""
    _known: set[JobView] = field(default_factory=set)
    _changed: set[JobId] = field(default_factory=set)
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
    def remaining_s(self) -> Numbers:
        """The solo seconds of work left; infinite where unknown."""
        return self._column(2)

    @property
    def worked_s(self) -> Numbers:
        return self._column(3)

    @property
    def rate(self) -> Numbers:
        return self._column(4)

    @property
    def gpus(self) -> Numbers:
        return self._column(5)

    @property
    def estimate_s(self) -> Numbers:
        """The estimated seconds left of jobs of unknown length; not a number where they are to be estimated again. A
        policy keeps them here: those of waiting jobs last until a job ends."""
        return self._column(7)

    @property
    def class_of(self) -> Indices:
        import numpy as np

        return self._column(6).astype(np.intp)

    def _column(self, number: int) -> Numbers:
        found: Numbers = self._table[number]
        return found

    @property
    def _table(self) -> Numbers:
        assert self._columns is not None, "refresh comes first"
        return self._columns

    def observe(self, fact: Fact) -> None:
        """Mark the job that a fact names as changed."""
        named = getattr(fact, "job", None)
        if isinstance(named, str):
            self._changed.add(named)
        elif named is not None:
            self._changed.add(named.id)
        if isinstance(fact, Profiled | StateSnapshot):
            self._forget()
        elif isinstance(fact, Exited | JobSnapshot) and self._columns is not None:
            self.estimate_s.fill(nan)

    def refresh(self, view: View) -> list[JobView]:
        """Bring the rows up to date; return the jobs that hold GPUs."""
        import numpy as np

        waiting, active = list(view.waiting), list(view.active)
        current = set(waiting)  # thousands of jobs: each copy of a set would cost as much as the choice of a few groups
        current.update(active)
        self.without_gpus = [job for job in waiting if not job.gpus] + [job for job in active if not job.gpus]
        if self.without_gpus:
            current.difference_update(self.without_gpus)
            active = [job for job in active if job.gpus]
        if self._columns is None or len(self.classes) > MAX_IDLE_CLASSES + len(current):
            self._forget()
            self._columns = np.empty((8, 0))
        gone = self._known - current
        new = current - self._known if len(current) > len(self._known) - len(gone) else set[JobView]()
        if gone:
            self._remove([job.seq for job in gone])
        if new:
            self._insert(view, sorted(new, key=lambda job: job.seq))
        if self._changed:
            changed = [job for name in self._changed if (job := _find(view, name)) in current and job not in new]
            self._read_again(view, changed)
            self._changed.clear()
        if active:
            rows, now = self.rows([job.seq for job in active]), view.now
            self._columns[2:5, rows] = np.array([(job.remaining(now), job.worked(now), job.rate) for job in active]).T
            self.estimate_s[rows] = nan
        self._known = current
        return active

    def _read_again(self, view: View, changed: Sequence[JobView]) -> None:
        if changed:
            self._table[:, self.rows([job.seq for job in changed])] = self._read(view, changed)

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
        self._class_by_id.clear()
        self._class_by_value.clear()
        self._tables.clear()

    def _remove(self, seqs: Sequence[int]) -> None:
        import numpy as np

        rows = self.rows(seqs)
        for row in sorted(rows.tolist(), reverse=True):
            del self.jobs[row]
        self._columns = np.delete(self._table, rows, axis=1)

    def _insert(self, view: View, new: Sequence[JobView]) -> None:
        import numpy as np

        read = self._read(view, new)
        if not self.jobs or new[0].seq > self.jobs[-1].seq:
            self.jobs += new
            self._columns = np.concatenate((self._table, read), axis=1)
            return
        self.jobs = sorted([*self.jobs, *new], key=lambda job: job.seq)
        self._columns = np.insert(self._table, self.rows([job.seq for job in new]), read, axis=1)

    def _read(self, view: View, jobs: Iterable[JobView]) -> Numbers:
        import numpy as np

        now = view.now
        return np.array([
            (job.seq, job.submitted_at, job.remaining(now), job.worked(now), job.rate, job.gpus,
             self._class(view, job).number, nan)
            for job in jobs
        ]).T  # fmt: skip

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


def _find(view: View, name: JobId) -> JobView | None:
    try:
        return view.job(name)
    except KeyError:  # purged
        return None
