"""The device page: where its values are, and every change of them. Pure: it works on any writable buffer.

One page of memory per GPU. A header, two rows of bytes with one byte per slot, and the slots. Each slot belongs to one
process, which alone writes it once it is claimed. The rows let a gate see at a glance whether any batch runs.

| bytes | content |
|---|---|
| 0 to 63 | magic, version, rule; the factor on the rate of training; when the last batch ended |
| 64 to 95 | one byte per slot: 1 while a batch runs |
| 96 to 127 | one byte per slot: 0 free, 1 training, 2 inference |
| 256 to 4095 | 30 slots of 128 bytes |
"""

from __future__ import annotations

from struct import Struct

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from mmap import mmap
    from typing import Final

    Buffer = bytearray | mmap

MAGIC: Final = b"WFTD"
VERSION: Final = 1
SIZE: Final = 4096
RULES: Final = ("prio", "dilu", "off")
PRIO, DILU, OFF = range(3)
FREE, TRAINING, INFERENCE = range(3)
KINDS: Final = ("free", "training", "inference")

HEAD: Final = Struct("<4sHBx")
RULE_AT: Final = 6
FACTOR_AT: Final = 8
ACTIVE_AT: Final = 16
BUSY_AT: Final = 64
KIND_AT: Final = 96
ROW: Final = 32
IDLE: Final = bytes(ROW)
"""The row of busy bytes while no batch runs."""
SLOTS_AT: Final = 256
SLOT_BYTES: Final = 128
SLOTS: Final = (SIZE - SLOTS_AT) // SLOT_BYTES
OWNER: Final = Struct("<IIQQff40s")
"""Pid, number of the run, start of the process in clock ticks, pid namespace, request, limit, job."""
USE_AT: Final = OWNER.size
USE: Final = Struct("<dddQd")
"""Busy since, seconds busy, seconds waited, batches or waits, rate."""
DOUBLE: Final = Struct("<d")
MAX_JOB_BYTES: Final = 40


class BadPage(ValueError):
    """The bytes are no device page of this version."""


class PageFull(ValueError):
    """All slots belong to living processes."""


class Owner:
    """The process that claims a slot."""

    __slots__ = ("job", "kind", "limit", "namespace", "pid", "request", "run", "start")

    def __init__(
        self, pid: int, start: int, namespace: int, kind: int, request: float, limit: float, job: str, run: int
    ) -> None:
        self.pid, self.start, self.namespace, self.kind = pid, start, namespace, kind
        self.request, self.limit, self.job, self.run = request, limit, job, run


class Slot:
    """One slot as it was read: its owner and its use of the device."""

    __slots__ = ("batches", "busy", "busy_s", "index", "owner", "rate", "since", "waited_s")

    def __init__(self, index: int, owner: Owner, busy: bool, use: tuple[float, float, float, int, float]) -> None:
        self.index, self.owner, self.busy = index, owner, busy
        self.since, self.busy_s, self.waited_s, self.batches, self.rate = use


def create(rule: str) -> bytes:
    """Return an empty page."""
    if rule not in RULES:
        raise ValueError(f"unknown rule {rule!r}: use {', '.join(RULES)}")
    page = bytearray(SIZE)
    HEAD.pack_into(page, 0, MAGIC, VERSION, RULES.index(rule))
    set_factor(page, 1.0)
    return bytes(page)


def check(page: Buffer | bytes) -> None:
    """Raise BadPage unless the operations can work on these bytes."""
    if len(page) != SIZE:
        raise BadPage(f"{len(page)} bytes instead of {SIZE}")
    magic, version, rule = HEAD.unpack_from(page)
    if magic != MAGIC or version != VERSION:
        raise BadPage(f"not a device page of version {VERSION}")
    if rule >= len(RULES) or not 0 <= factor(page) <= 1:
        raise BadPage(f"rule {rule}, factor {factor(page)}")


# ---- the device


def rule(page: Buffer) -> int:
    return page[RULE_AT]


def set_rule(page: Buffer, name: str) -> None:
    page[RULE_AT] = RULES.index(name)


def factor(page: Buffer | bytes) -> float:
    """Return the factor on the rate of training in contention."""
    value: float = DOUBLE.unpack_from(page, FACTOR_AT)[0]
    return value


def set_factor(page: Buffer, value: float) -> None:
    DOUBLE.pack_into(page, FACTOR_AT, value)


def active_at(page: Buffer) -> float:
    """Return when a batch last began or ended."""
    value: float = DOUBLE.unpack_from(page, ACTIVE_AT)[0]
    return value


