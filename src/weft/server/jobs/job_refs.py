"""Resolve references to jobs: 7, 7_3, 3-7, a name, @ for the last job, @~1 for the one before it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Final

from weft.core.state.state import State
from weft.errors import NotFound
from weft.model import JobId
from weft.model.status import ENDED

_LAST: Final = re.compile(r"@(?:~(\d{1,9}))?")
_RANGE: Final = re.compile(r"(\d{1,12})-(\d{1,12})")
MAX_RANGE: Final = 100_000


def resolve(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """Return the referenced jobs, each once, in the order of the references.

    For a user, @ is the last of their own jobs. Their own jobs come first in the search for a name.
    """
    found: dict[JobId, None] = {}
    for ref in refs:
        found.update(dict.fromkeys(_resolve(state, ref, user)))
    return list(found)


def resolve_one(state: State, ref: str, user: str = "") -> JobId:
    """Return the referenced job. Raise if the reference matches several."""
    found = _resolve(state, ref, user)
    if len(found) > 1:
        some = ", ".join(found[:10]) + (" ..." if len(found) > 10 else "")
        raise NotFound(f"{ref!r} matches {len(found)} jobs: {some}\n  name one of them")
    return found[0]


def _resolve(state: State, ref: str, user: str) -> list[JobId]:
    if ref in state.jobs:
        return [ref]
    if last := _LAST.fullmatch(ref):
        back = int(last[1] or 0)
        mine = (job for job, each in reversed(state.jobs.items()) if not user or each.job.user == user)
        job = next(islice(mine, back, None), None)
        if job is None:
            raise NotFound(f"{ref} goes back too far: there are {len(state.jobs)} jobs")
        return [job]
    if span := _RANGE.fullmatch(ref):
        first, until = int(span[1]), int(span[2])
        if until - first > MAX_RANGE:
            raise NotFound(f"{ref} spans more than {MAX_RANGE:,} jobs")
        found = _between(state, first, until)
    else:
        found = _numbered(state, ref) or _named(state, ref, user)
    if not found:
        raise NotFound(f"there is no job {ref[:80]!r}\n  weft queue -a lists them; an ended job may have been purged")
    return found


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


def _named(state: State, name: str, user: str) -> list[JobId]:
    """Return the jobs of that name that have not ended, or else the last one."""
    found = [job for job in state.jobs.values() if job.job.name == name]
    named = [job for job in found if job.job.user == user] or found
    return [job.id for job in named if job.status not in ENDED] or [job.id for job in named[-1:]]
