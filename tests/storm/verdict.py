"""Checks after a storm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storm.book import Book
from support.running.live_cluster import Cluster
from support.state_checks import check, double_booked
from weft.model import Exited, Fact, JobId, Start, Submitted
from weft.model.slots import nodes_of
from weft.node.engine.shim import run_files
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins.registry import load_placement, load_policy

KILLED = 137
TOLD = "told"


@dataclass(frozen=True)
class Work:
    """A job as it was submitted."""

    gpus: int
    code: int
    retries: int


def judge(here: Cluster, book: Book, jobs: Mapping[JobId, Work], rows: Mapping[JobId, Mapping[str, Any]]) -> None:
    """`rows` is what the scheduler answers."""
    facts = here.facts()
    assert not book.overlaps(), "\n".join(book.overlaps())
    assert not book.living(), book.living()
    _none_lost(facts, jobs)
    _ends_are_true(facts, book)
    for job, work in jobs.items():
        _ended_rightly(work, rows[job], book)
    _replay_says_the_same(facts, rows)


def _none_lost(facts: Sequence[Fact], jobs: Mapping[JobId, Work]) -> None:
    """Check that every submitted job is there, once."""
    submitted = [fact.job.id for fact in facts if isinstance(fact, Submitted) and fact.job.replica is None]
    assert sorted(submitted) == sorted(jobs)


def _ends_are_true(facts: Sequence[Fact], book: Book) -> None:
    """Every exit that was journalled is one that happened."""
    codes, parts = book.codes(), dict[tuple[JobId, int], int]()
    for fact in facts:
        if isinstance(fact, Start):
            parts[fact.job, fact.run] = len(nodes_of(fact.slots))
        if not isinstance(fact, Exited):
            continue
        key = fact.job, fact.run
        if fact.how == "done":
            assert codes.get(key) == dict.fromkeys(range(parts[key]), 0), f"{fact}: its ranks ended with {codes[key]}"
        elif fact.how == "failed":
            assert fact.code in _bad_ends(book, codes, key), f"{fact}: its ranks ended with {codes.get(key)}"


def _bad_ends(book: Book, codes: Mapping[tuple[JobId, int], Mapping[int, int]], key: tuple[JobId, int]) -> set[Any]:
    found: set[int | None] = {code for code in codes.get(key, {}).values() if code}
    if key in book.killed:
        found.add(KILLED)
    if key in book.unkept:
        found.add(None)
    return found


def _ended_rightly(work: Work, row: Mapping[str, Any], book: Book) -> None:
    key, codes = (row["id"], row["run"]), book.codes()
    if row["status"] == "done":
        assert (work.code, row["exit_code"]) == (0, 0), row
        return
    assert row["status"] == "failed", row
    assert row["failures"] == work.retries, row
    assert row["exit_code"] in _bad_ends(book, codes, key), row


def _replay_says_the_same(facts: Sequence[Fact], rows: Mapping[JobId, Mapping[str, Any]]) -> None:
    chosen = load_policy("fifo")
    scheduler = Scheduler(chosen, load_placement(chosen.placement))
    scheduler.replay(facts)
    check(scheduler.state, facts)
    assert not list(double_booked(facts))
    said = {job: (row["status"], row["run"], row["exit_code"], row["failures"]) for job, row in rows.items()}
    jobs = [job for job in scheduler.state.jobs.values() if job.job.replica is None]
    found = {job.id: (job.status, job.run, job.code, job.failures) for job in jobs}
    assert found == said


def unconfirmed(workers: Path) -> list[Path]:
    """Folders of runs of whose end the scheduler has not said that it knows it."""
    marks = (run_files.CLAIM, run_files.STARTED, run_files.EXIT)
    folders = [run for run in workers.glob("*/jobs/*/*") if run.name.isdecimal()]
    return [run for run in folders if any((run / m).exists() for m in marks) and not (run / TOLD).exists()]


def left_over(root: Path) -> list[str]:
    """Processes of this cluster, by their environment."""
    mark, found = f"XDG_STATE_HOME={root}/s".encode(), []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found.append(f"{folder.name}: {words}")
        except OSError:
            continue
    return found
