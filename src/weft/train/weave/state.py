"""The state of a weave, as pure functions: bytes and the time in; new bytes and the members to wake out.

| function | a member | effect |
|---|---|---|
| `join` | arrives | it counts as the least served of the members that are present |
| `want` | asks for a stage | it holds the stage at once if that is free, or it waits in the queue |
| `release` | ends a stage | it goes to the next member: by least time served (`fair`), arrival (`fifo`) or slot |
| `give_up` | ends its wait | it leaves the queue; a stage that it got meanwhile goes on |
| `urge` | must stop soon | its waits come first |
| `leave` | ends, or is dead | its stages go on |
| `heal` | has waited for long | stages of dead members go on; holders over the limit are passed over |

A grant has a ticket, the number of the member's grant of that stage, by which the member recognises a late message.
Only `fair` and `fifo` leave the data stage free: processes share CPUs and disks well.
"""

from __future__ import annotations

from weft.train.weave import slots
from weft.train.weave.layout import (
    CELL,
    CELL_AT,
    DATA,
    DOUBLE,
    FAIR,
    GRANTS,
    ORDER_AT,
    PASSED,
    PLACES,
    PRESENT_AT,
    QUEUED,
    SERVED,
    SHARE,
    SINCE,
    SLOTS,
    STAGE,
    STAGE_AT,
    STAGES,
    URGENT_AT,
    WAITED,
    View,
)

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Final

    Wake = tuple[int, int, int]
    """A member to wake: place, stage, ticket."""
    Step = tuple[bytes, list[Wake]]

MAX_LAG_S: Final = 1.0
"""The most service that a member can be behind: after a pause it does not keep the others waiting for longer."""


def join(raw: bytes, place: int, now: float) -> Step:
    """Add a member, in its first state."""
    view = View(raw)
    _drop(view, place)
    others = PLACES[view.present]
    for stage in range(len(STAGES)):
        view.put(place, stage, SHARE, min((view.get(each, stage, SHARE) for each in others), default=0.0))
    view.present |= 1 << place
    view.set_cycle(place, 0, 0)
    slots.admit(view, place, now)
    _pass_on_all(view, now)
    return view.pack(), view.wakes


def want(raw: bytes, place: int, stage: int, now: float) -> tuple[bytes, list[Wake], int, bool]:
    """Ask for a stage. Return also the ticket of the grant, and whether the member holds the stage now."""
    if raw[ORDER_AT] == SLOTS:
        return _want_in_slots(raw, place, stage, now)
    page, at, bit = bytearray(raw), STAGE_AT[stage], 1 << place
    holders, length, queue = STAGE.unpack_from(raw, at)
    since, queued, served, waited, share, grants, passed = CELL.unpack_from(raw, CELL_AT[place][stage])
    ticket = (grants + 1) & 0xFFFFFFFF
    held = stage == DATA or not (holders or length)
    if held:
        since, grants, holders = now, ticket, holders | bit
    elif holders & bit:
        return raw, [], ticket, True
    elif place not in queue[:length]:
        queued, length, queue = now, length + 1, queue[:length] + bytes((place,))
        for other in PLACES[raw[PRESENT_AT]]:
            share = max(share, DOUBLE.unpack_from(raw, CELL_AT[other][stage] + SHARE)[0] - MAX_LAG_S)
    CELL.pack_into(page, CELL_AT[place][stage], since, queued, served, waited, share, grants, passed)
    STAGE.pack_into(page, at, holders, length, queue)
    return bytes(page), [], ticket, held


def release(raw: bytes, place: int, stage: int, now: float, data_s: float = 0.0) -> tuple[bytes, list[Wake], bool]:
    """End a stage. Return also whether the member was passed over meanwhile.

    `data_s` is the time of data stages that took no turn. This is the path of every turn: it works on the bytes.
    """
    if raw[ORDER_AT] == SLOTS:
        return _release_in_slots(raw, place, stage, now)
    page, at, bit = bytearray(raw), STAGE_AT[stage], 1 << place
    holders, length, queue = STAGE.unpack_from(raw, at)
    since, queued, served, waited, share, grants, passed = CELL.unpack_from(raw, CELL_AT[place][stage])
    seconds = max(now - since, 0.0) if since > 0 else 0.0
    CELL.pack_into(page, CELL_AT[place][stage], 0.0, queued, served + seconds, waited, share + seconds, grants, passed)
    if data_s:
        _count_data(page, place, data_s)
    held, holders, wakes = bool(holders & bit), holders & ~bit, []
    if length and not holders:
        following = _choose(raw, stage, queue[:length])
        cell = CELL_AT[following][stage]
        _, queued, served, waited, share, grants, passed = CELL.unpack_from(raw, cell)
        grants = (grants + 1) & 0xFFFFFFFF
        CELL.pack_into(page, cell, now, queued, served, waited + max(now - queued, 0.0), share, grants, passed)
        holders, queue, length = 1 << following, queue[:length].replace(bytes((following,)), b""), length - 1
        wakes.append((following, stage, grants))
    STAGE.pack_into(page, at, holders, length, queue)
    return bytes(page), wakes, not held


def give_up(raw: bytes, place: int, stage: int, now: float) -> Step:
    """End a wait for a stage, granted or not."""
    view = View(raw)
    holders, queue = view.stage(stage)
    if place in queue:
        _count_waited(view, place, stage, now)
    view.put(place, stage, SINCE, 0.0)
    view.set_stage(stage, holders & ~(1 << place), queue.replace(bytes((place,)), b""))
    _pass_on(view, stage, now)
    return view.pack(), view.wakes


