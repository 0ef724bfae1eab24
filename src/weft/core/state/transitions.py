"""Where a job goes from where it is, by what happens.

A job is *blocked* while it comes after others or its batch has enough going; then it *waits*, unless it is *held*.
A `Start` decision gives its next run GPUs. The run is *starting* until `Started`, then *running*. A `Stop` makes it
*stopping*, and its GPUs stay its own until `Exited`: stopping is two-phase. A run that ends by itself is *done* or
*failed*; one that was stopped, was lost with its node, or asked to be run again waits again. Whatever the table does
not have, and any news of an old run, is dropped.
"""

from __future__ import annotations

from typing import Final

from weft.core.state.job import Status

TRANSITIONS: Final[dict[str, dict[Status, Status]]] = {
    "Start": {"waiting": "starting"},
    "Started": {"starting": "running"},
    "Stop": {"starting": "stopping", "running": "stopping"},
    "Held": {"waiting": "held", "blocked": "held"},
    "Released": {"held": "waiting"},
    "Cancelled": {"blocked": "cancelled", "waiting": "cancelled", "held": "cancelled"},
    "done": {"starting": "done", "running": "done", "stopping": "done"},
    "failed": {"starting": "failed", "running": "failed", "stopping": "waiting"},
    "stopped": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "lost": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
    "requeued": {"starting": "waiting", "running": "waiting", "stopping": "waiting"},
}
