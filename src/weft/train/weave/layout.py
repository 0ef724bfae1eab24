"""The state file of a weave: where its values are, and how to read them. Pure.

A header, one record per stage and one cell per member and stage. The file is one page with two copies of the state and,
in its first byte, the number of the copy that counts. A change writes the other copy and then that byte, so a process
that is killed leaves the old state or the new one.
"""

from __future__ import annotations

from struct import Struct

MAGIC = b"WEFT"
VERSION = 1
SIZE = 4096
COPIES_AT = (64, 2080)
"""Where the two copies of the state begin in the file."""
MAX_PLACES = 8
STAGES = ("data", "gpu", "net")
DATA, GPU, NET = range(3)
ORDERS = ("fair", "fifo", "slots")
FAIR, FIFO, SLOTS = range(3)

HEADER = Struct("<4sHBBd")
"""Magic, version, order, size, limit in seconds."""
MEMBERS = Struct("<BBBxId")
"""Bit sets of present, skipped and urgent members; the slot; when it began."""
STAGE = Struct("<BB8s6x")
"""Bit set of holders, length of the queue, queue of places."""
CELL = Struct("<dddddII")
"""Held since, queued at, seconds served, seconds waited, fair share, grants, times passed over."""
MEMBERS_AT = HEADER.size
CYCLES_AT = MEMBERS_AT + MEMBERS.size
"""One byte per member: the stages that it finished in its cycle of slots, and above them the stages that it uses."""
STAGES_AT = CYCLES_AT + MAX_PLACES
CELLS_AT = STAGES_AT + STAGE.size * len(STAGES)
USED = CELLS_AT + CELL.size * MAX_PLACES * len(STAGES)
"""The bytes of one copy of the state."""
SINCE, QUEUED, SERVED, WAITED, SHARE = (8 * index for index in range(5))
GRANTS, PASSED = 40, 44
DOUBLE, COUNT = Struct("<d"), Struct("<I")


class BadState(ValueError):
    """The bytes are no state of a weave of this version."""


def create(order: str, size: int, limit_s: float) -> bytes:
    """Return the state of a new weave."""
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}: use {', '.join(ORDERS)}")
    if not 1 <= size <= MAX_PLACES:
        raise ValueError(f"a weave has 1 to {MAX_PLACES} members, not {size}")
    if not 0 < limit_s < 1e9:
        raise ValueError(f"the limit of a stage is a positive number of seconds, not {limit_s}")
    return HEADER.pack(MAGIC, VERSION, ORDERS.index(order), size, limit_s).ljust(USED, b"\0")


def to_page(raw: bytes) -> bytes:
    """Return the content of the file that holds this state."""
    return b"\0".ljust(COPIES_AT[0], b"\0") + raw.ljust(SIZE - COPIES_AT[0], b"\0")


def from_page(page: bytes) -> bytes:
    """Return the state that counts, checked."""
    at = COPIES_AT[page[0] & 1] if page else 0
    raw = page[at : at + USED]
    check(raw)
    return raw


def check(raw: bytes) -> None:
    """Raise BadState unless the operations can work on these bytes."""
    if len(raw) < USED:
        raise BadState(f"{len(raw)} bytes instead of {USED}")
    magic, version, order, size, limit_s = HEADER.unpack_from(raw)
    if magic != MAGIC or version != VERSION:
        raise BadState(f"not a state of version {VERSION}")
    if order >= len(ORDERS) or not 1 <= size <= MAX_PLACES or not 0 < limit_s < 1e9:
        raise BadState(f"order {order}, size {size}, limit {limit_s}")
    for stage in range(len(STAGES)):
        _, length, queue = STAGE.unpack_from(raw, STAGE_AT[stage])
        waiting = queue[:length]
        if length > MAX_PLACES or len(set(waiting)) != length or any(place >= MAX_PLACES for place in waiting):
            raise BadState(f"queue {queue!r} of length {length}")


ORDER_AT, PRESENT_AT, URGENT_AT = 6, MEMBERS_AT, MEMBERS_AT + 2
"""Single bytes that the quick operations read."""
STAGE_AT = [STAGES_AT + STAGE.size * stage for stage in range(len(STAGES))]
CELL_AT = [[CELLS_AT + CELL.size * (place * len(STAGES) + stage) for stage in range(3)] for place in range(MAX_PLACES)]
"""The offset of each cell, by place and stage."""
PLACES = [tuple(place for place in range(MAX_PLACES) if mask >> place & 1) for mask in range(1 << MAX_PLACES)]
"""The places of each bit set."""


class View:
    """A state while one operation changes it. Keeps the values that every operation needs as attributes."""

    __slots__ = ("limit_s", "order", "present", "raw", "size", "skipped", "slot", "slot_since", "urgent", "wakes")

    def __init__(self, raw: bytes) -> None:
        self.raw = bytearray(raw)
        self.order: int
        self.size: int
        self.limit_s: float
        _, _, self.order, self.size, self.limit_s = HEADER.unpack_from(raw)
        self.present: int
        self.skipped: int
        self.urgent: int
        self.slot: int
        self.slot_since: float
        self.present, self.skipped, self.urgent, self.slot, self.slot_since = MEMBERS.unpack_from(raw, MEMBERS_AT)
        self.wakes: list[tuple[int, int, int]] = []
        """Members to wake: place, stage, ticket."""

    def pack(self) -> bytes:
        slot = self.slot & 0xFFFFFFFF
        MEMBERS.pack_into(self.raw, MEMBERS_AT, self.present, self.skipped, self.urgent, slot, self.slot_since)
        return bytes(self.raw)

    # ---- holders and queues

    def stage(self, stage: int) -> tuple[int, bytes]:
        """Return the holders of a stage and the places that wait for it, in order of arrival."""
        holders, length, queue = STAGE.unpack_from(self.raw, STAGE_AT[stage])
        return holders, queue[:length]

    def set_stage(self, stage: int, holders: int, queue: bytes) -> None:
        STAGE.pack_into(self.raw, STAGE_AT[stage], holders, len(queue), queue)

    # ---- cells

    def get(self, place: int, stage: int, what: int) -> float:
        value: float = DOUBLE.unpack_from(self.raw, CELL_AT[place][stage] + what)[0]
        return value

    def hold(self, place: int, stage: int, now: float) -> int:
        """Begin a member's turn; return its ticket."""
        DOUBLE.pack_into(self.raw, CELL_AT[place][stage], now)
        return self.add_count(place, stage, GRANTS)

    def put(self, place: int, stage: int, what: int, value: float) -> None:
        DOUBLE.pack_into(self.raw, CELL_AT[place][stage] + what, value)

    def count(self, place: int, stage: int, what: int) -> int:
        value: int = COUNT.unpack_from(self.raw, CELL_AT[place][stage] + what)[0]
        return value

    def add_count(self, place: int, stage: int, what: int) -> int:
        """Count one more; return the new count."""
        at = CELL_AT[place][stage] + what
        value: int = (COUNT.unpack_from(self.raw, at)[0] + 1) & 0xFFFFFFFF
        COUNT.pack_into(self.raw, at, value)
        return value

    # ---- cycles of slots

    def finished(self, place: int) -> int:
        """Return the bit set of stages that a member has finished in its cycle."""
        return self.raw[CYCLES_AT + place] & 7

    def uses(self, place: int) -> int:
        """Return the bit set of stages that a member takes in each cycle."""
        return self.raw[CYCLES_AT + place] >> 3 & 7

    def set_cycle(self, place: int, finished: int, uses: int) -> None:
        self.raw[CYCLES_AT + place] = finished | uses << 3
