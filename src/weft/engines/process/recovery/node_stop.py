"""Exits by a SIGTERM that the scheduler did not send: caused by the job or by a stop of the node.

`scancel`, `systemctl stop` and a shutdown signal every process of a node at once, in any order. The node causes an exit
if its stop begins within `HOLD_S` after the exit or began before it: the job runs again and spends no retry.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from weft.engines.process.events import RunExited
from weft.engines.process.shim import run_files

HOLD_S: Final = 1.5
"""How long such an exit is held back before it counts as caused by the job."""
WINDOW_S: Final = 90.0
"""How long after the mark an exit counts as caused by the node: systemd sends SIGKILL after this time."""
NODE_STOPPED: Final = "node-stopped"


def is_unasked_sigterm(exited: RunExited) -> bool:
    return not exited.why and (exited.signal == signal.SIGTERM or exited.code == 128 + signal.SIGTERM)


def remaining_hold_s(exited: RunExited) -> float:
    """Return how much longer to hold this exit back. An adopting engine may learn of it late."""
    return max(0.0, min(HOLD_S - (time.time() - exited.at), HOLD_S))


def mark(folder: str) -> None:
    """Record that the node stops before the exit of this run is reported. Skip runs that have no folder yet."""
    with suppress(OSError):
        _write(folder, WINDOW_S)


def shorten_mark(folder: str) -> None:
    """End the window soon: the node is back and the run is alive, so later exits are caused by the job."""
    with suppress(OSError):
        if os.path.exists(f"{folder}/{run_files.NODE_STOP}"):
            _write(folder, HOLD_S)


def _write(folder: str, window_s: float) -> None:
    run_files.write_new(f"{folder}/{run_files.NODE_STOP}", run_files.to_json({"until": time.time() + window_s}))


def with_node_stop(exited: RunExited, folder: str) -> RunExited:
    """Return the exit with the reason `node-stopped` if the mark in the run's folder says so."""
    if not is_unasked_sigterm(exited):
        return exited
    until = (run_files.read_object(f"{folder}/{run_files.NODE_STOP}") or {}).get("until")
    if isinstance(until, int | float) and exited.at <= until:
        return replace(exited, why=NODE_STOPPED)
    return exited
