"""The floor: every GPU, who holds it, and what it could still give.

GPUs that are being vacated count as free for planning (`soon`), but nobody starts on them until they are `idle`.
The same code serves the real floor of the state and the empty scratch floors that planners try things on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol

from weft.core.free import Free, members
from weft.core.shapes import Family, Shape, memory_needed
from weft.errors import PlanError
from weft.model import JobId, Node, NodeId, Slots

MANY_SHAPES = 1_000
"""How many shapes are remembered before they are forgotten."""
REMEMBERED = 10_000
"""How many changes are remembered at least."""
SLACK = 1e-9
"""Shares are fractions such as 1/3: their sums are compared with this much patience."""


class Holder(Protocol):
    """Whoever holds GPUs: a run, or a planner's trial."""

    seat: Shape
    """What it holds: its shape with the share and memory it was started with."""
    placed: Slots
    """Where it was put, in rank order."""
    leaving: bool
    weave: tuple[JobId, ...]


class Room:
    """One node's GPUs and their holders."""

    __slots__ = ("alive", "cpus_leaving", "cpus_used", "holders", "index", "node", "ram_leaving", "ram_used")

    def __init__(self, node: Node, index: int) -> None:
        self.node, self.index, self.alive = node, index, True
        self.holders: list[list[Holder]] = [[] for _ in node.gpus]
        self.cpus_used = self.ram_used = self.cpus_leaving = self.ram_leaving = 0

    @property
    def tasks(self) -> int:
        """How many runs are here."""
        return len({id(holder) for holders in self.holders for holder in holders})


