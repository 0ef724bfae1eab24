"""A running scheduler: of this machine or of a cluster. The source connects again whenever the connection is lost."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from weft.access.client import Client
from weft.access.endpoints.addresses import Address
from weft.access.endpoints.paths import Paths
from weft.errors import WeftError
from weft.tui.sources.base import Link, Outcome, Receive
from weft.views.answers.explain import ExplainView
from weft.views.answers.jobs import JobDetailView

MIN_RETRY_S: Final = 0.5
MAX_RETRY_S: Final = 5.0
LOG_LINES: Final = 500
LIVE: Final = Link("● live", True)


class LiveSource:
    simulated = False

    def __init__(self, where: Paths | Address) -> None:
        self._where = where
        self.title = "this machine" if isinstance(where, Paths) else str(where)
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._client: Client | None = None
        self._streaming: Client | None = None

    def start(self, receive: Receive) -> None:
        threading.Thread(target=self._follow, args=(receive,), name="changes", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        with self._lock:
            for client in (self._client, self._streaming):
                if client is not None:
                    client.close()

    # ---- changes

    def _follow(self, receive: Receive) -> None:
        """Pass on changes until the source stops. Say so when the connection is lost, and connect again."""
        wait_s = MIN_RETRY_S
        while not self._stopped.is_set():
            try:
                with self._open_stream() as client:
                    for changes in client.changes():
                        if changes.reset:
                            receive(LIVE)
                            wait_s = MIN_RETRY_S
                        receive(changes)
                why = "the scheduler was replaced"
            except WeftError as error:
                why = str(error).partition("\n")[0]
            if self._stopped.is_set():
                return
            receive(Link(f"◌ reconnecting: {why}", False))
            self._stopped.wait(wait_s * random.uniform(0.8, 1.2))
            wait_s = min(wait_s * 2, MAX_RETRY_S)

    def _open_stream(self) -> Client:
        client = Client(self._where, start=False)
        with self._lock:
            self._streaming = client
        return client

    # ---- calls

    def _calls(self) -> Client:
        with self._lock:
            if self._client is None:
                self._client = Client(self._where, start=False)
            return self._client

    def job(self, job: str) -> JobDetailView:
        return self._calls().job(job)

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:
        return self._calls().explain(job, forecast=forecast)

    def change(self, verb: str, jobs: Sequence[str], settings: dict[str, str]) -> Outcome:
        reply = self._calls().change(verb, jobs, settings=settings)
        return Outcome(list(reply.ids), [(each.name, each.value) for each in reply.refused])

    # ---- logs

    def follow_log(self, job: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        client = Client(self._where, start=False)
        over = threading.Event()

        def read() -> None:
            try:
                for text in _log(client, job):
                    if over.is_set():
                        return
                    receive(text)
            except WeftError as error:
                if not over.is_set():
                    receive(f"\n[{str(error).partition(chr(10))[0]}]\n".encode())

        threading.Thread(target=read, name=f"log of {job}", daemon=True).start()

        def stop() -> None:
            over.set()
            client.close()

        return stop


def _log(client: Client, job: str) -> Iterator[bytes]:
    """Yield the end of the last run's log, then what the job writes, run after run."""
    found = client.job(job)
    if not found.run:
        yield b"[this job has not run yet: its output appears here]\n"
    yield from client.follow(found.id, lines=LOG_LINES)
