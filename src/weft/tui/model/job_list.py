"""The jobs of the queue that a filter lets through, in the chosen order."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from weft.model.status import ACTIVE, ENDED
from weft.tui.model.board import Board
from weft.views.answers.jobs import JobView

KEYS: Final = ("user", "state", "name", "group", "id", "node")
"""Keys of a filter: user:ada."""
STATES: Final = {
    "r": "running", "run": "running", "pd": "waiting", "pending": "waiting", "h": "held", "f": "failed", "cd": "done",
    "completed": "done", "ca": "cancelled", "canceled": "cancelled",
}  # fmt: skip
"""Other words for statuses; Slurm's letters match as well."""
LAST_RANK: Final = 1 << 60


@dataclass(frozen=True)
class Term:
    key: str
    """One of KEYS; empty: id, name, user or group."""
    pattern: str
    negated: bool = False

    def matches(self, job: JobView) -> bool:
        return self._is_in(job) is not self.negated

    def _is_in(self, job: JobView) -> bool:
        if self.key == "state":
            words = {word.strip() for word in self.pattern.split(",")}
            names = {job.status, job.state.lower()}
            return bool(names & words) or any(STATES.get(word) == job.status for word in words)
        if self.key == "user":
            return _matches(job.user, self.pattern, whole=True)
        if self.key == "id":
            return job.id == self.pattern or job.id.startswith(f"{self.pattern}_")
        if self.key == "node":
            return _matches(job.place, self.pattern)
        if self.key:
            return _matches(str(getattr(job, self.key)), self.pattern)
        texts = (job.id, job.name, job.user, job.group)
        return any(_matches(text, self.pattern) for text in texts)


def _matches(text: str, pattern: str, *, whole: bool = False) -> bool:
    text = text.lower()
    if "*" in pattern or "?" in pattern:
        return fnmatchcase(text, pattern.replace("[", "[[]"))
    return text == pattern if whole else pattern in text


def parse_filter(text: str) -> list[Term]:
    """Return the terms of a filter such as `train user:ada !state:held`. All of them must match."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote that is still open
        words = text.replace("'", " ").replace('"', " ").split()
    terms = []
    for word in words:
        negated = word.startswith("!") and len(word) > 1
        key, colon, pattern = word.removeprefix("!").partition(":")
        if not colon or key not in KEYS:
            key, pattern = "", word.removeprefix("!") if negated else word
        if pattern:
            terms.append(Term(key, pattern.lower(), negated))
    return terms


Key = Callable[[JobView, Board], Any]
SORTS: Final[dict[str, Key]] = {
    "queue": lambda job, board: _place(job, board),
    "id": lambda job, _: _number(job.id),
    "name": lambda job, _: job.name.lower(),
    "user": lambda job, _: (job.user.lower(), _number(job.id)),
    "state": lambda job, _: (job.state, _number(job.id)),
    "time": lambda job, board: board.since.get(job.id, 0.0) if job.status not in ENDED else -job.time_s,
    "gpus": lambda job, _: (-job.gpus, _number(job.id)),
    "priority": lambda job, _: (-job.priority, _number(job.id)),
    "progress": lambda job, _: (-_progress(job), _number(job.id)),
    "eta": lambda job, _: (_eta(job), _number(job.id)),
}
"""The orders of the queue. `queue` is that of the scheduler: running jobs, then waiting ones, the next first."""


def select(board: Board, terms: list[Term], sort: str, *, reverse: bool = False, ended: bool = True) -> list[JobView]:
    key = SORTS[sort]
    jobs = [
        job
        for job in board.jobs.values()
        if (ended or job.status not in ENDED) and all(term.matches(job) for term in terms)
    ]
    return sorted(jobs, key=lambda job: key(job, board), reverse=reverse)


def _place(job: JobView, board: Board) -> tuple[int, float, int]:
    """Return the place in the list: running jobs, the waiting ones in order, held and blocked ones, ended ones."""
    if job.status in ACTIVE:
        return 0, 0.0, _number(job.id)[0]
    if job.status in ENDED:
        return 3, -board.since.get(job.id, 0.0), -_number(job.id)[0]
    if job.status == "waiting":
        return 1, board.ranks.get(job.id, LAST_RANK), _number(job.id)[0]
    return 2, 0.0, _number(job.id)[0]


def _number(name: str) -> tuple[int, int]:
    """Return the sort key of an id: 12, or 12_3 for a task of an array."""
    head, _, tail = name.partition("_")
    return (int(head) if head.isdecimal() else LAST_RANK, int(tail) if tail.isdecimal() else 0)


def _progress(job: JobView) -> float:
    found = job.progress
    return -1.0 if found is None or not found.total or found.step is None else found.step / found.total


def _eta(job: JobView) -> float:
    return float("inf") if job.progress is None or job.progress.eta_s is None else job.progress.eta_s
