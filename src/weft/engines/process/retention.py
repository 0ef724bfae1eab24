"""What is kept of a job's runs: the last ones. One that is preempted or asks to be run again all day would otherwise
fill the disk."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from typing import Final

RUNS_KEPT: Final = 10


def remove_old_runs(job_dir: str, run: int, stays: Callable[[str], bool] = lambda _: False) -> None:
    """The folders of runs long before this one, but for those of which `stays` says so."""
    with suppress(OSError):
        for name in os.listdir(job_dir):
            if name.isdecimal() and int(name) <= run - RUNS_KEPT and not stays(f"{job_dir}/{name}"):
                shutil.rmtree(f"{job_dir}/{name}", ignore_errors=True)