def is_busy(page: Buffer) -> bool:
    return page[BUSY_AT : BUSY_AT + ROW] != IDLE


def has_kind(page: Buffer, kind: int, without: int = -1) -> bool:
    """Return whether a slot of this kind is claimed, apart from one."""
    row = page[KIND_AT : KIND_AT + SLOTS]
    return any(found == kind and index != without for index, found in enumerate(row))


def is_other_busy(page: Buffer, index: int) -> bool:
    """Return whether a batch of another slot runs."""
    row = page[BUSY_AT : BUSY_AT + SLOTS]
    return any(busy and at != index for at, busy in enumerate(row))


def contended_since(page: Buffer) -> float | None:
    """Return when the first of the running batches began; None: no batch runs."""
    row = page[BUSY_AT : BUSY_AT + SLOTS]
    begun = [DOUBLE.unpack_from(page, _slot(at) + USE_AT)[0] for at, busy in enumerate(row) if busy]
    return min(begun) if begun else None


# ---- slots


def _slot(index: int) -> int:
    return SLOTS_AT + index * SLOT_BYTES


def claim(page: Buffer, owner: Owner) -> int:
    """Claim a free slot and return its index. The caller holds the lock of the page."""
    index = page[KIND_AT : KIND_AT + SLOTS].find(FREE)
    if index < 0:
        raise PageFull(f"{SLOTS} processes use this GPU already")
    at = _slot(index)
    job = owner.job.encode()[:MAX_JOB_BYTES]
    OWNER.pack_into(
        page, at, owner.pid, owner.run, owner.start, owner.namespace, owner.request, owner.limit, job
    )  # fmt: skip
    USE.pack_into(page, at + USE_AT, 0.0, 0.0, 0.0, 0, 1.0)
    page[BUSY_AT + index] = 0
    page[KIND_AT + index] = owner.kind
    return index


def release(page: Buffer, index: int) -> None:
    """Free a slot: its batch, if one runs, counts no longer."""
    page[BUSY_AT + index] = 0
    page[KIND_AT + index] = FREE


def is_owner(page: Buffer, index: int, pid: int, start: int) -> bool:
    """Return whether a process still has its slot."""
    found = OWNER.unpack_from(page, _slot(index))
    return bool(page[KIND_AT + index]) and found[0] == pid and found[2] == start


def slots(page: Buffer) -> Iterator[Slot]:
    """Return all claimed slots."""
    for index, kind in enumerate(page[KIND_AT : KIND_AT + SLOTS]):
        if kind in (TRAINING, INFERENCE):
            at = _slot(index)
            pid, run, start, namespace, request, limit, job = OWNER.unpack_from(page, at)
            name = job.rstrip(b"\0").decode(errors="replace")
            owner = Owner(pid, start, namespace, kind, request, limit, name, run)
            yield Slot(index, owner, bool(page[BUSY_AT + index]), USE.unpack_from(page, at + USE_AT))


def release_dead(page: Buffer, dead: Container[int]) -> list[int]:
    """Free the slots with these indices and return those that were claimed. The caller holds the lock of the page."""
    found = [slot.index for slot in slots(page) if slot.index in dead]
    for index in found:
        release(page, index)
    return found


# ---- the use of the device, written by the owner of a slot


def begin(page: Buffer, index: int, now: float) -> None:
    """Begin a batch."""
    DOUBLE.pack_into(page, _slot(index) + USE_AT, now)
    DOUBLE.pack_into(page, ACTIVE_AT, now)
    page[BUSY_AT + index] = 1


def end(page: Buffer, index: int, now: float) -> float:
    """End a batch and return its seconds."""
    page[BUSY_AT + index] = 0
    at = _slot(index) + USE_AT
    since, busy_s, waited_s, batches, rate = USE.unpack_from(page, at)
    seconds: float = max(now - since, 0.0)
    USE.pack_into(page, at, since, busy_s + seconds, waited_s, batches + 1, rate)
    DOUBLE.pack_into(page, ACTIVE_AT, now)
    return seconds


def add_wait(page: Buffer, index: int, seconds: float, rate: float) -> None:
    """Count the wait of a training process at a gate, and show the rate at which it goes on."""
    at = _slot(index) + USE_AT
    since, busy_s, waited_s, waits, _ = USE.unpack_from(page, at)
    USE.pack_into(page, at, since, busy_s, waited_s + seconds, waits + 1, rate)
