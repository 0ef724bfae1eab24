"""Sources of route tables: the port, and a file that is read again when it changes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from typing import Final, Protocol

from weft.errors import WeftError
from weft.router.table import RouteTable, read_table

FILE_POLL_S: Final = 0.2
log = logging.getLogger(__name__)


class TableSource(Protocol):
    """Says which services and replicas there are. The router serves the last table if no further one comes."""

    def tables(self) -> AsyncIterator[RouteTable]:
        """Yield the first table, then each new one, whole."""
        ...


class TableFile:
    """A table in a file. A damaged new version is logged, and the last good one stays."""

    def __init__(self, path: str, poll_s: float = FILE_POLL_S) -> None:
        self._path, self._poll_s = path, poll_s
        self._number = 0

    async def tables(self) -> AsyncIterator[RouteTable]:
        seen = self._stamp()
        yield read_table(self._path)
        while True:
            await asyncio.sleep(self._poll_s)
            if (stamp := self._stamp()) in (seen, None):
                continue
            seen = stamp
            try:
                table = read_table(self._path)
            except WeftError as error:
                log.warning("the table is not used: %s", str(error).replace("\n", " "))
                continue
            self._number += 1
            yield RouteTable(table.services, self._number)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino
