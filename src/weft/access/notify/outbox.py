"""Messages that wait for delivery, one file each, and the position up to which the facts have been looked at."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.inputs.atomic import write_atomic

MESSAGES: Final = "notify"
"""The folder of an outbox in the folder of its server."""
POSITION: Final = "position.json"
MAX_ENTRY_BYTES: Final = 64 << 10
log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """One message to one target."""

    number: int
    target: str
    created_at: float
    message: Mapping[str, Any]

    @property
    def file(self) -> str:
        return f"{self.number:012d}.json"


class Position(NamedTuple):
    at: float
    """Facts up to this time have led to the messages that they lead to."""
    groups: Mapping[str, float] = {}
    """For each group with messages, the time from which its ended jobs count for the next one."""


class Outbox:
    """The folder of the messages. `changed` and `removed` receive its files, for servers that share them."""

    def __init__(
        self,
        folder: Path,
        changed: Callable[[Path], None] = lambda _path: None,
        removed: Callable[[Path], None] = lambda _path: None,
    ) -> None:
        self._folder, self._changed, self._removed = folder, changed, removed

    def load(self) -> tuple[Position | None, list[Entry]]:
        """Return the position, if any is stored, and the waiting messages in their order. Skip unreadable files."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        entries = []
        for name in sorted(os.listdir(self._folder)):
            if name[:1].isdecimal() and (found := self._read(name)) is not None:
                with suppress(KeyError, TypeError, ValueError):
                    at = float(found["created_at"])
                    entries.append(Entry(int(name.partition(".")[0]), str(found["target"]), at, found["message"]))
        position = self._read(POSITION)
        try:
            return None if position is None else Position(float(position["at"]), dict(position["groups"])), entries
        except (KeyError, TypeError, ValueError):
            return None, entries

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            with open(self._folder / name, "rb") as file:
                found = json.loads(file.read(MAX_ENTRY_BYTES))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("cannot read %s: %s", self._folder / name, error)
            return None
        return found if isinstance(found, dict) else None

    def store(self, entries: Iterable[Entry], position: Position) -> None:
        """Write the messages, and then the position: after a crash between the two, they are made again."""
        for entry in entries:
            self._write(entry.file, {key: value for key, value in entry._asdict().items() if key != "number"})
        self._write(POSITION, position._asdict())

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        write_atomic(self._folder / name, json.dumps(content).encode(), durable=True)
        self._changed(self._folder / name)

    def remove(self, entry: Entry) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self._folder / entry.file)
        self._removed(self._folder / entry.file)
