"""Where the job can go on from."""

from __future__ import annotations

import os
import time

from weft.train.reporting import reporter
from weft.train.run import this_run


def checkpoint(path: str | os.PathLike[str]) -> None:
    """Records that everything needed to go on is at this path. Call it once that has been written."""
    run = this_run()
    if not run.checkpoints:
        return
    known = reporter()
    found = {"path": os.path.abspath(os.fsdecode(path)), "step": known.step, "time": time.time()}
    run.record(found)
    known.note_checkpoint(found)


def resume_path() -> str | None:
    """The last checkpoint that any run of this job has recorded, if it is still there."""
    run = this_run()
    return run.recorded() if run.checkpoints else None


def done() -> None:
    """Says that the work is complete: an exit with 0 counts as that, even if the job was just told to stop."""
    this_run().mark_done()
