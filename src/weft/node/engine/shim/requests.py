"""Signals that a shim obeys, and the largest launch spec that it receives directly, for processes that talk to it."""

from __future__ import annotations

import signal
from typing import Final

from weft.node.engine.shim.stop_escalation import StopStep

CHECK_STOP_FILE: Final = signal.SIGUSR1
"""Signal that tells a shim to read its stop file."""
STOP_SIGNALS: Final[dict[StopStep, int]] = {
    "warn": signal.SIGRTMIN + 1,
    "term": signal.SIGRTMIN + 2,
    "kill": signal.SIGRTMIN + 3,
}
"""Signals that request a stop directly when the stop file cannot be written, for example on a full disk."""
MAX_INLINE_BYTES: Final = 65536
"""A longer launch spec is passed through a file."""
