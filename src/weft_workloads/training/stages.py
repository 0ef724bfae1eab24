"""Stages of a step, where jobs that share GPUs take turns: through `weft.train`."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any

from weft import train


def stage(name: str) -> AbstractContextManager[Any]:
    """Return a context for the stage `gpu` or `net` of a step.

    It waits for a turn even if the job is asked to stop: a step that has begun is finished, and saved after it.
    """
    return train.stage(name, insist=True)


def hook_stages() -> None:
    """Inside a job, let `weft.train` find the stages by itself: in the data loader, the optimizer and DDP."""
    if os.environ.get("WEFT_JOB_ID"):
        train.auto()
