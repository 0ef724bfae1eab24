"""How commands come to a scheduler.

`begin` starts one if none is there: to submit, to pause. `reach` does so where there are jobs to speak of. `look`
never does, unless the last one died and left jobs behind that nobody takes care of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from weft.errors import Unreachable
from weft.wire.places import Places, places

if TYPE_CHECKING:
    from weft.client import Client

END_S: Final = 60.0
"""How long a scheduler may take to end."""
STOPPED: Final = "stopped"


def begin() -> Client:
    from weft.client import Client

    return Client()


def reach() -> Client:
    from weft.client import Client

    here = places()
    return Client(here, start=here.database.exists())


def look(*, ended: bool = False) -> Client | None:
    """The scheduler that runs, if one does; `absence` says why not. With `ended`, old jobs are reason to start one."""
    here = places()
    start = here.database.exists() if ended else died(here)
    if not start and not here.answers():
        return None
    from weft.client import Client

    try:
        return Client(here, start=start)
    except Unreachable:
        if start:
            raise
        return None  # it ended just now


def absence() -> str:
    """Why there is nothing to look at."""
    if places().last_words() == STOPPED:
        return "the scheduler was stopped before its jobs had ended; weft up goes on with them"
    return "no scheduler is running, and nothing is queued"


def has_news() -> bool:
    """Whether a scheduler runs, or there is something to tell of an earlier one."""
    here = places()
    return here.answers() or here.database.exists()


def died(here: Places) -> bool:
    """Whether the last scheduler ended without a word. One that is about to end has its lock until it has said it."""
    return here.last_words().isdecimal() and not here.answers() and not _is_locked(here)


def _is_locked(here: Places) -> bool:
    import fcntl

    try:
        with open(here.lock) as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def end(client: Client, **options: str) -> dict[str, Any]:
    """Ends the scheduler, and returns when it has let go of its lock."""
    import fcntl
    import os
    import time

    here = client.places
    told = client.operate("shutdown", **options)
    until = time.monotonic() + END_S
    with open(os.open(here.lock, os.O_RDWR | os.O_CLOEXEC)) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if here.last_words() != str(told["pid"]) and here.last_words().isdecimal():
                    return told  # somebody has started the next one already
                if time.monotonic() > until:
                    raise Unreachable(
                        f"the scheduler, {told['pid']}, has not ended after {END_S:.0f} s\n  its log: {here.server_log}"
                    ) from None
                time.sleep(0.02)
            else:
                return told
