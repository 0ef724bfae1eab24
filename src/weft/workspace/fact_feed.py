"""Reads facts from the scheduler as they happen, and survives its restarts."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Final, NamedTuple

from weft.client import Client
from weft.endpoints.paths import Paths
from weft.errors import WeftError

RECONNECT_S: Final = 0.2
POLL_S: Final = 1.0


class Update(NamedTuple):
    position: int
    """Of the journal: every fact up to it has been delivered."""
    fact: dict[str, Any] | None
    """None: facts may have been missed; query the state again."""


class FactFeed:
    """Facts from a position on, in the order in which they happened. A thread reads them."""

    def __init__(self, here: Paths, after: int) -> None:
        self._here, self._position = here, after
        self._updates: queue.Queue[Update] = queue.Queue()

    def open(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, timeout_s: float) -> Update | None:
        """Return the next update; None if none comes within the time."""
        try:
            return self._updates.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _listen(self) -> None:
        while True:
            try:
                with connect(self._here) as client:
                    self._read(client)
            except WeftError:
                time.sleep(RECONNECT_S)
            self._updates.put(Update(self._position, None))

    def _read(self, client: Client) -> None:
        """Read until the scheduler ends, or has replaced the next facts by a snapshot: then go on from now."""
        if client.gpus().position >= self._position:  # else it is another journal
            for position, fact in client.facts(self._position):
                self._position = position
                self._updates.put(Update(position, fact))
        self._position = client.gpus().position


def connect(here: Paths) -> Client:
    """Return a client of the scheduler. Restart one that died; wait for one that was told to end, never start it."""
    while not here.answers():
        if here.has_died():
            Client(here).close()
        else:
            time.sleep(POLL_S)
    return Client(here, start=False)
