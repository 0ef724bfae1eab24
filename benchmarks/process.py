"""What a command costs with all the processes it starts: seconds on the clock, and of the CPUs."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SUBREAPER: Final = 36
"""PR_SET_CHILD_SUBREAPER: whoever loses its parent becomes our child, so that its CPU time is counted here."""


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float


def weft(*words: str | Path) -> Spent:
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before, began = _cpu_s(), time.monotonic()
    subprocess.run(
        [sys.executable, "-m", "weft", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
    )
    wall_s = time.monotonic() - began
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return Spent(wall_s, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
