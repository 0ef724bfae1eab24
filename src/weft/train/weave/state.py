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
    DATA,
    FAIR,
    GRANTS,
    PASSED,
    PLACES,
    QUEUED,
    SERVED,
    SHARE,
    SINCE,
    SLOTS,
    STAGES,
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
    view = View(raw)
    bit, (holders, queue) = 1 << place, view.stage(stage)
    ticket = (view.count(place, stage, GRANTS) + 1) & 0xFFFFFFFF
    if stage == DATA and view.order != SLOTS:
        _grant(view, place, stage, now, holders, queue)
    elif not holders and not queue and view.order != SLOTS:
        view.set_stage(stage, bit, queue)
        view.hold(place, stage, now)
        return view.pack(), [], ticket, True
    elif place not in queue and not holders & bit:
        view.put(place, stage, QUEUED, now)
        view.set_stage(stage, holders, queue + bytes((place,)))
    if view.order == SLOTS:
        view.skipped &= ~bit
        view.set_cycle(place, view.finished(place), view.uses(place) | 1 << stage)
    _pass_on(view, stage, now)
    # the caller knows by itself that it has the stage
    wakes = [wake for wake in view.wakes if wake[0] != place or wake[1] != stage]
    return view.pack(), wakes, ticket, bool(view.stage(stage)[0] & bit)


def release(raw: bytes, place: int, stage: int, now: float) -> tuple[bytes, list[Wake], bool]:
    """End a stage. Return also whether the member was passed over meanwhile."""
    view = View(raw)
    holders, queue = view.stage(stage)
    held = bool(holders & 1 << place)
    since = view.get(place, stage, SINCE)
    if since > 0:
        _count_served(view, place, stage, now - since)
        view.put(place, stage, SINCE, 0.0)
    if held:
        view.set_stage(stage, holders & ~(1 << place), queue)
    if view.order == SLOTS:
        view.set_cycle(place, view.finished(place) | 1 << stage, view.uses(place))
    _pass_on(view, stage, now)
    return view.pack(), view.wakes, not held


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


def record(raw: bytes, place: int, stage: int, seconds: float) -> bytes:
    """Count a stage that took no turn, such as a data stage."""
    view = View(raw)
    _count_served(view, place, stage, seconds)
    view.add_count(place, stage, GRANTS)
    return view.pack()


def is_holder(raw: bytes, place: int, stage: int) -> bool:
    return bool(View(raw).stage(stage)[0] & 1 << place)


# ---- inside


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
        _grant(view, _choose(view, stage, queue), stage, now, holders, queue)


def _choose(view: View, stage: int, queue: bytes) -> int:
    """Return the member that gets the stage next."""
    urgent = [place for place in queue if view.urgent >> place & 1]
    if urgent:
        return urgent[0]
    if view.order == FAIR and len(queue) > 1:
        return min(queue, key=lambda place: view.get(place, stage, SHARE))  # the first of equals
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


def _count_served(view: View, place: int, stage: int, seconds: float) -> None:
    served, share = max(seconds, 0.0), view.get(place, stage, SHARE)
    view.put(place, stage, SERVED, view.get(place, stage, SERVED) + served)
    share += served
    for other in PLACES[view.present]:
        share = max(share, view.get(other, stage, SHARE) - MAX_LAG_S)
    view.put(place, stage, SHARE, share)
