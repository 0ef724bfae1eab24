"""A log of changed nodes, so that an index recounts only the nodes that changed."""

from __future__ import annotations

MIN_KEPT_CHANGES = 10_000
"""The least number of changes that the log keeps."""


class ChangeLog:
    __slots__ = ("_log", "version")

    def __init__(self) -> None:
        self.version = 0
        """Rises with every change."""
        self._log: list[int] = []
        """The nodes changed lately, as bits, one per version."""

    def record(self, node: int) -> None:
        self.version += 1
        self._log.append(1 << node)
        if len(self._log) > 2 * MIN_KEPT_CHANGES:
            del self._log[:MIN_KEPT_CHANGES]

    def since(self, version: int) -> int | None:
        """Return the nodes that changed since a version; None if the log no longer reaches back to it."""
        ago = self.version - version
        if ago == 1:
            return self._log[-1]
        if ago > len(self._log):
            return None
        nodes = 0
        for bit in self._log[len(self._log) - ago :]:
            nodes |= bit
        return nodes
