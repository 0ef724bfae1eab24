"""Who holds which GPU. Those who hold one at the same time get equal parts of its seconds, so that all parts add up
to the seconds in which it was busy."""

from __future__ import annotations

from weft.model import Node, NodeId, Seconds, Slots


class Holder:
    """What one job holds, and what it has had of it so far."""

    __slots__ = ("alone", "count", "gpu_seconds", "since", "slots")

    def __init__(self) -> None:
        self.slots: Slots = ()
        self.count = 0
        self.since: Seconds = 0.0
        self.alone = True
        """Nobody else has been on any of its GPUs: they are counted together, when it leaves."""
        self.gpu_seconds = 0.0


class Cell:
    """A GPU that several hold, or held: settled whenever one comes or goes."""

    __slots__ = ("holders", "since")

    def __init__(self, holder: Holder, since: Seconds) -> None:
        self.holders = [holder]
        self.since = since

    def settle(self, at: Seconds) -> None:
        part = (at - self.since) / len(self.holders)
        self.since = at
        for holder in self.holders:
            holder.gpu_seconds += part


Room = list[Holder | Cell | None]
"""The GPUs of a node: idle, of one alone, or a cell."""


class Busy:
    def __init__(self) -> None:
        self.gpus = 0
        """How many are held by somebody."""
        self._rooms: dict[NodeId, Room] = {}

    def join(self, node: Node) -> None:
        self._rooms[node.id] = [None] * len(node.gpus)

    def lose(self, node: NodeId) -> None:
        """Forget a node, after `release` of all that was on it."""
        del self._rooms[node]

    def hold(self, holder: Holder, slots: Slots, at: Seconds, woven: bool) -> None:
        holder.slots, holder.since = slots, at
        if woven or not self._is_idle(slots):
            self._hold_together(holder, at)
            return
        count = 0
        for node, gpus in slots:
            room = self._rooms[node]
            count += len(gpus)
            for gpu in gpus:
                room[gpu] = holder
        holder.alone, holder.count = True, count
        self.gpus += count

    def release(self, holder: Holder, at: Seconds) -> None:
        """Off all its GPUs."""
        if not holder.alone:
            self.release_some(holder, holder.slots, at)
            return
        for node, gpus in holder.slots:
            room = self._rooms[node]
            for gpu in gpus:
                room[gpu] = None
        holder.gpu_seconds += holder.count * (at - holder.since)
        self.gpus -= holder.count
        holder.slots = ()

    def release_some(self, holder: Holder, slots: Slots, at: Seconds) -> None:
        """Off these of its GPUs."""
        if holder.alone:
            self._share(holder, at)
        for node, gpus in slots:
            room = self._rooms[node]
            for gpu in gpus:
                cell = room[gpu]
                assert isinstance(cell, Cell)
                cell.settle(at)
                cell.holders.remove(holder)
                if not cell.holders:
                    room[gpu] = None
                    self.gpus -= 1
        holder.slots = tuple(part for part in holder.slots if part not in slots)

    def settle(self, holder: Holder, at: Seconds) -> None:
        """Count what it has had up to now."""
        if holder.alone:
            holder.gpu_seconds += holder.count * (at - holder.since)
            holder.since = at
            return
        for node, gpus in holder.slots:
            for gpu in gpus:
                cell = self._rooms[node][gpu]
                assert isinstance(cell, Cell)
                cell.settle(at)

    def _is_idle(self, slots: Slots) -> bool:
        for node, gpus in slots:
            room = self._rooms[node]
            for gpu in gpus:
                if room[gpu] is not None:
                    return False
        return True

    def _hold_together(self, holder: Holder, at: Seconds) -> None:
        holder.alone = False
        for node, gpus in holder.slots:
            room = self._rooms[node]
            for gpu in gpus:
                there = room[gpu]
                if isinstance(there, Holder):
                    self._share(there, at)
                    there = room[gpu]
                if isinstance(there, Cell):
                    there.settle(at)
                    there.holders.append(holder)
                else:
                    room[gpu] = Cell(holder, at)
                    self.gpus += 1

    def _share(self, holder: Holder, at: Seconds) -> None:
        """One that was alone is so no more: from now on each of its GPUs is counted by itself."""
        self.settle(holder, at)
        holder.alone = False
        for node, gpus in holder.slots:
            for gpu in gpus:
                self._rooms[node][gpu] = Cell(holder, at)
