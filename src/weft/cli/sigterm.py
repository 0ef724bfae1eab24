"""SIGTERM: told to go. Whoever waits for something is woken by it; whoever serves looks whether it was told before."""

from __future__ import annotations

import signal
from typing import NoReturn

_signals: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM. No SystemExit: a policy's own sys.exit is an error of the policy."""


def listen() -> None:
    """From now on SIGTERM raises, wherever the program is."""
    signal.signal(signal.SIGTERM, _terminate)


def has_come() -> bool:
    """Whether SIGTERM has come. What it raised may have been swallowed: modules that are being imported, and callbacks
    from outside Python, can do that."""
    return bool(_signals)


def _terminate(number: int, _frame: object) -> NoReturn:
    _signals.append(number)
    raise Terminated
