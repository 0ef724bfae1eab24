"""Finding and ending this user's scheduler on this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from weft.access.client import Client
from weft.access.endpoints.paths import Paths
from weft.errors import Unreachable
from weft.inputs.locks import is_locked

if TYPE_CHECKING:
    from weft.views.answers.operations import ShutdownView

END_TIMEOUT_S: Final = 60.0
"""Time within which a scheduler must end."""
POLL_S: Final = 0.02


def find_scheduler(here: Paths, *, start: bool) -> Client | None:
    """Return a client of the scheduler; None if there is none. With `start`, start one instead."""
    try:
        return Client(here, start=start)
    except Unreachable:
        if start or here.answers():
            raise
        return None  # no scheduler runs, or it has just ended


def end_scheduler(client: Client, **options: str) -> ShutdownView:
    """Tell the scheduler to end, and return its answer once it has released its lock."""
    from weft.views.answers.operations import SHUTDOWN  # commands that only look for a scheduler do not need it

    here = client.paths
    answer = client.operate(SHUTDOWN, **options)
    until = time.monotonic() + END_TIMEOUT_S
    while is_locked(here.lock):
        text = here.lock_text()
        if text != str(answer.pid) and text.isdecimal():
            break  # the next scheduler has started already
        if time.monotonic() > until:
            raise Unreachable(
                f"the scheduler (pid {answer.pid}) has not ended after {END_TIMEOUT_S:.0f} s\n"
                f"  its log: {here.server_log}"
            )
        time.sleep(POLL_S)
    return answer
