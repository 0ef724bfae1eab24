"""How commands come to a scheduler: to that of a cluster, if --scheduler, a variable or the config file names one, or
if this user runs one here at the usual port and no other.

Otherwise to this user's own. `begin` starts it if it is not there: to submit, to pause. `reach` does so where there are
jobs to speak of. `look` never does, unless the last one died and left jobs behind that nobody takes care of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.cli import render
from weft.endpoints import config
from weft.endpoints.addresses import parse_address
from weft.endpoints.paths import user_paths
from weft.errors import Unreachable

if TYPE_CHECKING:
    from weft.client import Client
    from weft.endpoints.addresses import Address

STOPPED: Final = "stopped"
LOCAL: Final = config.LOCAL
_has_said = False


def load() -> None:
    """Import gRPC without its own log lines, for commands that use it themselves."""
    from weft.client.quiet_grpc import load_grpc

    load_grpc()


def begin(scheduler: str | None) -> Client:
    """`scheduler`: what the flag says; None: nothing."""
    from weft.client import Client

    return Client(_where(scheduler))


def reach(scheduler: str | None) -> Client:
    from weft.client import Client

    if where := _where(scheduler):
        return Client(where)
    here = user_paths()
    return Client(here, start=here.has_state())


def look(scheduler: str | None, *, ended: bool = False) -> Client | None:
    """The scheduler that runs, if one does; `absence` says why not. With `ended`, old jobs are reason to start one."""
    if where := _where(scheduler):
        from weft.client import Client

        return Client(where)
    here = user_paths()
    start = here.has_state() if ended else here.has_died()
    if not start and not here.answers():
        return None
    from weft.client.local_scheduler import find_scheduler

    return find_scheduler(here, start=start)


def watch(scheduler: str | None, advice: str = "weft up starts one") -> Client:
    """The scheduler that runs; it is an error if none does."""
    client = look(scheduler)
    if client is None:
        raise Unreachable(f"{absence(scheduler)}\n  {advice}")
    return client


def _where(scheduler: str | None) -> Address | None:
    """The scheduler that is meant; one that nobody has named is named to the person, once."""
    global _has_said
    found = config.effective_setting("scheduler", scheduler)
    if found.origin == config.OWN_SERVER and not _has_said and render.is_heard():
        _has_said = True
        render.say(f"with {config.OWN_SERVER} at {found.value}; --scheduler local is the one of this machine alone")
    return None if found.value == LOCAL else parse_address(found.value, found.origin)


def absence(scheduler: str | None) -> str:
    """Why there is nothing to look at."""
    if where := config.scheduler_address(scheduler):
        return f"the scheduler at {where} does not answer"
    if user_paths().lock_text() == STOPPED:
        return "the scheduler was stopped before its jobs had ended; weft up goes on with them"
    return "no scheduler is running, and nothing is queued"


def has_news() -> bool:
    """Whether a scheduler runs, or there is something to tell of an earlier one."""
    if config.scheduler_address() is not None:
        return True
    here = user_paths()
    return here.answers() or here.has_state()
