"""What an exit means to the scheduler."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from weft.engines.process.events import RunExited
from weft.model import Exited, Outcome

CHECKPOINTED: Final = 85
"""ERESTART: "I saved my work, run me again"."""
TRY_LATER: Final = 75
"""EX_TEMPFAIL: what it needs is not there just now."""
MAX_TRY_LATER: Final = 10
"""So often, one time after the other, a job may ask to be tried later."""
QUICK_S: Final = 1.0
MAX_QUICK_REQUEUES: Final = 100
"""A job that asks again and again to be run anew, and ends within a second each time, is not."""
FIRST_DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 300.0

STOPPED: Final = frozenset({"preempted", "moved", "cancelled", "node-lost"})
GONE: Final = frozenset(
    {"reboot", "never-started", "disk-full", "no-files", "lease-ended", "port-taken", "node-stopped"}
)
"""Whatever it was doing, it was not the job's doing that it ended."""


def exited(report: RunExited, *, requeue_exits: Collection[int] = (), tries: int = 0) -> Exited:
    """The fact of an exit. `tries`: how many runs before it, one after the other, were followed by a delay."""
    how = outcome(report, requeue_exits)
    why = "" if how == "done" else report.why
    delay_s = 0.0
    if how == "requeued" and (report.code == TRY_LATER or report.ran_s < QUICK_S):
        delay_s = min(FIRST_DELAY_S * 2.0 ** min(tries, 60), MAX_DELAY_S)
        loop = "try-later" if report.code == TRY_LATER and TRY_LATER not in requeue_exits else "requeue-loop"
        if tries >= (MAX_TRY_LATER if loop == "try-later" else MAX_QUICK_REQUEUES):
            how, why, delay_s = "failed", loop, 0.0
    return Exited(report.at, report.job, report.run, how, code=exit_code(report), why=why, delay_s=delay_s)


def exit_code(report: RunExited) -> int | None:
    """As a shell would give it."""
    return 128 + report.signal if report.signal is not None else report.code


def outcome(report: RunExited, requeue_exits: Collection[int] = ()) -> Outcome:
    if report.code == 0 and (report.done or not report.why):
        return "done"
    if report.why in GONE:
        return "lost"
    if report.why in STOPPED:
        return "stopped"
    # one whose time is up may still ask for more of it; one out of memory needs more memory, not another try
    if report.code == CHECKPOINTED and report.why in ("", "oom", "timeout"):
        return "requeued"
    if report.code in requeue_exits and report.why in ("", "timeout"):
        return "requeued"
    if report.code == TRY_LATER and not report.why:
        return "requeued"
    return "failed"
