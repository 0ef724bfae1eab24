"""Exit rules: how the exit of a run becomes an outcome and a restart delay."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from weft.model import Exited, Outcome
from weft.node.engine.events import RunExited
from weft.node.engine.gpu.locks import GPU_TAKEN
from weft.node.engine.shim.run_files import SAVED_AT_LIMIT

CHECKPOINTED_EXIT: Final = 85
"""ERESTART: the job has saved its work and asks to run again."""
TRY_LATER_EXIT: Final = 75
"""EX_TEMPFAIL: something that the job needs is temporarily unavailable."""
MAX_TRY_LATER: Final = 10
"""Consecutive runs that may exit with `TRY_LATER_EXIT` before the job fails."""
QUICK_RUN_S: Final = 1.0
MAX_QUICK_REQUEUES: Final = 100
"""Consecutive runs shorter than `QUICK_RUN_S` that may ask to run again before the job fails."""
FIRST_DELAY_S: Final = 1.0
MAX_DELAY_S: Final = 300.0
MAX_DETAIL_CHARS: Final = 500

STOP_REASONS: Final = frozenset({"preempted", "moved", "cancelled", "node-lost", "reclaimed"})
NOT_JOBS_FAULT: Final = frozenset(
    {"lost", "reboot", "never-started", "disk-full", "no-files", "lease-ended", "port-taken", "node-stopped", GPU_TAKEN}
)
"""Exit reasons that are not the job's fault. They cost no retry."""
SHIM_KILLED: Final = "lost"
"""The exit reason of a run whose shim was killed. A job that kills its shim each time waits longer for each run."""


def exit_event(report: RunExited, *, requeue_exits: Collection[int] = (), tries: int = 0) -> Exited:
    """Return the event for an exit. `tries` is the number of consecutive delayed runs before this one."""
    how = outcome(report, requeue_exits)
    why = "" if how == "done" else report.why
    delay_s = 0.0
    if how == "requeued" and (report.code == TRY_LATER_EXIT or report.ran_s < QUICK_RUN_S):
        delay_s = min(FIRST_DELAY_S * 2.0 ** min(tries, 60), MAX_DELAY_S)
        loop = "try-later" if report.code == TRY_LATER_EXIT and TRY_LATER_EXIT not in requeue_exits else "requeue-loop"
        if tries >= (MAX_TRY_LATER if loop == "try-later" else MAX_QUICK_REQUEUES):
            how, why, delay_s = "failed", loop, 0.0
    elif how == "lost" and why == SHIM_KILLED:
        delay_s = min(FIRST_DELAY_S * 2.0 ** min(tries, 60), MAX_DELAY_S)
    detail = report.detail[:MAX_DETAIL_CHARS] if why else ""
    return Exited(
        report.at, report.job, report.run, how, code=exit_code(report), why=why, delay_s=delay_s, detail=detail,
        cpu_s=report.cpu_s, rss_mb=report.max_rss_mb,
    )  # fmt: skip


def exit_code(report: RunExited) -> int | None:
    """Return the exit code that a shell would report."""
    return 128 + report.signal if report.signal is not None else report.code


def outcome(report: RunExited, requeue_exits: Collection[int] = ()) -> Outcome:
    if report.code == 0 and (report.done or not report.why):
        return "done"
    if report.why in NOT_JOBS_FAULT:
        return "lost"
    if report.why in STOP_REASONS:
        return "stopped"
    # after a timeout a job may ask for another run; after running out of memory it needs more memory, not another run
    if report.code == CHECKPOINTED_EXIT and report.why in ("", "oom", "timeout"):
        return "requeued"
    if report.why == SAVED_AT_LIMIT or (report.code in requeue_exits and report.why in ("", "timeout")):
        return "requeued"
    if report.code == TRY_LATER_EXIT and not report.why:
        return "requeued"
    return "failed"
