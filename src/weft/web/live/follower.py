"""Follows the scheduler in threads, because its client is synchronous, and hands each change to the event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from weft.access.client import Client
from weft.errors import WeftError
from weft.views.answers.changes import ChangesView
from weft.views.from_state.timestamps import seconds_of
from weft.web.live.job_table import JobTable

RETRY_S: Final = 1.0
PAGE_JOBS: Final = 1000
PAGE_PAUSE_S: Final = 0.2
"""Between two pages of old jobs: the scheduler has other things to do."""
MAX_JOBS: Final = 500_000
log = logging.getLogger(__name__)


class Follower:
    """Keeps the table of jobs up to date, and calls `on_change` and `on_error` in the event loop."""

    def __init__(
        self, connect: Callable[[], Client], table: JobTable, on_change: Callable[[ChangesView], None],
        on_error: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._connect, self._table = connect, table
        self._on_change, self._on_error = on_change, on_error
        self._ended = threading.Event()
        self._client: Client | None = None
        self._stream = 0
        """Counts the streams, so that the loading for an old one ends."""

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._follow, name="changes", daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        if self._client is not None:
            self._client.close()

    def _follow(self) -> None:
        while not self._ended.is_set():
            try:
                with self._connect() as client:
                    self._client = client
                    for changes in client.changes():
                        self._receive(changes)
                        if self._ended.is_set():
                            return
            except (WeftError, OSError) as error:
                self._post(self._on_error, str(error).partition("\n")[0])
                log.info("no scheduler: %s", error)
            except RuntimeError:  # the event loop has ended
                return
            self._ended.wait(RETRY_S)

    def _receive(self, changes: ChangesView) -> None:
        if changes.reset:
            self._table.clear()
            self._stream += 1
            threading.Thread(target=self._load_others, args=(self._stream,), name="jobs", daemon=True).start()
        if changes.jobs:
            self._table.put(changes.jobs, changes.now)
        if changes.purged:
            self._table.remove(changes.purged)
        self._post(self._on_change, changes)

    def _post(self, receive: Callable[..., None], value: object) -> None:
        self._loop.call_soon_threadsafe(receive, value)

    def _load_others(self, stream: int) -> None:
        """Load the jobs that the first messages of a stream leave out: old ones, and those far back in the queue."""
        try:
            with self._connect() as client:
                for what in ("queue", "history"):
                    self._load(client, what, stream)
        except (WeftError, OSError) as error:
            log.warning("the list of jobs is not complete: %s", error)
        except Exception:
            log.exception("the list of jobs is not complete")

    def _load(self, client: Client, what: str, stream: int) -> None:
        skip = 0
        while skip < MAX_JOBS and stream == self._stream and not self._ended.is_set():
            read = client.queue if what == "queue" else client.history
            found = read(limit=PAGE_JOBS, skip=skip)
            if stream != self._stream:
                return
            self._table.put(found.jobs, seconds_of(found.now), newer=False)
            skip += len(found.jobs)
            if not found.more or not found.jobs:
                return
            self._ended.wait(PAGE_PAUSE_S)
