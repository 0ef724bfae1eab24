"""The floor: every GPU, who holds it, and what it could still give.

GPUs that are being vacated count as free for planning (`soon`), but nobody starts on them until they are `idle`.
The same code serves the real floor of the state and the empty scratch floors that planners try things on.
"""

from __future__ import annotations

from collections import Counter

from weft.core.resources.change_log import Changes
from weft.core.resources.free import Free, members
from weft.core.resources.node import Closure, Holder, Occupant, Room
from weft.core.resources.run_counts import Crowd
from weft.core.resources.shapes import Family, Shape
from weft.model import Node, NodeId, Slots

MANY_SHAPES = 1_000
"""How many shapes are remembered before they are forgotten."""


class Floor:
    def __init__(self, oversubscription: float = 1.0) -> None:
        self.rooms: list[Room] = []
        self.by_id: dict[NodeId, Room] = {}
        self.recent: Counter[Shape] = Counter()
        """What has been asked for lately; the state keeps it."""
        self.changes = Changes()
        self.idle, self.soon = Free(self.rooms, self.recent), Free(self.rooms, self.recent, soon=True)
        self._know_the_crowd()
        self.leaving = 0
        """How many runs are on their way out."""
        self.oversubscription = oversubscription
        self._foreign = 0
        """How many GPUs have memory taken by others."""
        self.node_sizes: Counter[int] = Counter()
        """How many living nodes there are with so many GPUs."""
        self.topology = 0
        """Rises when nodes come or go."""
        self._masks: dict[object, int | None] = {}
        self._empty: Free | None = None
        self._largest_mb: int | None = None
        self._sizes: dict[Family | Shape, list[int]] = {}
        self._counted: dict[tuple[Family | Shape, bool], tuple[Free, int]] = {}
        """What each node could give to a shape or family, and as of which version."""

    # ---- nodes come and go

    def join(self, node: Node) -> Room:
        known = self.by_id.get(node.id)
        if known is not None and len(known.node.gpus) == len(node.gpus):
            room = self.rooms[known.index] = Room(node, known.index, self.oversubscription)
        else:
            room = Room(node, len(self.rooms), self.oversubscription)
            self.rooms.append(room)
            self.idle.add_node(node)
            self.soon.add_node(node)
        self.by_id[node.id] = room
        for free in (self.idle, self.soon):
            free.equip(room.index, node)
        self.changes.note(room.index)
        self.idle.change(room.index, len(node.gpus))
        self.soon.change(room.index, len(node.gpus))
        self.node_sizes[len(node.gpus)] += 1
        self._topology_changed()
        return room

    def lose(self, room: Room) -> None:
        """Takes a node out whose holders have been released."""
        room.alive = False
        self.changes.note(room.index)
        self.idle.change(room.index, -self.idle.count[room.index])
        self.soon.change(room.index, -self.soon.count[room.index])
        self.node_sizes -= Counter([len(room.node.gpus)])
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
            fresh = Room(room.node, room.index, self.oversubscription)
            fresh.alive = room.alive
            twin.rooms.append(fresh)
        twin.by_id = {room.node.id: room for room in twin.rooms}
        twin.idle, twin.soon = self.emptied(), self.emptied()
        twin.soon.soon = True
        twin.recent, twin.node_sizes = self.recent, self.node_sizes.copy()
        twin.idle.rooms = twin.soon.rooms = twin.rooms
        twin._know_the_crowd()
        return twin

    # ---- holders come and go

    def hold(self, holder: Holder, slots: Slots) -> None:
        family = holder.seat.family
        for node_id, gpus in slots:
            room = self.by_id[node_id]
            self.changes.note(room.index)
            idle = soon = 0
            for gpu in gpus:
                holders = room.holders[gpu]
                if not holders:
                    idle += 1
                    soon += 1
                else:
                    soon += all(h.leaving for h in holders)
                    room.check(gpu, holder)
                holders.append(holder)
            if not gpus:
                room.guests.append(holder)
            if idle:
                self.idle.change(room.index, -idle)
            if soon:
                self.soon.change(room.index, -soon)
            if family.cpus or family.ram_mb:
                room.cpus_used += family.cpus * (len(gpus) or 1)
                room.ram_used += family.ram_mb * (len(gpus) or 1)

    def leave(self, holder: Holder, slots: Slots) -> None:
        """The holder (its `leaving` just set) is on its way out: its GPUs are promised back."""
        family = holder.seat.family
        self.leaving += 1
        for node_id, gpus in slots:
            room = self.by_id[node_id]
            self.changes.note(room.index)
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
            self.changes.note(room.index)
            idle = soon = 0
            for gpu in gpus:
                holders = room.holders[gpu]
                holders.remove(holder)
                if not holders:
                    idle += 1
                    soon += not holder.leaving
                elif not holder.leaving and all(h.leaving for h in holders):
                    soon += 1
            if not gpus:
                room.guests.remove(holder)
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

    def occupy(self, occupant: Occupant) -> None:
        """Nobody new comes to this GPU, or not to this part of its memory."""
        room = self.by_id[occupant.node]
        self.changes.note(room.index)
        if occupant.memory_mb is not None:
            room.foreign_mb[occupant.gpu] = room.foreign_mb.get(occupant.gpu, 0) + occupant.memory_mb
            self._foreign += 1
            return
        holders = room.holders[occupant.gpu]
        if not holders:
            self.idle.change(room.index, -1)
        if all(holder.leaving for holder in holders):
            self.soon.change(room.index, -1)
        holders.append(occupant)
        room.occupants.append(occupant)

    def free(self, occupant: Occupant) -> None:
        """What `occupy` did no longer holds."""
        room = self.by_id[occupant.node]
        self.changes.note(room.index)
        if occupant.memory_mb is not None:
            room.foreign_mb[occupant.gpu] -= occupant.memory_mb
            self._foreign -= 1
            return
        holders = room.holders[occupant.gpu]
        holders.remove(occupant)
        room.occupants.remove(occupant)
        if not holders:
            self.idle.change(room.index, 1)
        if all(holder.leaving for holder in holders):
            self.soon.change(room.index, 1)

    def close(self, room: Room, closure: Closure, why: str) -> None:
        """Nobody new comes to this node."""
        self.changes.note(room.index)
        room.closures += 1
        for gpu in range(len(room.node.gpus)):
            closure.occupants.append(Occupant(room.node.id, gpu, why, None, closure.detail))
            self.occupy(closure.occupants[-1])

    def open(self, room: Room, closure: Closure) -> None:
        """What `close` did no longer holds."""
        self.changes.note(room.index)
        room.closures -= 1
        for occupant in closure.occupants:
            self.free(occupant)
        closure.occupants.clear()

    def largest_memory_mb(self) -> int:
        """Of any GPU of the living nodes."""
        if self._largest_mb is None:
            living = (gpu for room in self.rooms if room.alive for gpu in room.node.gpus)
            self._largest_mb = max((gpu.memory_mb for gpu in living), default=0)
        return self._largest_mb

    def touch(self, slots: Slots) -> None:
        """Whoever holds these GPUs stands elsewhere in the order now."""
        for node_id, _ in slots:
            self.changes.note(self.by_id[node_id].index)

    # ---- what a shape could have

    def free_for(self, shape: Shape, *, soon: bool) -> Free:
        """How many GPUs each node can give to this shape, now or once those leaving have left."""
        base = self.soon if soon else self.idle
        if shape.plain:
            return base
        if shape.family.counted and not self._foreign:
            mask = self._mask(shape)
            if mask is not None:
                return base.masked(mask)
        return self._counted_for(shape, base, soon=soon)

    def _counted_for(self, shape: Shape, base: Free, *, soon: bool) -> Free:
        """Counts the nodes one by one, but only those that changed since the last time."""
        alike = shape if isinstance(shape.memory_mb, tuple) else shape.family
        known = self._counted.get((alike, soon))
        changed = self.changes.since(known[1]) if known is not None else None
        if known is None or changed is None:
            free = base.recounted([room.count_for(shape, soon=soon) for room in self.rooms])
            free.resize(self._sizes_for(alike, shape))
            if len(self._counted) >= MANY_SHAPES:
                self._counted.clear()
        else:
            free = known[0]
            for node in members(changed):
                free.change(node, self.rooms[node].count_for(shape, soon=soon) - free.count[node])
        self._counted[alike, soon] = free, self.changes.version
        return free

    def _sizes_for(self, alike: Family | Shape, shape: Shape) -> list[int]:
        """How many GPUs each node could give this shape if it were empty."""
        sizes = self._sizes.get(alike)
        if sizes is None:
            empty = self.empty_copy()
            sizes = [room.count_for(shape, soon=False) for room in empty.rooms]
            if len(self._sizes) >= MANY_SHAPES:
                self._sizes.clear()
            self._sizes[alike] = sizes
        return sizes

    # ---- inside

    def _know_the_crowd(self) -> None:
        for free in (self.idle, self.soon):
            free.crowd = Crowd(self.rooms, self.changes, soon=free.soon)

    def _topology_changed(self) -> None:
        self.topology += 1
        self._masks.clear()
        self._sizes.clear()
        self._counted.clear()
        self._empty = self._largest_mb = None
        self.idle.top = self.soon.top = max(self.node_sizes, default=0)

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
