"""Exits by a SIGTERM that the scheduler did not send: caused by the job or by a stop of the node.

`scancel`, `systemctl stop` and a shutdown signal every process of a node at once, in any order. The node causes an exit
if the node's stop begins before the exit or within `HOLD_S` after it: the job runs again and spends no retry.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import replace
from typing import Final

from weft.node.engine.events import RunExited
from weft.node.engine.shim import run_files
from weft.node.engine.shim.stop_escalation import NODE_STOPPED

HOLD_S: Final = 1.5
"""Time for which an exit by SIGTERM is held back before it counts as caused by the job."""
WINDOW_S: Final = 90.0
"""Time after the mark within which an exit counts as caused by the node: then systemd sends SIGKILL."""


def is_unrequested_sigterm(exited: RunExited) -> bool:
    return not exited.why and (exited.signal == signal.SIGTERM or exited.code == 128 + signal.SIGTERM)


def remaining_hold_s(exited: RunExited) -> float:
    """Return how much longer to hold this exit back. An adopting engine may learn of the exit late."""
    return max(0.0, min(HOLD_S - (time.time() - exited.at), HOLD_S))


def mark(folder: str) -> None:
    """Mark a run before the node stops: its exit then counts as caused by the node. Skip runs without a folder."""
    with suppress(OSError):
        _write_mark(folder, time.time() + WINDOW_S)


def shorten_mark(folder: str) -> None:
    """End the window soon: the node is back and the run is alive, so later exits are caused by the job."""
    until, soon = _read_mark(folder), time.time() + HOLD_S
    if until is not None and until > soon:
        with suppress(OSError):
            _write_mark(folder, soon)


def _write_mark(folder: str, until: float) -> None:
    run_files.write_new(f"{folder}/{run_files.NODE_STOP}", run_files.to_json({"until": until}))


def _read_mark(folder: str) -> float | None:
    until = (run_files.read_object(f"{folder}/{run_files.NODE_STOP}") or {}).get("until")
    return until if isinstance(until, int | float) else None


def with_node_stop(exited: RunExited, folder: str) -> RunExited:
    """Return the exit with the reason `node-stopped` if the mark in the run's folder says so."""
    if not is_unrequested_sigterm(exited):
        return exited
    until = _read_mark(folder)
    if until is not None and exited.at <= until:
        return replace(exited, why=NODE_STOPPED)
    return exited
