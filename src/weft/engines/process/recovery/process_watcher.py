"""Notices that a process has gone, without asking again and again where that can be helped."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from typing import Final

from weft.engines.process.shim.process_id import Identity, is_alive, open_pidfd

SHARE: Final = 4
"""At most one descriptor in so many is spent on this; whoever has none is looked at once a second."""


class ProcessWatcher:
    def __init__(self, gone: Callable[[str], None]) -> None:
        self._gone = gone
        self._handles: dict[str, int] = {}
        self._asked: dict[str, Identity] = {}
        self._most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // SHARE

    def keep(self, name: str, who: Identity) -> None:
        """From now on `gone(name)` is called once this process has gone."""
        if name in self._handles:
            return
        self._asked[name] = who
        if len(self._handles) >= self._most:
            return
        try:
            handle = open_pidfd(who)
        except OSError:
            return
        if handle is not None:
            del self._asked[name]
            self._handles[name] = handle
            asyncio.get_running_loop().add_reader(handle, self._has_gone, name)

    def drop(self, name: str) -> None:
        self._asked.pop(name, None)
        handle = self._handles.pop(name, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

    def ask(self) -> None:
        """Look at those who could not be given a descriptor, or had gone by then."""
        for name, who in list(self._asked.items()):
            if is_alive(who):
                self.keep(name, who)
            else:
                self._has_gone(name)

    def close(self) -> None:
        for name in [*self._handles, *self._asked]:
            self.drop(name)

    def _has_gone(self, name: str) -> None:
        self.drop(name)
        self._gone(name)
