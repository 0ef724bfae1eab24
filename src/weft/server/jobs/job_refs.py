"""Resolve references to jobs: 7, 7_3, 3-7, a name, GROUP/NAME, @ for the last job or array, @~1 for the one before.

A request may have thousands of references, and there may be a hundred thousand jobs. So the first name, number or range
of a request looks at all jobs once, and the others find theirs in the indexes that it leaves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain, groupby
from typing import Final

from weft.access.jobspec.job_names import LAST, RANGE
from weft.errors import InputError, NotFound
from weft.model import JobId
from weft.model.groups import group_label
from weft.model.status import ENDED
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State

MAX_RANGE: Final = 100_000
MAX_RANGES: Final = 1000
"""The most ranges of one request, once those that overlap are merged."""


def resolve(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """Return the referenced jobs, each once, in the order of the references.

    For a user, @ is the last of their own jobs. Their own jobs come first in the search for a name.
    """
    return JobRefs(state, user).all(refs)


def resolve_to_change(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """Return the referenced jobs as `resolve` does. Raise if a name matches jobs of several groups."""
    search, refs = JobRefs(state, user), list(dict.fromkeys(refs))
    for ref in refs:
        search.check_group(ref)
    return search.all(refs)


def resolve_one(state: State, ref: str, user: str = "") -> JobId:
    """Return the referenced job. Raise if the reference matches several."""
    return JobRefs(state, user).one(ref)


class JobRefs:
    """The references of one request of a user. It finds the jobs that are there when it first looks."""

    def __init__(self, state: State, user: str = "") -> None:
        self._jobs, self._user = state.jobs, user
        self._groups: dict[str, dict[str, list[JobState]]] = {}
        self._recent: list[JobState] = []
        """The user's last jobs, one of each array, as far as they were needed. `_older` are those before them."""
        self._older: Iterator[JobState] | None = None

    def all(self, refs: Iterable[str]) -> list[JobId]:
        """Return all referenced jobs, each once."""
        return list(dict.fromkeys(chain.from_iterable(map(self.jobs, self.merged(refs)))))

    def merged(self, refs: Iterable[str]) -> list[str]:
        """Return the references, each once. Ranges that overlap become one, in the place of the first of them."""
        places = {ref: place for place, ref in enumerate(dict.fromkeys(refs))}
        ranges: list[tuple[int, int, int]] = []
        """First number, last number, place."""
        for ref, place in list(places.items()):
            if (span := RANGE.fullmatch(ref)) and ref not in self._jobs:
                first, until = int(span[1]), int(span[2])
                if until - first > MAX_RANGE:
                    raise NotFound(f"{ref} spans more than {MAX_RANGE:,} jobs")
                ranges.append((first, until, place))
                del places[ref]
        merged: list[tuple[int, int, int]] = []
        for first, until, place in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                before = merged.pop()
                first, until, place = before[0], max(until, before[1]), min(place, before[2])
            merged.append((first, until, place))
        if len(merged) > MAX_RANGES:
            what = f"{len(merged):,} ranges of jobs; at most {MAX_RANGES:,} are accepted"
            raise InputError(what, hint="name fewer at a time", key="jobs")
        places |= {f"{first}-{until}": place for first, until, place in merged}
        return sorted(places, key=places.__getitem__)

    def one(self, ref: str) -> JobId:
        """Return the referenced job. Raise if there are several."""
        found = self.jobs(ref)
        if len(found) > 1:
            raise NotFound(f"{ref!r} matches {len(found)} jobs: {_some(found)}\n  name one of them")
        return found[0]

    def jobs(self, ref: str) -> list[JobId]:
        """Return the jobs of one reference. Raise if there are none."""
        if ref in self._jobs:
            return [ref]
        if last := LAST.fullmatch(ref):
            job = self._last(int(last[1] or 0))
            if job is None:
                raise NotFound(f"{ref} goes back too far: there are {len(self._jobs)} jobs")
            return [task.id for task in self._arrays[job.job.batch]] if job.job.batch else [job.id]
        if span := RANGE.fullmatch(ref):
            found = self._between(int(span[1]), int(span[2]))
        else:
            found = self._by_number.get(ref) or [job.id for job in self._named(ref)]
        if not found:
            raise NotFound(
                f"there is no job {ref[:80]!r}\n  weft queue -a lists them; an ended job may have been purged"
            )
        return found

    def tasks(self, ref: str) -> list[JobState]:
        """Return the tasks of the array that a reference means, by number or name; empty if it means anything else."""
        if last := LAST.fullmatch(ref):
            job = self._last(int(last[1] or 0))
            array = job.job.batch if job is not None else ""
        elif not self._is_name(ref):
            array = ref if ref.isdecimal() and ref not in self._jobs else ""
        else:
            arrays = {job.job.batch for job in self._named(ref)}
            array = arrays.pop() if len(arrays) == 1 else ""
        return self._arrays.get(array, []) if array else []

    def namesakes(self, name: str) -> list[JobId]:
        """Return the user's unfinished jobs of a name, arrays as a whole."""
        jobs = (job for job in self._by_name.get(name, ()) if job.job.user == self._user and job.status not in ENDED)
        return list(dict.fromkeys(job.job.batch or job.id for job in jobs))

    def check_group(self, ref: str) -> None:
        """Raise if the reference is a name that matches jobs of several groups."""
        if not self._is_name(ref):
            return
        groups: dict[str, list[JobId]] = {}
        for job in self._matches(ref):
            groups.setdefault(job.job.group, []).append(job.id)
        if len(groups) < 2:
            return
        name = ref.rpartition("/")[2]
        listed = [f"{group_label(group)}/{name} ({_some(jobs)})" for group, jobs in groups.items()]
        raise NotFound(
            f"{ref[:80]!r} matches jobs of {len(groups)} groups: {_some(listed)}\n"
            f"  name one of them by GROUP/NAME or by id; /{name} means jobs without a group"
        )

    def _between(self, first: int, until: int) -> list[JobId]:
        """Return all jobs with numbers in this range, including array tasks."""
        numbers = self._numbers
        chosen = numbers[bisect_left(numbers, first) : bisect_right(numbers, until)]
        return list(chain.from_iterable(self._by_number[str(number)] for number in chosen))

    # ---- the last jobs

    def _last(self, back: int) -> JobState | None:
        """Return the last job of the user, or one before it. An array counts as one job: return one of its tasks."""
        if self._older is None:
            mine = (job for job in reversed(list(self._jobs.values())) if not self._user or job.job.user == self._user)
            self._older = (next(tasks) for _, tasks in groupby(mine, lambda job: job.job.batch or job.id))
        while len(self._recent) <= back:
            job = next(self._older, None)
            if job is None:
                return None
            self._recent.append(job)
        return self._recent[back]

    # ---- names

    def _is_name(self, ref: str) -> bool:
        return ref not in self._jobs and not (LAST.fullmatch(ref) or RANGE.fullmatch(ref) or ref.isdecimal())

    def _named(self, ref: str) -> list[JobState]:
        """Return the jobs of that name that have not ended, or else the last one, which may be an array."""
        found = self._matches(ref)
        if found and found[-1].status in ENDED:
            array = found[-1].job.batch
            found = [job for job in found if job.job.batch == array] if array else found[-1:]
        return found

    def _matches(self, ref: str) -> list[JobState]:
        """Return the jobs of that name, or of that group and name: those that have not ended, or else all of them."""
        group, slash, name = ref.rpartition("/")
        found = self._in_groups(name).get(group, []) if slash else self._by_name.get(name, [])
        named = [job for job in found if job.job.user == self._user] or found
        return [job for job in named if job.status not in ENDED] or named

    def _in_groups(self, name: str) -> dict[str, list[JobState]]:
        """Return the jobs of a name by their group, under its name and under its short name."""
        if name not in self._groups:
            groups = self._groups[name] = {}
            for job in self._by_name.get(name, ()):
                group = job.job.group
                for text in {group, group_label(group)}:
                    groups.setdefault(text, []).append(job)
        return self._groups[name]

    # ---- indexes, each made at its first use

    @cached_property
    def _by_name(self) -> dict[str, list[JobState]]:
        found: dict[str, list[JobState]] = {}
        for job in self._jobs.values():
            found.setdefault(job.job.name, []).append(job)
        return found

    @cached_property
    def _by_number(self) -> dict[str, list[JobId]]:
        """The job of each number, or the tasks of that array."""
        found: dict[str, list[JobId]] = {}
        for job in self._jobs:
            number = job.partition("_")[0]
            if number.isdecimal():
                found.setdefault(number, []).append(job)
        return found

    @cached_property
    def _numbers(self) -> list[int]:
        return sorted(int(number) for number in self._by_number if str(int(number)) == number)

    @cached_property
    def _arrays(self) -> dict[str, list[JobState]]:
        found: dict[str, list[JobState]] = {}
        for job in self._jobs.values():
            if job.job.batch:
                found.setdefault(job.job.batch, []).append(job)
        return found


def _some(words: list[str]) -> str:
    return ", ".join(words[:10]) + (" ..." if len(words) > 10 else "")
