"""What forgotten jobs leave behind on disk is removed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weft.local.order import is_plain
from weft.model import JobId

if TYPE_CHECKING:
    from weft.server.running import Running


async def sweep(running: Running, jobs: Sequence[JobId]) -> None:
    """Their logs, checkpoints and records; in a thread, since that may be much."""
    for job in jobs:
        running.progress.forget(job)
    await asyncio.to_thread(_remove, running.places.jobs, list(jobs))


def _remove(folder: Path, jobs: Sequence[JobId]) -> None:
    for job in filter(is_plain, jobs):
        shutil.rmtree(folder / job, ignore_errors=True)