def urge(raw: bytes, place: int, now: float) -> Step:
    """Let a member go first from now on: it is about to stop."""
    view = View(raw)
    view.urgent |= 1 << place
    _pass_on_all(view, now)
    return view.pack(), view.wakes


def leave(raw: bytes, place: int, now: float) -> Step:
    """Remove a member. Its counters stay readable."""
    view = View(raw)
    _drop(view, place)
    _pass_on_all(view, now)
    return view.pack(), view.wakes


def heal(raw: bytes, dead: int, now: float) -> Step:
    """Remove dead members (a bit set), and pass over holders that exceed the limit."""
    view = View(raw)
    for place in PLACES[dead]:
        _drop(view, place)
    for stage in range(len(STAGES)):
        holders, queue = view.stage(stage)
        for place in PLACES[holders]:
            if now - view.get(place, stage, SINCE) > view.limit_s and (stage != DATA or view.order == SLOTS):
                holders &= ~(1 << place)
                view.add_count(place, stage, PASSED)
        view.set_stage(stage, holders, queue)
    _pass_on_all(view, now)
    slots.skip_absent(view, now)
    _pass_on_all(view, now)
    return view.pack(), view.wakes


def is_holder(raw: bytes, place: int, stage: int) -> bool:
    return bool(View(raw).stage(stage)[0] & 1 << place)


# ---- inside


def _want_in_slots(raw: bytes, place: int, stage: int, now: float) -> tuple[bytes, list[Wake], int, bool]:
    view = View(raw)
    bit, (holders, queue) = 1 << place, view.stage(stage)
    ticket = (view.count(place, stage, GRANTS) + 1) & 0xFFFFFFFF
    if place not in queue and not holders & bit:
        view.put(place, stage, QUEUED, now)
        view.set_stage(stage, holders, queue + bytes((place,)))
    view.skipped &= ~bit
    view.set_cycle(place, view.finished(place), view.uses(place) | 1 << stage)
    _pass_on(view, stage, now)
    # the caller knows by itself that it has the stage
    wakes = [wake for wake in view.wakes if wake[0] != place or wake[1] != stage]
    return view.pack(), wakes, ticket, bool(view.stage(stage)[0] & bit)


def _release_in_slots(raw: bytes, place: int, stage: int, now: float) -> tuple[bytes, list[Wake], bool]:
    view = View(raw)
    holders, queue = view.stage(stage)
    held, since = bool(holders & 1 << place), view.get(place, stage, SINCE)
    if since > 0:
        view.put(place, stage, SERVED, view.get(place, stage, SERVED) + max(now - since, 0.0))
        view.put(place, stage, SINCE, 0.0)
    view.set_stage(stage, holders & ~(1 << place), queue)
    view.set_cycle(place, view.finished(place) | 1 << stage, view.uses(place))
    _pass_on(view, stage, now)
    return view.pack(), view.wakes, not held


def _count_data(page: bytearray, place: int, seconds: float) -> None:
    """Count a data stage that took no turn."""
    at = CELL_AT[place][DATA]
    since, queued, served, waited, share, grants, passed = CELL.unpack_from(page, at)
    CELL.pack_into(page, at, since, queued, served + seconds, waited, share, (grants + 1) & 0xFFFFFFFF, passed)


def _drop(view: View, place: int) -> None:
    bit = 1 << place
    view.present &= ~bit
    view.skipped &= ~bit
    view.urgent &= ~bit
    for stage in range(len(STAGES)):
        holders, queue = view.stage(stage)
        view.put(place, stage, SINCE, 0.0)
        view.set_stage(stage, holders & ~bit, queue.replace(bytes((place,)), b""))


def _pass_on_all(view: View, now: float) -> None:
    for stage in range(len(STAGES)):
        _pass_on(view, stage, now)


def _pass_on(view: View, stage: int, now: float) -> None:
    """Give a free stage to the next member."""
    if view.order == SLOTS:
        slots.advance(view, now, _grant)
        return
    holders, queue = view.stage(stage)
    if queue and not holders:
        view.raw[URGENT_AT] = view.urgent
        _grant(view, _choose(view.raw, stage, queue), stage, now, holders, queue)


def _choose(raw: bytes | bytearray, stage: int, queue: bytes) -> int:
    """Return the member that gets the stage next."""
    if raw[URGENT_AT]:
        urgent = [place for place in queue if raw[URGENT_AT] >> place & 1]
        if urgent:
            return urgent[0]
    if raw[ORDER_AT] == FAIR and len(queue) > 1:  # the first of equals
        return min(queue, key=lambda place: DOUBLE.unpack_from(raw, CELL_AT[place][stage] + SHARE)[0])
    return queue[0]


def _grant(view: View, place: int, stage: int, now: float, holders: int, queue: bytes) -> None:
    if place in queue:
        _count_waited(view, place, stage, now)
        queue = queue.replace(bytes((place,)), b"")
    view.set_stage(stage, holders | 1 << place, queue)
    view.wakes.append((place, stage, view.hold(place, stage, now)))


def _count_waited(view: View, place: int, stage: int, now: float) -> None:
    waited = max(now - view.get(place, stage, QUEUED), 0.0)
    view.put(place, stage, WAITED, view.get(place, stage, WAITED) + waited)
