"""What an exit means to the scheduler."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from weft.local.reports import RunExited
from weft.model import Exited, Outcome, Task

CHECKPOINTED: Final = 85
"""ERESTART: "I saved my work, run me again"."""
TRY_LATER: Final = 75
"""EX_TEMPFAIL: what it needs is not there just now."""
MOST_TRIES: Final = 10
"""So often in all a job may ask to be tried later."""
QUICK_S: Final = 1.0
MOST_QUICK: Final = 100
"""A job that asks again and again to be run anew, and ends within a second each time, is not."""

STOPPED: Final = frozenset({"preempted", "moved", "cancelled", "node-lost"})
GONE: Final = frozenset({"reboot", "never-started", "disk-full", "no-files", "lease-ended", "port-taken"})
"""Whatever it was doing, it was not the job's doing that it ended."""


def exited(report: RunExited, *, requeue_exits: Collection[int] = (), tries: int = 0) -> Exited:
    """The fact of an exit. `tries`: how often the job has asked before to be tried later."""
    how = outcome(report, requeue_exits, tries)
    why = "" if how == "done" else report.why
    if how == "failed" and report.code == TRY_LATER and not why and TRY_LATER not in requeue_exits:
        why = "try-later"
    return Exited(report.at, report.job, report.run, how, code=exit_code(report), why=why)


def settled(report: RunExited, task: Task | None, tries: int) -> Exited:
    """The same for a job, `tries` of whose runs have been requeued before: one that would go on so for ever fails."""
    fact = exited(report, requeue_exits=task.requeue_exits if task else (), tries=tries)
    if fact.how == "requeued" and report.ran_s < QUICK_S and tries >= MOST_QUICK:
        return replace(fact, how="failed", why="requeue-loop")
    return fact


def exit_code(report: RunExited) -> int | None:
    """As a shell would give it."""
    return 128 + report.signal if report.signal is not None else report.code


def outcome(report: RunExited, requeue_exits: Collection[int] = (), tries: int = 0) -> Outcome:
    if report.why in GONE:
        return "lost"
    if report.code == 0 and (report.done or not report.why):
        return "done"
    if report.why in STOPPED:
        return "stopped"
    # one whose time is up may still ask for more of it; one out of memory needs more memory, not another try
    if report.code == CHECKPOINTED and report.why in ("", "oom", "timeout"):
        return "requeued"
    if report.code in requeue_exits and report.why in ("", "timeout"):
        return "requeued"
    if report.code == TRY_LATER and not report.why and tries < MOST_TRIES:
        return "requeued"
    return "failed"
