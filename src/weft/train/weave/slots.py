"""The order `slots`: Muri's lock-step. Pure.

A cycle has four slots, or as many as there are members. Members are one slot apart: a member loads data in two slots,
then has the GPU for one and the network for one. A slot ends when each member has finished its stage of that slot. A
member that waits for a later stage has skipped the one before. A member that does nothing for the limit is skipped
until it asks for a stage.
"""

from __future__ import annotations

from weft.train.weave.layout import DATA, GPU, NET, PLACES, SINCE, SLOTS, View

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Grant = Callable[[View, int, int, float, int, bytes], None]

CYCLE: Final = (DATA, DATA, GPU, NET)
"""The stage of each phase of a member."""


def admit(view: View, place: int, now: float) -> None:
    """Begin the first slot with the first member."""
    if view.order == SLOTS and view.present == 1 << place:
        view.slot, view.slot_since = place, now


def advance(view: View, now: float, grant: Grant) -> None:
    """Grant the stages of this slot, and of the following ones while no member needs longer."""
    for _ in range(2 * _length(view)):
        _grant_slot(view, now, grant)
        if not _any_waits(view) or any(_blocks(view, place) for place in PLACES[view.present]):
            return
        view.slot, view.slot_since = (view.slot + 1) & 0xFFFFFFFF, now
        for place in PLACES[view.present]:
            if _phase(view, place) == 0:
                view.set_cycle(place, 0, view.uses(place))


def skip_absent(view: View, now: float) -> None:
    """Skip the members that keep a slot open for longer than the limit without doing anything."""
    if view.order != SLOTS or now - view.slot_since <= view.limit_s:
        return
    for place in PLACES[view.present]:
        if _blocks(view, place) and not _holds(view, place):
            view.skipped |= 1 << place
            view.set_cycle(place, view.finished(place), view.uses(place) & ~(1 << (_stage(view, place) or 0)))


def _grant_slot(view: View, now: float, grant: Grant) -> None:
    for place in PLACES[view.present]:
        stage = _stage(view, place)
        if stage is None:
            continue
        holders, queue = view.stage(stage)
        # with a member of another phase over its limit, the GPU may still be taken
        if place in queue and (stage == DATA or not holders):
            grant(view, place, stage, now, holders, queue)


def _blocks(view: View, place: int) -> bool:
    """Return whether the slot must go on for this member."""
    phase, stage, bit = _phase(view, place), _stage(view, place), 1 << place
    if stage is None:
        return False
    holders, queue = view.stage(stage)
    if phase == 0:  # the data stage goes on in the next slot
        return False
    if holders & bit or place in queue:
        return True
    if view.finished(place) & 1 << stage or any(place in view.stage(later)[1] for later in (GPU, NET)):
        return False
    if place in view.stage(DATA)[1]:  # it may read ahead while its other thread is on the way to this stage
        return bool(view.uses(place) & 1 << stage)
    return not view.skipped & bit


def _holds(view: View, place: int) -> bool:
    return any(view.stage(stage)[0] >> place & 1 and view.get(place, stage, SINCE) > 0 for stage in (DATA, GPU, NET))


def _any_waits(view: View) -> bool:
    return any(view.stage(stage)[1] for stage in (DATA, GPU, NET))


def _length(view: View) -> int:
    return max(len(CYCLE), view.size)


def _phase(view: View, place: int) -> int:
    return (view.slot - place) % _length(view)


def _stage(view: View, place: int) -> int | None:
    phase = _phase(view, place)
    return CYCLE[phase] if phase < len(CYCLE) else None
