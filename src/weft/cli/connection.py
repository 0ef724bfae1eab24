"""How commands come to a scheduler: to that of a cluster, if --scheduler, a variable or the config file names one, or
if this user runs one here at the usual port and no other.

Otherwise to this user's own. `begin` starts it if it is not there: to submit, to pause. `reach` does so where there are
jobs to speak of. `look` never does, unless the last one died and left jobs behind that nobody takes care of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.cli import render
from weft.endpoints import config
from weft.endpoints.addresses import address
from weft.endpoints.paths import Places, places
from weft.errors import Unreachable

if TYPE_CHECKING:
    from weft.client import Client
    from weft.endpoints.addresses import Address
    from weft.wire.views.operations import ShutdownView

END_S: Final = 60.0
"""How long a scheduler may take to end."""
STOPPED: Final = "stopped"
LOCAL: Final = config.LOCAL
_has_said = False


def load() -> None:
    """gRPC tells of failures in words of its own, too, unless it is told not to before it is loaded."""
    import os

    told = "GRPC_VERBOSITY" in os.environ
    if not told:
        os.environ["GRPC_VERBOSITY"] = "NONE"
    try:
        import weft.client  # noqa: F401
    finally:
        if not told:  # jobs are given variables of this process: not this one
            del os.environ["GRPC_VERBOSITY"]


def begin(scheduler: str | None) -> Client:
    """`scheduler`: what the flag says; None: nothing."""
    load()
    from weft.client import Client

    return Client(_where(scheduler))


def reach(scheduler: str | None) -> Client:
    load()
    from weft.client import Client

    if where := _where(scheduler):
        return Client(where)
    here = places()
    return Client(here, start=here.has_state())


def look(scheduler: str | None, *, ended: bool = False) -> Client | None:
    """The scheduler that runs, if one does; `absence` says why not. With `ended`, old jobs are reason to start one."""
    if where := _where(scheduler):
        load()
        from weft.client import Client

        return Client(where)
    here = places()
    start = here.has_state() if ended else died(here)
    if not start and not here.answers():
        return None
    load()
    from weft.client import Client

    try:
        return Client(here, start=start)
    except Unreachable:
        if start or here.answers():
            raise
        return None  # it ended just now


def watch(scheduler: str | None, advice: str = "weft up starts one") -> Client:
    """The scheduler that runs; it is an error if none does."""
    client = look(scheduler)
    if client is None:
        raise Unreachable(f"{absence(scheduler)}\n  {advice}")
    return client


def _where(scheduler: str | None) -> Address | None:
    """The scheduler that is meant; one that nobody has named is named to the person, once."""
    global _has_said
    found = config.setting("scheduler", scheduler)
    if found.origin == config.NEARBY and not _has_said and render.is_heard():
        _has_said = True
        render.say(f"with {config.NEARBY} at {found.value}; --scheduler local is the one of this machine alone")
    return None if found.value == LOCAL else address(found.value, found.origin)


def absence(scheduler: str | None) -> str:
    """Why there is nothing to look at."""
    if where := config.scheduler(scheduler):
        return f"the scheduler at {where} does not answer"
    if places().last_words() == STOPPED:
        return "the scheduler was stopped before its jobs had ended; weft up goes on with them"
    return "no scheduler is running, and nothing is queued"


def has_news() -> bool:
    """Whether a scheduler runs, or there is something to tell of an earlier one."""
    if config.scheduler() is not None:
        return True
    here = places()
    return here.answers() or here.has_state()


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


def end(client: Client, **options: str) -> ShutdownView:
    """Ends the scheduler, and returns when it has let go of its lock."""
    import fcntl
    import os
    import time

    here = client.places
    from weft.wire.views.operations import SHUTDOWN

    told = client.operate(SHUTDOWN, **options)
    until = time.monotonic() + END_S
    with open(os.open(here.lock, os.O_RDWR | os.O_CLOEXEC)) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if here.last_words() != str(told.pid) and here.last_words().isdecimal():
                    return told  # somebody has started the next one already
                if time.monotonic() > until:
                    raise Unreachable(
                        f"the scheduler, {told.pid}, has not ended after {END_S:.0f} s\n  its log: {here.server_log}"
                    ) from None
                time.sleep(0.02)
            else:
                return told
