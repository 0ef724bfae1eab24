"""GPUs as people and the driver number them. The core counts a node's GPUs from 0, whichever of them are used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from weft.errors import InputError
from weft.model import NodeId, Slots

SAID: Final = frozenset({"place", "last_place", "text", "lines", "jobs", "gpus", "reasons", "unblock", "nodes"})
"""Fields of an answer, or of what they hold, in which places are written out, or GPUs listed with their nodes."""
_PLACE: Final = re.compile(r"(?<![\w.-])([\w.-]+)\[(\d+(?:,\d+)*)\]")


class GpuNumbers:
    def __init__(self) -> None:
        self._numbers: dict[NodeId, tuple[int, ...]] = {}
        self._odd: set[NodeId] = set()
        """Nodes whose GPUs are not numbered as the core counts them."""

    def know(self, node: NodeId, numbers: Sequence[int]) -> None:
        """How this node's GPUs are numbered, from now on."""
        self._numbers[node] = tuple(numbers)
        same = self._numbers[node] == tuple(range(len(numbers)))
        (self._odd.discard if same else self._odd.add)(node)

    def all(self, node: NodeId) -> str:
        """Those that it has, as a person would say it."""
        numbers = self._numbers.get(node, ())
        if not numbers:
            return "none"
        if node not in self._odd and len(numbers) > 1:
            return f"0 to {len(numbers) - 1}"
        return ", ".join(map(str, numbers))

    def place(self, node: NodeId, number: int) -> int:
        """Where the core counts this GPU."""
        numbers = self._numbers.get(node, ())
        if number not in numbers:
            on = f" on {node}" if len(self._numbers) > 1 else ""
            raise InputError(f"there is no GPU {number}{on}", hint=f"there are: {self.all(node)}; see weft gpus")
        return numbers.index(number)

    def number(self, node: NodeId, place: int) -> int:
        numbers = self._numbers.get(node, ())
        return numbers[place] if place < len(numbers) else place

    def numbers(self, slots: Slots) -> list[int]:
        """Of those that are still there."""
        known = self._numbers
        return [known[node][gpu] for node, gpus in slots for gpu in gpus if gpu < len(known.get(node, ()))]

    def shown(self, answer: dict[str, Any]) -> dict[str, Any]:
        """An answer with GPUs as they are numbered."""
        if not self._odd:
            return answer
        found = {key: self._said(value) if key in SAID else value for key, value in answer.items()}
        if "gpu" in answer and "node" in answer:
            found["gpu"] = self.number(answer["node"], answer["gpu"])
        return found

    def _said(self, value: Any) -> Any:
        if isinstance(value, str):
            return _PLACE.sub(self._renumbered, value)
        if isinstance(value, list | tuple):
            return [self._said(each) for each in value]
        return self.shown(value) if isinstance(value, dict) else value

    def _renumbered(self, place: re.Match[str]) -> str:
        node, places = place[1], place[2]
        if node not in self._odd:
            return place[0]
        return f"{node}[{','.join(str(self.number(node, int(each))) for each in places.split(','))}]"
