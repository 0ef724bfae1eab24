"""How people name jobs: 7, 7_3, 3-7, a name, @ for the last, @~1 for the one before it."""

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
MOST: Final = 100_000


def resolve(state: State, refs: Iterable[str], user: str = "") -> list[JobId]:
    """The jobs meant, each once, in the order in which they were named.

    To a user, @ is the last of their own jobs, and a name one of theirs if they have one of that name.
    """
    found: dict[JobId, None] = {}
    for ref in refs:
        found.update(dict.fromkeys(_resolve(state, ref, user)))
    return list(found)


def one(state: State, ref: str, user: str = "") -> JobId:
    """The job meant; several of that name are an error that lists them."""
    found = _resolve(state, ref, user)
    if len(found) > 1:
        some = ", ".join(found[:10]) + (" ..." if len(found) > 10 else "")
        raise NotFound(f"{ref!r} is {len(found)} jobs: {some}\n  name one of them")
    return found[0]


def _resolve(state: State, ref: str, user: str) -> list[JobId]:
    if ref in state.jobs:
        return [ref]
    if last := _LAST.fullmatch(ref):
        back = int(last[1] or 0)
        mine = (job for job, each in reversed(state.jobs.items()) if not user or each.job.user == user)
        job = next(islice(mine, back, None), None)
        if job is None:
            raise NotFound(f"{ref} goes back further than there are jobs; there are {len(state.jobs)}")
        return [job]
    if span := _RANGE.fullmatch(ref):
        first, until = int(span[1]), int(span[2])
        if until - first > MOST:
            raise NotFound(f"{ref} are more than {MOST:,} jobs")
        found = _between(state, first, until)
    else:
        found = _numbered(state, ref) or _named(state, ref, user)
    if not found:
        raise NotFound(f"there is no job {ref[:80]!r}\n  weft queue -a lists them; an ended one may have been cleaned")
    return found


def _numbered(state: State, number: str) -> list[JobId]:
    """The job of that number, or all tasks of that array."""
    if number in state.jobs:
        return [number]
    return [job for job in state.jobs if job.startswith(f"{number}_")] if number.isdecimal() else []


def _between(state: State, first: int, until: int) -> list[JobId]:
    """All of these numbers, arrays' tasks too, by number: one look at each job, however many numbers are not there."""
    found: list[tuple[int, JobId]] = []
    for job in state.jobs:
        number = job.partition("_")[0]
        if number.isdecimal() and first <= int(number) <= until and str(int(number)) == number:
            found.append((int(number), job))
    return [job for _, job in sorted(found, key=lambda each: each[0])]


def _named(state: State, name: str, user: str) -> list[JobId]:
    """Jobs of that name: those that have not ended, or else the last."""
    found = [job for job in state.jobs.values() if job.job.name == name]
    named = [job for job in found if job.job.user == user] or found
    return [job.id for job in named if job.status not in ENDED] or [job.id for job in named[-1:]]
