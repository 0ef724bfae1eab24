"""The status of a job, and every way it changes.

A job that was submitted is *waiting*, or *blocked* while a dependency is not done, its batch or user has no place left,
or its begin time has not come. A *held* job waits for its user. A `Start` decision gives the next run GPUs: the run
is *starting* until `Started`, then *running*. A `Stop` makes it *stopping*, and it keeps its GPUs until `Exited`:
stopping is two-phase. A run that ends by itself is *done* or *failed*; a job whose run was stopped, was lost with its
node, or asked to run again waits again. A job that has ended may be submitted again under its id: it starts over, but
counts its runs on. Facts that the table does not have, and facts about an old run, are dropped.

Some facts change the status in two rows, one after the other: a job that waits again and is held, or must not begin
yet, continues from *waiting* with `Held` or `ineligible`.
"""

from __future__ import annotations

from typing import Final, Literal

from weft.model.status import Status
from weft.scheduling.core.state.job import JobState

Cause = Literal[
    "Start", "Started", "Stop", "Held", "Released", "Cancelled", "Edited",
    "eligible", "ineligible", "doomed",
    "done", "failed", "retried", "stopped", "lost", "requeued", "unrepeatable", "cancelling",
]  # fmt: skip
"""A fact, a result of `eligibility`, or the way a run ended."""

TRANSITIONS: Final[dict[Cause, dict[Status, Status]]] = {
    "Start": {"waiting": "starting"},
    "Started": {"starting": "running"},
    "Stop": {"starting": "stopping", "running": "stopping"},
    "Held": {"waiting": "held", "blocked": "held"},
    "Released": {"held": "waiting"},
    "Cancelled": {"blocked": "cancelled", "waiting": "cancelled", "held": "cancelled"},
    "Edited": {"blocked": "waiting", "waiting": "waiting", "held": "waiting"},
    # Eligible: the dependencies are done, the batch and the quota have a place, and the begin time has come.
    "eligible": {"blocked": "waiting", "waiting": "waiting"},
    "ineligible": {"waiting": "blocked"},
    # A dependency ended otherwise than done.
    "doomed": {"blocked": "cancelled", "held": "cancelled"},
    "done": {"starting": "done", "running": "done", "stopping": "done"},
    "failed": {"starting": "failed", "running": "failed", "stopping": "waiting"},
    "retried": {"starting": "waiting", "running": "waiting"},
    "stopped": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "lost": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "requeued": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    # The run of a job that must not run twice was stopped or lost.
    "unrepeatable": {"running": "failed", "stopping": "failed"},
    # The run of a job that is being cancelled ended in any way but done.
    "cancelling": {"starting": "cancelled", "running": "cancelled", "stopping": "cancelled"},
}


def change_status(job: JobState, cause: Cause) -> None:
    """Move the job to its next status: nothing else assigns it, apart from restoring a snapshot."""
    job.status = TRANSITIONS[cause][job.status]
