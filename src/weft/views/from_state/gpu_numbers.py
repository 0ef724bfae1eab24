"""GPU numbers as the driver assigns them. The core counts the GPUs of a node from 0, whichever of them are used."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import InputError
from weft.model import NodeId, Slots


class GpuNumbers:
    """Converts between driver numbers and the core's positions, by node."""

    def __init__(self) -> None:
        self._numbers: dict[NodeId, tuple[int, ...]] = {}
        self._odd: set[NodeId] = set()
        """Nodes whose driver numbers differ from the core's positions."""

    def set_numbers(self, node: NodeId, numbers: Sequence[int]) -> None:
        """Set the driver numbers of a node's GPUs."""
        self._numbers[node] = tuple(numbers)
        same = self._numbers[node] == tuple(range(len(numbers)))
        (self._odd.discard if same else self._odd.add)(node)

    def all(self, node: NodeId) -> str:
        """Return the numbers of a node's GPUs, for a message."""
        numbers = self._numbers.get(node, ())
        if not numbers:
            return "none"
        if node not in self._odd and len(numbers) > 1:
            return f"0 to {len(numbers) - 1}"
        return ", ".join(map(str, numbers))

    def place(self, node: NodeId, number: int) -> int:
        """Return the position of a GPU in the core. Raise if the node has no such GPU."""
        numbers = self._numbers.get(node, ())
        if number not in numbers:
            on = f" on {node}" if len(self._numbers) > 1 else ""
            raise InputError(f"there is no GPU {number}{on}", hint=f"there are: {self.all(node)}; see weft gpus")
        return numbers.index(number)

    def number(self, node: NodeId, place: int) -> int:
        numbers = self._numbers.get(node, ())
        return numbers[place] if place < len(numbers) else place

    def numbers(self, slots: Slots) -> list[int]:
        """Return the numbers of these GPUs, as far as their nodes still have them."""
        known = self._numbers
        return [known[node][gpu] for node, gpus in slots for gpu in gpus if gpu < len(known.get(node, ()))]

    def renumbered(self, slots: Slots) -> Slots:
        """Return the same GPUs by their driver numbers."""
        if not self._odd or not any(node in self._odd for node, _ in slots):
            return slots
        return tuple((node, tuple(self.number(node, gpu) for gpu in gpus)) for node, gpus in slots)
