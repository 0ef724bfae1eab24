"""GPUs as people and the driver number them. The core counts a node's GPUs from 0, whichever of them are used."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import InputError
from weft.model import NodeId, Slots


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

    def renumbered(self, slots: Slots) -> Slots:
        """Return the same GPUs by their numbers."""
        if not self._odd or not any(node in self._odd for node, _ in slots):
            return slots
        return tuple((node, tuple(self.number(node, gpu) for gpu in gpus)) for node, gpus in slots)
