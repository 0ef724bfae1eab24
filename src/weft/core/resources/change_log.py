"""Which nodes changed since when, so that an index is brought up to date only where it must be."""

from __future__ import annotations

REMEMBERED = 10_000
"""How many changes are remembered at least."""


class ChangeLog:
    __slots__ = ("_log", "version")

    def __init__(self) -> None:
        self.version = 0
        """Rises with every change."""
        self._log: list[int] = []
        """The nodes changed lately, as bits, one per version."""

    def note(self, node: int) -> None:
        self.version += 1
        self._log.append(1 << node)
        if len(self._log) > 2 * REMEMBERED:
            del self._log[:REMEMBERED]

    def since(self, version: int) -> int | None:
        """The nodes on which anything changed since then; None where that is too long ago to know."""
        ago = self.version - version
        if ago > len(self._log):
            return None
        nodes = 0
        for bit in self._log[len(self._log) - ago :]:
            nodes |= bit
        return nodes
