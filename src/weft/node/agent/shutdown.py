"""Shutdown of an agent for good: kills its runs, which would otherwise continue until their lease ends."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from weft.node.agent.state_dir import AgentDir
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import Identity, is_alive, send_signal
from weft.node.engine.shim.requests import STOP_SIGNALS

POLL_S: Final = 0.05


def kill_runs(folder: AgentDir, timeout_s: float) -> int:
    """Kill the runs of this folder, wait until they have ended, and return the number of runs that were alive."""
    runs = folder.unfinished(folder.unconfirmed())
    shims = [shim for run in runs if (shim := _shim_of(folder.run_dir(*run))) is not None and is_alive(shim)]
    for shim in shims:
        with suppress(OSError):
            send_signal(shim, STOP_SIGNALS["kill"])
    until = time.monotonic() + timeout_s
    while shims and folder.unfinished(runs) and time.monotonic() < until:
        time.sleep(POLL_S)
    return len(shims)


def _shim_of(run: str) -> Identity | None:
    """Return the shim of a run. On its signal the shim kills the run and records the exit."""
    for name in (run_files.STARTED, run_files.CLAIM):
        found = (run_files.read_object(f"{run}/{name}") or {}).get("shim")
        if isinstance(found, list) and len(found) == 3:
            return Identity(*found)
    return None
