"""Filters of the queue and the history: by group, state, name and user."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

from weft.access.wire.messages import QueryRequest
from weft.errors import InputError, UnknownName
from weft.model.groups import names_group
from weft.model.status import ENDED
from weft.scheduling.core.state.job import JobState
from weft.views.from_state.jobs_and_nodes import CODES, code

MAX_PATTERN_CHARS: Final = 300
SLURM_WORDS: Final = {
    "running": ("R",), "pending": ("PD", "PR"), "completing": ("CG",), "completed": ("CD",), "timeout": ("TO",),
    "out_of_memory": ("OOM",),
    "preempted": ("PR",), "suspended": ("S",), "canceled": ("cancelled",), "ended": tuple(sorted(ENDED)),
}  # fmt: skip
"""Words for states that are neither statuses nor codes."""
ENDED_STATES: Final = ENDED | {CODES[status] for status in ENDED} | {"TO", "OOM"}
STATES: Final = {
    **{status: (status,) for status in CODES},
    **{each.lower(): (each,) for each in (*CODES.values(), "PR", "S", "TO", "OOM")},
    **SLURM_WORDS,
}
"""For each word of a filter, in small letters, the statuses and codes that it means."""


class JobFilter:
    """Selects the jobs that a request asks for."""

    def __init__(self, request: QueryRequest) -> None:
        self._states = _parse_states(request.states)
        self._group, self._user = request.group, request.user
        if len(request.name) > MAX_PATTERN_CHARS:
            raise InputError("--name: the pattern is too long", hint=f"at most {MAX_PATTERN_CHARS} characters")
        self._name = re.compile(translate(request.name)) if request.name else None

    def __bool__(self) -> bool:
        """Return whether it leaves out any job."""
        return bool(self._states or self._group or self._user or self._name)

    @property
    def ended(self) -> bool:
        """Return whether it names a state of ended jobs."""
        return not ENDED_STATES.isdisjoint(self._states)

    @property
    def unfinished(self) -> bool:
        """Return whether it may select jobs that have not ended."""
        return not self._states or not self._states <= ENDED_STATES

    def select(self, jobs: Iterable[JobState]) -> list[JobState]:
        return [job for job in jobs if self.matches(job)] if self else list(jobs)

    def matches(self, job: JobState) -> bool:
        plain = job.job
        if self._user and plain.user != self._user:
            return False
        if self._states and job.status not in self._states and code(job) not in self._states:
            return False
        if self._group and not names_group(self._group, plain.group):
            return False
        return self._name is None or self._name.match(plain.name) is not None


def _parse_states(words: Iterable[str]) -> frozenset[str]:
    found: set[str] = set()
    for word in words:
        if word.lower() not in STATES:
            raise UnknownName("state", word[:80], STATES)
        found.update(STATES[word.lower()])
    return frozenset(found)
