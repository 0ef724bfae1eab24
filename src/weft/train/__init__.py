"""The API for code inside a job: report progress, stop in time, and resume. Outside a job it does nothing.

It uses only the standard library and imports nothing else of Weft, so importing it takes a few milliseconds.
"""

from __future__ import annotations

from weft.train.checkpoints import checkpoint, done, resume_path
from weft.train.reporting import progress
from weft.train.stopping import Preemptible, preemptible, should_stop

__all__ = ["Preemptible", "checkpoint", "done", "preemptible", "progress", "resume_path", "should_stop"]
