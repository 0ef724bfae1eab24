"""For whoever ends an agent for good: its runs would go on without it until their lease ends."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from weft.agent.state_dir import Folder
from weft.engines.process.shim import run_files
from weft.engines.process.shim.process_id import Identity, is_alive, send_signal
from weft.engines.process.shim.shim import STOP_SIGNALS

LOOK_S: Final = 0.05


def kill_runs(folder: Folder, patience_s: float) -> int:
    """Kills what the runs of this folder have started, and returns how many there were, once they have ended."""
    runs = folder.living(folder.unsettled())
    keepers = [who for run in runs if (who := _shim(folder.run(*run))) is not None and is_alive(who)]
    for who in keepers:
        with suppress(OSError):
            send_signal(who, STOP_SIGNALS["kill"])
    until = time.monotonic() + patience_s
    while keepers and folder.living(runs) and time.monotonic() < until:
        time.sleep(LOOK_S)
    return len(keepers)


def _shim(run: str) -> Identity | None:
    """Who keeps the run: it kills all of it, and writes down that it did."""
    for name in (run_files.STARTED, run_files.CLAIM):
        found = (run_files.read_object(f"{run}/{name}") or {}).get("shim")
        if isinstance(found, list) and len(found) == 3:
            return Identity(*found)
    return None
