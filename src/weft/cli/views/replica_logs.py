"""The output of all replicas of a service: one after the other, or together as it comes."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.services import ServiceView

POLL_S: Final = 1.0
MAX_PIECES: Final = 1000


class ReplicaLogs:
    """Follows the replicas of a service, also those that start later. Each line begins with its replica."""

    def __init__(self, connect: Callable[[], Client], service: Callable[[], ServiceView | None], lines: int) -> None:
        self._connect, self._service, self._lines = connect, service, lines
        self._pieces: queue.Queue[bytes] = queue.Queue(MAX_PIECES)
        self._known: set[str] = set()

    def follow(self) -> Iterator[bytes]:
        """Yield lines until the service is gone."""
        while (found := self._service()) is not None:
            for replica in found.replicas:
                if replica.job not in self._known:
                    self._known.add(replica.job)
                    label = f"{found.name}/{replica.index} | ".encode()
                    threading.Thread(target=self._copy, args=(replica.job, label), daemon=True).start()
            yield from self._waiting()
        yield from self._waiting()

    def _waiting(self) -> Iterator[bytes]:
        try:
            while True:
                yield self._pieces.get(timeout=POLL_S)
        except queue.Empty:
            return

    def _copy(self, job: str, label: bytes) -> None:
        """Pass on the lines of one replica."""
        rest = b""
        try:
            with self._connect() as client:
                for piece in client.follow(job, lines=self._lines):
                    *lines, rest = (rest + piece).split(b"\n")
                    if lines:
                        self._pieces.put(b"".join(label + line + b"\n" for line in lines))
        except WeftError as error:
            rest = str(error).partition("\n")[0].encode()
        if rest:
            self._pieces.put(label + rest + b"\n")
