"""The feed of facts from the scheduler as they happen. It survives restarts of the scheduler."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Final, NamedTuple

from weft.access.client import Client
from weft.access.endpoints.paths import Paths
from weft.errors import Refused, WeftError

RECONNECT_S: Final = 0.2
POLL_S: Final = 1.0


class StateRemoved(Refused):
    """The state of the scheduler is gone: it does not come back."""


class Update(NamedTuple):
    """A fact of the feed, or a gap in it."""

    position: int
    """The position in the journal up to which all facts have been delivered."""
    fact: dict[str, Any] | None
    """None: facts may have been missed; query the state again."""


class FactFeed:
    """Facts from a position on, in order. A thread reads them."""

    def __init__(self, here: Paths, after: int) -> None:
        self._here, self._position = here, after
        self._updates: queue.Queue[Update] = queue.Queue()

    def open(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def next(self, timeout_s: float) -> Update | None:
        """Return the next update; None if none arrives within the time."""
        try:
            return self._updates.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _run(self) -> None:
        while True:
            try:
                with connect(self._here) as client:
                    self._read(client)
            except WeftError:
                time.sleep(RECONNECT_S)
            self._updates.put(Update(self._position, None))

    def _read(self, client: Client) -> None:
        """Read until the scheduler ends or a snapshot has replaced the next facts. Then skip to the latest position."""
        if client.gpus().position >= self._position:  # a smaller position belongs to another journal
            for position, fact in client.facts(self._position):
                self._position = position
                self._updates.put(Update(position, fact))
        self._position = client.gpus().position


def connect(here: Paths) -> Client:
    """Return a client of the scheduler. Restart it if it died; if a user ended it, wait until it is back.

    Raise StateRemoved if its state is removed meanwhile.
    """
    while not here.answers():
        if here.has_died():
            Client(here).close()
        elif not here.has_state():
            raise StateRemoved(f"{here.state} was removed")
        else:
            time.sleep(POLL_S)
    return Client(here, start=False)
