"""GPUs as people and the driver number them. The core counts a node's GPUs from 0, whichever of them are used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from weft.errors import InputError
from weft.model import NodeId

SAID: Final = frozenset({"place", "text", "lines", "jobs", "reasons", "unblock", "nodes"})
"""Fields of an answer, or of what they hold, in which places are written out."""


class GpuNumbers:
    def __init__(self, node: NodeId, numbers: Sequence[int]) -> None:
        self._numbers = tuple(numbers)
        self._same = self._numbers == tuple(range(len(self._numbers)))
        self._place = re.compile(rf"(?<![\w.-]){re.escape(node)}\[(\d+(?:,\d+)*)\]")
        self._node = node

    @property
    def all(self) -> str:
        """Those that there are, as a person would say it."""
        if not self._numbers:
            return "none"
        if self._same and len(self._numbers) > 1:
            return f"0 to {len(self._numbers) - 1}"
        return ", ".join(map(str, self._numbers))

    def place(self, number: int) -> int:
        """Where the core counts this GPU."""
        if number not in self._numbers:
            raise InputError(f"there is no GPU {number}", hint=f"there are: {self.all}; see weft gpus")
        return self._numbers.index(number)

    def number(self, place: int) -> int:
        return self._numbers[place]

    def numbers(self, places: Sequence[int]) -> list[int]:
        """Of those that are still there."""
        return [self._numbers[place] for place in places if place < len(self._numbers)]

    def shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer with GPUs as they are numbered."""
        if self._same:
            return answer
        return {key: self._said(value) if key in SAID else value for key, value in answer.items()}

    def _said(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._place.sub(lambda match: f"{self._node}[{self._renumbered(match[1])}]", value)
        if isinstance(value, list | tuple):
            return [self._said(each) for each in value]
        return self.shown(value) if isinstance(value, dict) else value

    def _renumbered(self, places: str) -> str:
        return ",".join(str(self._numbers[int(place)]) for place in places.split(","))
