"""The history of a scheduler: read from the journal of this machine's scheduler, or fetched from a cluster's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from weft.access.endpoints import config
from weft.access.endpoints.paths import user_paths

if TYPE_CHECKING:
    from weft.history.metrics.history import History
    from weft.model import Fact

THIS_MACHINE: Final = "the scheduler of this machine"


def source(scheduler: str | None) -> str:
    """Return the name of the scheduler that `read` reads from."""
    where = config.scheduler_address(scheduler)
    return THIS_MACHINE if where is None else str(where)


def read(scheduler: str | None) -> History:
    """Return the history of the scheduler. It is empty if none ever ran on this machine."""
    from weft.history.metrics.history import read_history

    return read_history(facts(scheduler))


def facts(scheduler: str | None) -> Iterator[Fact]:
    """Yield facts that add up to the state of the scheduler; none if none ever ran on this machine."""
    where = config.scheduler_address(scheduler)
    if where is not None:
        from weft.access.client import Client

        with Client(where) as client:
            yield from client.journal()
        return
    from weft.history.journal import open_journal

    here = user_paths()
    if here.has_journal():
        with open_journal(here.journal_url, readonly=True) as journal:
            yield from journal.read()
