"""What runs inside a job: tell how far it is, save in time, go on from there. Outside a job nothing here does anything.

Standard library only, and nothing of the rest of Weft: importing it costs a few milliseconds.
"""

from __future__ import annotations

from weft.train.checkpoints import checkpoint, done, resume_path
from weft.train.reporting import progress
from weft.train.stopping import Preemptible, preemptible, should_stop

__all__ = ["Preemptible", "checkpoint", "done", "preemptible", "progress", "resume_path", "should_stop"]
