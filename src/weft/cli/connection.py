"""Connections from commands to a scheduler.

A command uses the scheduler of a cluster if --scheduler, a variable or the config file names one, or if this user runs
one here at the default port and no local one. Otherwise it uses this user's scheduler of this machine:

- `connect_or_start` starts it if it does not run, for example to submit or to pause.
- `connect` starts it if there is any state of earlier jobs.
- `connect_if_running` starts it only if the last one died and left jobs, which need a scheduler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from weft.access.endpoints import config
from weft.access.endpoints.addresses import parse_scheduler
from weft.access.endpoints.paths import user_paths
from weft.cli import render
from weft.errors import Unreachable

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.access.endpoints.addresses import Address

STOPPED: Final = "stopped"
LOCAL: Final = config.LOCAL
Found = TypeVar("Found")
_announced = False


def load_grpc() -> None:
    """Import gRPC with its log lines silenced, for commands that use it directly."""
    from weft.access.client.quiet_grpc import load_grpc as load

    load()


def connect_or_start(scheduler: str | None) -> Client:
    """Connect, and start a local scheduler if none runs. `scheduler` is the value of the flag, if given."""
    from weft.access.client import Client

    return Client(_where(scheduler))


def connect(scheduler: str | None) -> Client:
    """Connect, and start a local scheduler if there is any state of earlier jobs."""
    from weft.access.client import Client

    if where := _where(scheduler):
        return Client(where)
    here = user_paths()
    return Client(here, start=here.has_state())


def connect_if_running(scheduler: str | None, *, ended: bool = False) -> Client | None:
    """Connect to a running scheduler, or return None. With `ended`, start a local scheduler if there are old jobs."""
    if where := _where(scheduler):
        from weft.access.client import Client

        return Client(where)
    here = user_paths()
    start = here.has_state() if ended else here.has_died()
    if not start and not here.answers():
        return None
    from weft.access.client.local_scheduler import find_scheduler

    return find_scheduler(here, start=start)


def ask_if_running(
    scheduler: str | None, ask: Callable[[Client], Found], otherwise: Callable[[], Found], *, ended: bool = False
) -> Found:
    """Return the answer of a running scheduler, as `connect_if_running` finds it; without one, that of `otherwise`."""
    client = connect_if_running(scheduler, ended=ended)
    if client is None:
        return otherwise()
    with client:
        return ask(client)


def connect_to_running(scheduler: str | None, advice: str = "start one with weft up") -> Client:
    """Connect to a running scheduler, or raise Unreachable with this advice."""
    client = connect_if_running(scheduler)
    if client is None:
        raise Unreachable(f"{absence_reason(scheduler)}\n  {advice}")
    return client


def _where(scheduler: str | None) -> Address | None:
    """Return the address of the scheduler to use. Report one that was found and not named, once, on a terminal."""
    global _announced
    found = config.effective_setting("scheduler", scheduler)
    if found.origin == config.OWN_SERVER and not _announced and render.is_stderr_terminal():
        _announced = True
        render.print_message(
            f"using {config.OWN_SERVER} at {found.value}; for this machine alone, give --scheduler local"
        )
    return None if found.value == LOCAL else parse_scheduler(found.value, found.origin)


def absence_reason(scheduler: str | None) -> str:
    """Return why no scheduler answers, for a message."""
    if where := config.scheduler_address(scheduler):
        return f"the scheduler at {where} does not answer"
    if user_paths().lock_text() == STOPPED:
        return "the scheduler was stopped before its jobs ended; weft up continues them"
    return "no scheduler is running, and nothing is queued"


def has_jobs_to_show() -> bool:
    """Return whether a scheduler runs, or an earlier one left state to show."""
    if config.scheduler_address() is not None:
        return True
    here = user_paths()
    return here.answers() or here.has_state()