class Floor:
    def __init__(self, oversubscription: float = 1.0) -> None:
        self.rooms: list[Room] = []
        self.by_id: dict[NodeId, Room] = {}
        self.recent: Counter[Shape] = Counter()
        """What has been asked for lately; the state keeps it."""
        self.idle, self.soon = Free(self.rooms, self.recent), Free(self.rooms, self.recent)
        self.leaving = 0
        """How many runs are on their way out."""
        self.version = 0
        """Rises with every change."""
        self._log: list[int] = []
        """The nodes changed lately, as bits, one per version."""
        self.oversubscription = oversubscription
        self._masks: dict[object, int | None] = {}
        self._empty: Free | None = None
        self._sizes: dict[Family | Shape, list[int]] = {}
        self._counted: dict[tuple[Family | Shape, bool], tuple[Free, int]] = {}
        """What each node could give to a shape or family, and as of which version."""

    # ---- nodes come and go

    def join(self, node: Node) -> Room:
        known = self.by_id.get(node.id)
        if known is not None and len(known.node.gpus) == len(node.gpus):
            room = self.rooms[known.index] = Room(node, known.index)
        else:
            room = Room(node, len(self.rooms))
            self.rooms.append(room)
            self.idle.add_node(len(node.gpus), node.switch)
            self.soon.add_node(len(node.gpus), node.switch)
        self.by_id[node.id] = room
        for free in (self.idle, self.soon):
            free.move(room.index, node.switch)
        self._note(room)
        self.idle.change(room.index, len(node.gpus))
        self.soon.change(room.index, len(node.gpus))
        self._topology_changed()
        return room

    def lose(self, room: Room) -> None:
        """Takes a node out whose holders have been released."""
        room.alive = False
        self._note(room)
        self.idle.change(room.index, -self.idle.count[room.index])
        self.soon.change(room.index, -self.soon.count[room.index])
        self._topology_changed()

    def emptied(self) -> Free:
        """What the living nodes could give with nobody on them."""
        if self._empty is None:
            self._empty = self.idle.recounted([len(r.node.gpus) if r.alive else 0 for r in self.rooms])
        return self._empty.copy()

    def empty_copy(self) -> Floor:
        """The same living nodes with nobody on them."""
        twin = Floor(self.oversubscription)
        twin._masks = self._masks
        for room in self.rooms:
            fresh = Room(room.node, room.index)
            fresh.alive = room.alive
            twin.rooms.append(fresh)
        twin.by_id = {room.node.id: room for room in twin.rooms}
        twin.idle, twin.soon = self.emptied(), self.emptied()
        twin.recent = self.recent
        twin.idle.rooms = twin.soon.rooms = twin.rooms
        return twin

    # ---- holders come and go

    def hold(self, holder: Holder, slots: Slots) -> None:
        family = holder.seat.family
        for node_id, gpus in slots:
            room = self.by_id[node_id]
            self._note(room)
            idle = soon = 0
            for gpu in gpus:
                holders = room.holders[gpu]
                if not holders:
                    idle += 1
                    soon += 1
                else:
                    soon += all(h.leaving for h in holders)
                    self._check_room(room, gpu, holder)
                holders.append(holder)
            if idle:
                self.idle.change(room.index, -idle)
            if soon:
                self.soon.change(room.index, -soon)
            if family.cpus or family.ram_mb:
                room.cpus_used += family.cpus * (len(gpus) or 1)
                room.ram_used += family.ram_mb * (len(gpus) or 1)

    def _check_room(self, room: Room, gpu: int, holder: Holder) -> None:
        """A GPU that somebody holds takes another only of the same weave, or with a share that is left."""
        woven = {h.weave for h in room.holders[gpu] if h.weave}
        if holder.weave in woven:
            return
        request = sum(h.seat.family.share.request for h in room.holders[gpu] if not h.weave) + len(woven)
        if request + holder.seat.family.share.request > 1 + SLACK:
            raise PlanError(f"GPU {gpu} of {room.node.id} would be given out twice")

    def leave(self, holder: Holder, slots: Slots) -> None:
        """The holder (its `leaving` just set) is on its way out: its GPUs are promised back."""
        family = holder.seat.family
        self.leaving += 1
        for node_id, gpus in slots:
            room = self.by_id[node_id]
            self._note(room)
            soon = 0
            for gpu in gpus:
                holders = room.holders[gpu]
                soon += len(holders) == 1 or all(h.leaving for h in holders)
            if soon:
                self.soon.change(room.index, soon)
            if family.cpus or family.ram_mb:
                room.cpus_leaving += family.cpus * (len(gpus) or 1)
                room.ram_leaving += family.ram_mb * (len(gpus) or 1)

    def release(self, holder: Holder, slots: Slots, *, last: bool = True) -> None:
        """The holder is off these GPUs; `last` unless it stays on others."""
        family = holder.seat.family
        if holder.leaving and last:
            self.leaving -= 1
        for node_id, gpus in slots:
            room = self.by_id[node_id]
            self._note(room)
            idle = soon = 0
            for gpu in gpus:
                holders = room.holders[gpu]
                holders.remove(holder)
                if not holders:
                    idle += 1
                    soon += not holder.leaving
                elif not holder.leaving and all(h.leaving for h in holders):
                    soon += 1
            if idle:
                self.idle.change(room.index, idle)
            if soon:
                self.soon.change(room.index, soon)
            if family.cpus or family.ram_mb:
                cpus, ram_mb = family.cpus * (len(gpus) or 1), family.ram_mb * (len(gpus) or 1)
                room.cpus_used -= cpus
                room.ram_used -= ram_mb
                if holder.leaving:
                    room.cpus_leaving -= cpus
                    room.ram_leaving -= ram_mb

    def touch(self, slots: Slots) -> None:
        """Whoever holds these GPUs stands elsewhere in the order now."""
        for node_id, _ in slots:
            self._note(self.by_id[node_id])

    # ---- what a shape could have

    def free_for(self, shape: Shape, *, soon: bool) -> Free:
        """How many GPUs each node can give to this shape, now or once those leaving have left."""
        base = self.soon if soon else self.idle
        if shape.plain:
            return base
        if shape.family.counted:
            mask = self._mask(shape)
            if mask is not None:
                return base.masked(mask)
        return self._counted_for(shape, base, soon=soon)

    def _counted_for(self, shape: Shape, base: Free, *, soon: bool) -> Free:
        """Counts the nodes one by one, but only those that changed since the last time."""
        alike = shape if isinstance(shape.memory_mb, tuple) else shape.family
        known = self._counted.get((alike, soon))
        changed = self.changed_since(known[1]) if known is not None else None
        if known is None or changed is None:
            free = base.recounted([self.count_for(room, shape, soon=soon) for room in self.rooms])
            free.size = self._sizes_for(alike, shape)
            free.top = max(free.size, default=0)
            if len(self._counted) >= MANY_SHAPES:
                self._counted.clear()
        else:
            free = known[0]
            for node in members(changed):
                free.change(node, self.count_for(self.rooms[node], shape, soon=soon) - free.count[node])
        self._counted[alike, soon] = free, self.version
        return free

    def _sizes_for(self, alike: Family | Shape, shape: Shape) -> list[int]:
        """How many GPUs each node could give this shape if it were empty."""
        sizes = self._sizes.get(alike)
        if sizes is None:
            empty = self.empty_copy()
            sizes = [empty.count_for(room, shape, soon=False) for room in empty.rooms]
            if len(self._sizes) >= MANY_SHAPES:
                self._sizes.clear()
            self._sizes[alike] = sizes
        return sizes

    def changed_since(self, version: int) -> int | None:
        """The nodes on which anything changed since then; None where that is too long ago to know."""
        if self.version - version > len(self._log):
            return None
        nodes = 0
        for bit in self._log[len(self._log) - (self.version - version) :]:
            nodes |= bit
        return nodes

    def count_for(self, room: Room, shape: Shape, *, soon: bool, gone: Collection[Holder] = ()) -> int:
        if not room.alive:
            return 0
        family = shape.family
        fitting = self.fitting(room, shape, soon=soon, gone=gone)
        count = len(fitting)
        if family.cpus and room.node.cpus:
            count = min(count, self._left(room, "cpus", soon, gone) // family.cpus)
        if family.ram_mb and room.node.ram_mb:
            count = min(count, self._left(room, "ram_mb", soon, gone) // family.ram_mb)
        return max(count, 0)

    def fitting(self, room: Room, shape: Shape, *, soon: bool, gone: Collection[Holder] = ()) -> list[int]:
        """The GPUs of a node that this shape could use, the fullest first."""
        where = shape.family.where
        if where.labels and not set(where.labels) <= set(room.node.labels):
            return []
        pinned = dict(where.pinned).get(room.node.id, ()) if where.pinned else None
        memory = shape.memory_mb
        whole_gang = isinstance(memory, tuple) and self._seats_ranks(room, shape, soon=soon, gone=gone)
        least = (min(memory) if whole_gang else max(memory)) if isinstance(memory, tuple) else memory
        fitting = []
        for index, gpu in enumerate(room.node.gpus):
            if pinned is not None and index not in pinned:
                continue
            if where.gpu_model and gpu.model != where.gpu_model:
                continue
            left = self._left_on(room, index, shape, soon=soon, gone=gone)
            if left is not None and left[1] >= least:
                fitting.append((left[0], left[1], index))
        fitting.sort()
        return [index for _, _, index in fitting]

    def pick(self, room: Room, count: int, shape: Shape) -> tuple[int, ...] | None:
        """Which of a node's GPUs: the lowest of the idle for whole GPUs, else the fullest that fit."""
        if shape.plain:
            holders = room.holders
            chosen = [gpu for gpu in range(len(holders)) if not holders[gpu]][:count]
            return tuple(chosen) if len(chosen) == count else None
        fitting = self.fitting(room, shape, soon=False)
        if isinstance(shape.memory_mb, tuple):
            return self._seat_ranks(room, fitting, count, shape)
        return tuple(sorted(fitting[:count])) if len(fitting) >= count else None

    def seats_cpus(self, room: Room, shape: Shape) -> bool:
        """Whether a job without GPUs finds the CPUs and RAM it needs here."""
        family, node = shape.family, room.node
        return (not node.cpus or node.cpus - room.cpus_used >= family.cpus) and (
            not node.ram_mb or node.ram_mb - room.ram_used >= family.ram_mb
        )

    # ---- inside

    def _topology_changed(self) -> None:
        self._masks.clear()
        self._sizes.clear()
        self._counted.clear()
        self._empty = None
        self.idle.top = self.soon.top = max((len(r.node.gpus) for r in self.rooms if r.alive), default=0)

    def _note(self, room: Room) -> None:
        self.version += 1
        self._log.append(1 << room.index)
        if len(self._log) > 2 * REMEMBERED:
            del self._log[:REMEMBERED]

    def _mask(self, shape: Shape) -> int | None:
        """The nodes whose every GPU suits this shape; None where a node has GPUs of both kinds."""
        key = shape.family
        if key not in self._masks:
            self._masks[key] = self._suited(shape)
        return self._masks[key]

    def _suited(self, shape: Shape) -> int | None:
        where, memory, mask = shape.family.where, shape.memory_of(0), 0
        for room in self.rooms:
            if not room.alive or (where.labels and not set(where.labels) <= set(room.node.labels)):
                continue
            suited = sum(g.memory_mb >= memory and where.gpu_model in ("", g.model) for g in room.node.gpus)
            if suited == len(room.node.gpus):
                mask |= 1 << room.index
            elif suited:
                return None
        return mask

    def _left(self, room: Room, what: str, soon: bool, gone: Collection[Holder]) -> int:
        used = room.cpus_used if what == "cpus" else room.ram_used
        leaving = room.cpus_leaving if what == "cpus" else room.ram_leaving
        freed = sum(
            getattr(holder.seat.family, what) for holders in room.holders for holder in holders if holder in gone
        )
        return int(getattr(room.node, what) - used + (leaving if soon else 0) + freed)

    def _left_on(
        self, room: Room, index: int, shape: Shape, *, soon: bool, gone: Collection[Holder]
    ) -> tuple[float, int] | None:
        """What a GPU has left, (request, memory), if a share of this shape fits on it; None if not."""
        gpu, share = room.node.gpus[index], shape.family.share
        request = limit = 0.0
        memory = 0
        weaves: set[tuple[JobId, ...]] = set()
        for holder in room.holders[index]:
            if holder in gone or (soon and holder.leaving):
                continue
            memory += memory_held(holder, room.node.id, index)
            if holder.weave:
                if holder.weave in weaves:
                    continue
                weaves.add(holder.weave)
            request += holder.seat.family.share.request
            limit += holder.seat.family.share.limit
        if request + share.request > 1 + SLACK or limit + share.limit > max(self.oversubscription, 1) + SLACK:
            return None
        return 1 - request, gpu.memory_mb - memory

    def _seats_ranks(self, room: Room, shape: Shape, *, soon: bool, gone: Collection[Holder]) -> bool:
        """Whether the whole gang fits on this node, each rank on a GPU with memory enough for it."""
        left = (self._left_on(room, g, shape, soon=soon, gone=gone) for g in range(len(room.node.gpus)))
        memories = sorted((m for _, m in filter(None, left)), reverse=True)
        ranks = sorted((shape.memory_of(r) for r in range(shape.gpus)), reverse=True)
        return len(memories) >= len(ranks) and all(m >= r for m, r in zip(memories, ranks, strict=False))

    def _seat_ranks(self, room: Room, fitting: list[int], count: int, shape: Shape) -> tuple[int, ...] | None:
        """A GPU for each rank: the neediest rank takes the smallest GPU that will do."""
        left = {g: (self._left_on(room, g, shape, soon=False, gone=()) or (0, 0))[1] for g in fitting}
        if count < shape.gpus:  # a part of the gang: which ranks is not known here, so any must fit
            able = [g for g in fitting if left[g] >= memory_needed(shape)]
            return tuple(able[:count]) if len(able) >= count else None
        seats: dict[int, int] = {}
        for rank in sorted(range(shape.gpus), key=lambda r: -shape.memory_of(r)):
            able = [g for g in left if g not in seats.values() and left[g] >= shape.memory_of(rank)]
            if not able:
                return None
            seats[rank] = min(able, key=lambda g: (left[g], g))
        return tuple(seats[rank] for rank in range(shape.gpus))


def memory_held(holder: Holder, node: NodeId, gpu: int) -> int:
    memory = holder.seat.memory_mb
    if not isinstance(memory, tuple):
        return memory
    ranks = [(node_id, g) for node_id, gpus in holder.placed for g in gpus]
    return memory[ranks.index((node, gpu))]
