"""GPU seconds by job. Jobs that hold a GPU at the same time get equal parts of its seconds, so that all parts add up
to the seconds in which it was busy."""

from __future__ import annotations

from weft.model import Node, NodeId, Seconds, Slots


class Holder:
    """The GPUs of one job, and its GPU seconds so far."""

    __slots__ = ("count", "gpu_seconds", "since", "slots", "sole")

    def __init__(self) -> None:
        self.slots: Slots = ()
        self.count = 0
        self.since: Seconds = 0.0
        self.sole = True
        """True while no other job has been on any of its GPUs: they are counted together when it releases them."""
        self.gpu_seconds = 0.0


class Cell:
    """A GPU that several jobs hold or held; it is settled whenever a job comes or goes."""

    __slots__ = ("holders", "since")

    def __init__(self, holder: Holder, since: Seconds) -> None:
        self.holders = [holder]
        self.since = since

    def settle(self, at: Seconds) -> None:
        if at == self.since:  # a weave comes and goes at one instant
            return
        part = (at - self.since) / len(self.holders)
        self.since = at
        for holder in self.holders:
            holder.gpu_seconds += part


NodeHolders = list[Holder | Cell | None]
"""The GPUs of a node: idle, held by one job, or shared (a cell)."""


class GpuTime:
    def __init__(self) -> None:
        self.gpus = 0
        """The number of GPUs held."""
        self._nodes: dict[NodeId, NodeHolders] = {}

    def join(self, node: Node) -> None:
        """Add a node, or the GPUs that a known one has gained."""
        holders = self._nodes.setdefault(node.id, [])
        holders += [None] * (len(node.gpus) - len(holders))

    def lose(self, node: NodeId) -> None:
        """Forget a node, after `release` of all that was on it."""
        del self._nodes[node]

    def hold(self, holder: Holder, slots: Slots, at: Seconds, woven: bool) -> None:
        holder.slots, holder.since = slots, at
        if woven or not self._is_idle(slots):
            self._hold_together(holder, at)
            return
        count = 0
        for node, gpus in slots:
            held_by = self._nodes[node]
            count += len(gpus)
            for gpu in gpus:
                held_by[gpu] = holder
        holder.sole, holder.count = True, count
        self.gpus += count

    def release(self, holder: Holder, at: Seconds) -> None:
        """Release all GPUs of a job."""
        if not holder.sole:
            self.release_some(holder, holder.slots, at)
            return
        for node, gpus in holder.slots:
            held_by = self._nodes[node]
            for gpu in gpus:
                held_by[gpu] = None
        holder.gpu_seconds += holder.count * (at - holder.since)
        self.gpus -= holder.count
        holder.slots = ()

    def release_some(self, holder: Holder, slots: Slots, at: Seconds) -> None:
        """Release some GPUs of a job."""
        if holder.sole:
            self._share(holder, at)
        for node, gpus in slots:
            held_by = self._nodes[node]
            for gpu in gpus:
                cell = held_by[gpu]
                assert isinstance(cell, Cell)
                cell.settle(at)
                cell.holders.remove(holder)
                if not cell.holders:
                    held_by[gpu] = None
                    self.gpus -= 1
        holder.slots = tuple(part for part in holder.slots if part not in slots)

    def settle(self, holder: Holder, at: Seconds) -> None:
        """Add the GPU seconds up to now."""
        if holder.sole:
            holder.gpu_seconds += holder.count * (at - holder.since)
            holder.since = at
            return
        for node, gpus in holder.slots:
            for gpu in gpus:
                cell = self._nodes[node][gpu]
                assert isinstance(cell, Cell)
                cell.settle(at)

    def _is_idle(self, slots: Slots) -> bool:
        for node, gpus in slots:
            held_by = self._nodes[node]
            for gpu in gpus:
                if held_by[gpu] is not None:
                    return False
        return True

    def _hold_together(self, holder: Holder, at: Seconds) -> None:
        holder.sole = False
        for node, gpus in holder.slots:
            held_by = self._nodes[node]
            for gpu in gpus:
                there = held_by[gpu]
                if isinstance(there, Holder):
                    self._share(there, at)
                    there = held_by[gpu]
                if isinstance(there, Cell):
                    there.settle(at)
                    there.holders.append(holder)
                else:
                    held_by[gpu] = Cell(holder, at)
                    self.gpus += 1

    def _share(self, holder: Holder, at: Seconds) -> None:
        """Count each GPU of a holder separately from now on, because another job shares one."""
        self.settle(holder, at)
        holder.sole = False
        for node, gpus in holder.slots:
            for gpu in gpus:
                self._nodes[node][gpu] = Cell(holder, at)
