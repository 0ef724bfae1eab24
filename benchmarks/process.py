"""The cost of a command with all processes that it starts: wall time and CPU time."""

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
"""PR_SET_CHILD_SUBREAPER: orphaned descendants become children of this process, so their CPU time counts here."""


@dataclass(frozen=True)
class Cost:
    wall_s: float
    cpu_s: float


def weft(*words: str | Path) -> Cost:
    """Run a weft command. Return its cost once all its descendants have ended."""
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
            return Cost(wall_s, _cpu_s() - before)


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
