"""Resolve references to jobs: 7, 7_3, 3-7, a name, GROUP/NAME, @ for the last job or array, @~1 for the one before."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby, islice
from typing import Final

from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.errors import NotFound
from weft.jobspec.job_names import LAST, RANGE
from weft.model import JobId
from weft.model.groups import group_label, names_group
from weft.model.status import ENDED

MAX_RANGE: Final = 100_000


def resolve(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """Return the referenced jobs, each once, in the order of the references.

    For a user, @ is the last of their own jobs. Their own jobs come first in the search for a name.
    """
    found: dict[JobId, None] = {}
    for ref in refs:
        found.update(dict.fromkeys(_resolve(state, ref, user)))
    return list(found)


def resolve_to_change(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """Return the referenced jobs as `resolve` does. Raise if a name matches jobs of several groups."""
    refs = list(refs)
    for ref in refs:
        if _is_name(state, ref):
            _check_group(ref, _matches(state, ref, user))
    return resolve(state, refs, user)


def _is_name(state: State, ref: str) -> bool:
    return ref not in state.jobs and not LAST.fullmatch(ref) and not RANGE.fullmatch(ref) and not ref.isdecimal()


def _check_group(ref: str, found: list[JobState]) -> None:
    groups: dict[str, list[JobId]] = {}
    for job in found:
        groups.setdefault(job.job.group, []).append(job.id)
    if len(groups) < 2:
        return
    name = found[0].job.name
    listed = [f"{group_label(group)}/{name} ({_some(jobs)})" for group, jobs in groups.items()]
    raise NotFound(
        f"{ref[:80]!r} matches jobs of {len(groups)} groups: {_some(listed)}\n"
        f"  name one of them by GROUP/NAME or by id; /{name} means jobs without a group"
    )


def _some(words: list[str]) -> str:
    return ", ".join(words[:10]) + (" ..." if len(words) > 10 else "")


def resolve_one(state: State, ref: str, user: str = "") -> JobId:
    """Return the referenced job. Raise if the reference matches several."""
    found = _resolve(state, ref, user)
    if len(found) > 1:
        raise NotFound(f"{ref!r} matches {len(found)} jobs: {_some(found)}\n  name one of them")
    return found[0]


def _resolve(state: State, ref: str, user: str) -> list[JobId]:
    if ref in state.jobs:
        return [ref]
    if last := LAST.fullmatch(ref):
        job = _last(state, int(last[1] or 0), user)
        if job is None:
            raise NotFound(f"{ref} goes back too far: there are {len(state.jobs)} jobs")
        array = job.job.batch
        return [each.id for each in state.jobs.values() if each.job.batch == array] if array else [job.id]
    if span := RANGE.fullmatch(ref):
        first, until = int(span[1]), int(span[2])
        if until - first > MAX_RANGE:
            raise NotFound(f"{ref} spans more than {MAX_RANGE:,} jobs")
        found = _between(state, first, until)
    else:
        found = _numbered(state, ref) or _named(state, ref, user)
    if not found:
        raise NotFound(f"there is no job {ref[:80]!r}\n  weft queue -a lists them; an ended job may have been purged")
    return found


def _last(state: State, back: int, user: str) -> JobState | None:
    """Return the last job of a user, or one before it. An array counts as one job: return one of its tasks."""
    mine = (job for job in reversed(state.jobs.values()) if not user or job.job.user == user)
    one_of_each = (next(tasks) for _, tasks in groupby(mine, lambda job: job.job.batch or job.id))
    return next(islice(one_of_each, back, None), None)


def _numbered(state: State, number: str) -> list[JobId]:
    """Return the job of that number, or all tasks of that array."""
    if number in state.jobs:
        return [number]
    return [job for job in state.jobs if job.startswith(f"{number}_")] if number.isdecimal() else []


def _between(state: State, first: int, until: int) -> list[JobId]:
    """Return all jobs with numbers in this range, including array tasks, in one pass over the jobs."""
    found: list[tuple[int, JobId]] = []
    for job in state.jobs:
        number = job.partition("_")[0]
        if number.isdecimal() and first <= int(number) <= until and str(int(number)) == number:
            found.append((int(number), job))
    return [job for _, job in sorted(found, key=lambda each: each[0])]


def _named(state: State, ref: str, user: str) -> list[JobId]:
    """Return the jobs of that name that have not ended, or else the last one, which may be an array."""
    found = _matches(state, ref, user)
    if found and found[-1].status in ENDED:
        array = found[-1].job.batch
        found = [job for job in found if job.job.batch == array] if array else found[-1:]
    return [job.id for job in found]


def array_of(state: State, ref: str, user: str) -> str:
    """Return the number of the array that a reference names, by number or name; empty if it means anything else."""
    if last := LAST.fullmatch(ref):
        job = _last(state, int(last[1] or 0), user)
        return job.job.batch if job is not None else ""
    if not _is_name(state, ref):
        return ref if ref.isdecimal() and ref not in state.jobs else ""
    arrays = {state.jobs[job].job.batch for job in _named(state, ref, user)}
    return arrays.pop() if len(arrays) == 1 else ""


def _matches(state: State, ref: str, user: str) -> list[JobState]:
    """Return the jobs of that name, or of that group and name: those that have not ended, or else all of them."""
    group, slash, name = ref.rpartition("/")
    found = [job for job in state.jobs.values() if job.job.name == name]
    if slash:
        found = [job for job in found if names_group(group, job.job.group)]
    named = [job for job in found if job.job.user == user] or found
    return [job for job in named if job.status not in ENDED] or named
