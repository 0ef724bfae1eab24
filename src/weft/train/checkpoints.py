"""Checkpoints of a job, and its completion."""

from __future__ import annotations

import os
import time

from weft.train.reporting import reporter
from weft.train.run import this_run


def checkpoint(path: str | os.PathLike[str]) -> None:
    """Record the path of a checkpoint. Call this after the checkpoint is written completely."""
    run = this_run()
    if not run.checkpoints:
        return
    current = reporter()
    found = {"path": os.path.abspath(os.fsdecode(path)), "step": current.step, "time": time.time()}
    run.record_checkpoint(found)
    current.update_checkpoint(found)


def resume_path() -> str | None:
    """Return the path of the last checkpoint that any run of this job recorded; None if it does not exist."""
    run = this_run()
    return run.latest_checkpoint() if run.checkpoints else None


def done() -> None:
    """Mark the work as complete: exit code 0 then means done, even if the job was asked to stop."""
    this_run().mark_done()
