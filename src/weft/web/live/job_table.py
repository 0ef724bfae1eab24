"""The jobs of the scheduler in a temporary SQLite table, so that pages of 100,000 jobs are sorted and filtered here.

SQLite keeps the table in a file without a name once it outgrows the cache, so the memory of the process is limited.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.model.status import ENDED
from weft.views.answers.base import encode, extend_view
from weft.views.answers.jobs import JobView

CACHE_KB: Final = 32 << 10
MAX_PER_PAGE: Final = 500
SORT_COLUMNS: Final = {
    "id": "number", "name": "name", "user": "user", "status": "status", "gpus": "gpus", "priority": "priority",
    "submitted": "submitted", "started": "started", "ended": "ended", "group": "grp",
}  # fmt: skip
STATES: Final = {
    "running": ("starting", "running", "stopping"), "waiting": ("waiting", "blocked", "held"), "ended": tuple(ENDED),
    **{status: (status,) for status in ("blocked", "held", "done", "failed", "cancelled")},
}  # fmt: skip
"""For each word of a filter, the statuses that it means."""
UNFINISHED: Final = ("starting", "running", "stopping", "waiting", "blocked", "held")
SCHEMA: Final = """
create table jobs (
    id text primary key, number real, name text, user text, grp text, status text, gpus integer, priority integer,
    submitted text, started text, ended text, row text
) without rowid;
create index by_number on jobs (number);
create index by_status on jobs (status, number);
create index by_user on jobs (user, status);
"""


class JobRowView(JobView):
    """A line of the queue, and when it was current: the times of running jobs count from there."""

    at: float = 0.0


@dataclass(frozen=True)
class JobSearch:
    """Which jobs to show, and in which order."""

    states: tuple[str, ...] = ()
    """Words of `STATES`."""
    user: str = ""
    group: str = ""
    text: str = ""
    """Part of the name or the id."""
    sort: str = "id"
    descending: bool = True
    page: int = 1
    per_page: int = 50


@dataclass(frozen=True)
class JobPage:
    rows: list[str]
    """JobRowViews as JSON."""
    total: int


class JobTable:
    """Threads share it: one of them writes what the scheduler sends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute(f"pragma cache_size = -{CACHE_KB}")
        self._db.execute("pragma journal_mode = off")
        self._db.execute("pragma synchronous = off")
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def clear(self) -> None:
        with self._lock:
            self._db.execute("delete from jobs")

    def put(self, jobs: Iterable[JobView], now: float, *, newer: bool = True) -> None:
        """Store rows. With `newer` false, a row that is there already is kept."""
        what = "insert or replace" if newer else "insert or ignore"
        values = [
            (
                job.id, number_of(job.id), job.name, job.user, job.group, job.status, job.gpus, job.priority,
                job.submitted or "", job.started or "", job.ended or "",
                encode(extend_view(JobRowView, job, {"at": now})),
            )
            for job in jobs
        ]  # fmt: skip
        with self._lock:
            self._db.execute("begin")
            self._db.executemany(f"{what} into jobs values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            self._db.execute("commit")

    def remove(self, jobs: Iterable[str]) -> None:
        with self._lock:
            self._db.executemany("delete from jobs where id = ?", [(job,) for job in jobs])

    def search(self, wanted: JobSearch) -> JobPage:
        where, values = _condition(wanted)
        direction = "desc" if wanted.descending else "asc"
        column = SORT_COLUMNS[wanted.sort]
        order = f"{column} {direction}" if column == "number" else f"{column} {direction}, number desc"
        skip = (wanted.page - 1) * wanted.per_page
        with self._lock:
            (total,) = self._db.execute(f"select count(*) from jobs{where}", values).fetchone()
            rows = self._db.execute(
                f"select row from jobs{where} order by {order} limit ? offset ?", (*values, wanted.per_page, skip)
            ).fetchall()
        return JobPage([row for (row,) in rows], total)

    def by_user(self) -> list[tuple[str, str, int, int]]:
        """Return for each user and status of unfinished jobs: how many jobs there are, and their GPUs."""
        marks = ", ".join("?" * len(UNFINISHED))
        with self._lock:
            return self._db.execute(
                f"select user, status, count(*), sum(gpus) from jobs where status in ({marks}) group by user, status",
                UNFINISHED,
            ).fetchall()

    def users_and_groups(self) -> tuple[list[str], list[str]]:
        """Return the names for the filters, each a limited number."""
        with self._lock:
            users = self._db.execute("select distinct user from jobs where user != '' order by user limit 500")
            found = [name for (name,) in users.fetchall()]
            groups = self._db.execute("select distinct grp from jobs where grp != '' order by grp limit 500")
            return found, [name for (name,) in groups.fetchall()]


def _condition(wanted: JobSearch) -> tuple[str, list[str]]:
    """Return the WHERE of a search. All text is passed as values, never as SQL."""
    parts: list[str] = []
    values: list[str] = []
    statuses = [status for word in wanted.states for status in STATES[word]]
    if statuses:
        parts.append(f"status in ({', '.join('?' * len(statuses))})")
        values += statuses
    for column, text in (("user", wanted.user), ("grp", wanted.group)):
        if text:
            parts.append(f"{column} = ?")
            values.append(text)
    if wanted.text:
        parts.append("(instr(lower(name), lower(?)) > 0 or id = ? or id like ? escape '!')")
        escaped = re.sub(r"([%_!])", r"!\1", wanted.text)
        values += [wanted.text, wanted.text, f"{escaped}!_%"]
    return (" where " + " and ".join(parts) if parts else ""), values


def number_of(job: str) -> float:
    """Return an id as a number for sorting: tasks of an array come after each other."""
    head, _, task = job.partition("_")
    if not head.isdecimal() or len(head) > 15:
        return 0.0
    return float(head) + (min(int(task), 999_999) / 1e6 if task.isdecimal() and len(task) < 9 else 0.0)
