"""SIGTERM as an exception. Commands that serve also check whether the signal came before their own handler."""

from __future__ import annotations

import signal
from typing import NoReturn

_signals: list[int] = []


class Terminated(KeyboardInterrupt):
    """SIGTERM. It is no SystemExit: a policy that calls sys.exit is an error of the policy."""


def install_handler() -> None:
    """Raise Terminated on SIGTERM from now on."""
    signal.signal(signal.SIGTERM, _terminate)


def install_hangup_handler() -> None:
    """Raise Terminated when the terminal is closed too, unless the signal is ignored, as under nohup."""
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _terminate)


def was_received() -> bool:
    """Return whether SIGTERM came. Imports and callbacks from outside Python can swallow the exception."""
    return bool(_signals)


def _terminate(number: int, _frame: object) -> NoReturn:
    _signals.append(number)
    raise Terminated
