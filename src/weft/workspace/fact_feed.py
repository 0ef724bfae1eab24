"""What happens, for the scheduler's session of a workspace: facts from whichever scheduler is there."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Final, NamedTuple

from weft.cli import connection
from weft.client import Client
from weft.endpoints.paths import Places
from weft.errors import WeftError

AGAIN_S: Final = 0.2
WAITING_S: Final = 1.0


class News(NamedTuple):
    position: int
    """Of the journal, up to which everything has been told."""
    fact: dict[str, Any] | None
    """None: something may have been missed; whoever reads this is to look at everything anew."""


class Feed:
    """Facts from a position on, in the order in which they happened. A thread of its own reads them."""

    def __init__(self, here: Places, after: int) -> None:
        self._here, self._position = here, after
        self._news: queue.Queue[News] = queue.Queue()

    def open(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()

    def next(self, timeout_s: float) -> News | None:
        """The next news; None where there is none for so long."""
        try:
            return self._news.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _listen(self) -> None:
        while True:
            try:
                with connect(self._here) as client:
                    self._read(client)
            except WeftError:
                time.sleep(AGAIN_S)
            self._news.put(News(self._position, None))

    def _read(self, client: Client) -> None:
        """Until the scheduler ends, or has replaced what comes next by a snapshot: then it goes on from now."""
        if client.gpus().position >= self._position:  # else it is another journal
            for position, fact in client.facts(self._position):
                self._position = position
                self._news.put(News(position, fact))
        self._position = client.gpus().position


def connect(here: Places) -> Client:
    """The scheduler. One that died is started again; one that was told to end is waited for, and never started."""
    while not here.answers():
        if connection.died(here):
            Client(here).close()
        else:
            time.sleep(WAITING_S)
    return Client(here, start=False)
