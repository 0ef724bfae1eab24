"""A watcher for process exits that uses pidfds, and polls only when descriptors are scarce."""

from __future__ import annotations

import asyncio
import os
import resource
from collections.abc import Callable
from typing import Final

from weft.node.engine.shim.process_id import Identity, is_alive, open_pidfd

DESCRIPTOR_SHARE: Final = 4
"""Use at most one in this many descriptors for pidfds; poll the other processes."""


class ProcessWatcher:
    """The watched processes by name. `on_exit` receives the name of each that has exited."""

    def __init__(self, on_exit: Callable[[str], None]) -> None:
        self._on_exit = on_exit
        self._handles: dict[str, int] = {}
        self._polled: dict[str, Identity] = {}
        self._max_handles = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // DESCRIPTOR_SHARE

    def watch(self, name: str, process: Identity) -> None:
        """Call `on_exit(name)` once this process has exited."""
        if name in self._handles:
            return
        self._polled[name] = process
        if len(self._handles) >= self._max_handles:
            return
        try:
            handle = open_pidfd(process)
        except OSError:
            return
        if handle is not None:
            del self._polled[name]
            self._handles[name] = handle
            asyncio.get_running_loop().add_reader(handle, self._exited, name)

    def unwatch(self, name: str) -> None:
        self._polled.pop(name, None)
        handle = self._handles.pop(name, None)
        if handle is not None:
            asyncio.get_running_loop().remove_reader(handle)
            os.close(handle)

    def poll(self) -> None:
        """Check the processes that have no pidfd."""
        for name, process in list(self._polled.items()):
            if is_alive(process):
                self.watch(name, process)
            else:
                self._exited(name)

    def close(self) -> None:
        for name in [*self._handles, *self._polled]:
            self.unwatch(name)

    def _exited(self, name: str) -> None:
        self.unwatch(name)
        self._on_exit(name)
