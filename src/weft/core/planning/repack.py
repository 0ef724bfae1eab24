"""Planning as Muri does: empty the cluster in thought, place everything anew, and go there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.core.planning.allocator import Decide
from weft.core.planning.asks import ask_shape, jobs_of, refuse_twice
from weft.core.planning.tentative import Scratch
from weft.core.ports import Ask, Placement
from weft.core.queue.cursors import Streams
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.core.state.state import State
from weft.model import JobId, Share, Slots, Start, Stop, StopReason


@dataclass(slots=True)
class Seat:
    """A place in a target: these jobs on these GPUs."""

    jobs: tuple[JobState, ...]
    shape: Shape
    slots: Slots
    share: Share
    weave: tuple[JobId, ...]


Wanted = Iterable[tuple[tuple[JobState, ...], Shape, Share]]
"""Jobs to run together, what they need together, and the share they hold."""


def repack(state: State, wanted: Wanted, placement: Placement, fail: Callable[[Shape], None]) -> list[Seat]:
    """The target in which everything wanted, in that order, sits on an emptied cluster where it fits."""
    scratch, chosen = Scratch(state, placement), []
    for jobs, shape, share in wanted:
        slots = scratch.seat(shape)
        if slots is None:
            fail(shape)
            continue
        weave = tuple(sorted([job.id for job in jobs])) if len(jobs) > 1 else ()
        chosen.append(Seat(jobs, shape, slots, share, weave))
    if getattr(placement, "anywhere", False):
        _stay(Scratch(state, placement), chosen)
    return chosen


def _stay(scratch: Scratch, chosen: list[Seat]) -> None:
    """The same choice where any GPUs will do: what runs as it should stays on those it has, if all find room so."""
    if not all(seat.shape.plain for seat in chosen):
        return
    stays = {}
    for seat in chosen:
        job = seat.jobs[0]
        if job.active and job.weave == seat.weave and scratch.vacant(job.slots):
            scratch.keep(seat.shape, job.slots)
            stays[id(seat)] = job.slots
    for seat in chosen:
        if id(seat) not in stays:
            slots = scratch.seat(seat.shape)
            if slots is None:
                return
            stays[id(seat)] = slots
    for seat in chosen:
        seat.slots = stays[id(seat)]


def solo(heads: Streams) -> Wanted:
    return (((job,), job.shape, job.wanted_share) for _, _, job in heads)


def as_wanted(state: State, asks: Iterable[Ask]) -> Wanted:
    asks = list(asks)
    refuse_twice(asks)
    for ask in asks:
        jobs = jobs_of(state, ask)
        yield jobs, ask_shape(ask, jobs), ask.share


def towards(state: State, target: list[Seat], decide: Decide) -> None:
    """Stops what is not in the target, then, once all that has left, starts the rest."""
    seats = {job.id: seat for seat in target for job in seat.jobs}
    stops: list[tuple[JobState, StopReason]] = []
    for job in state.active.values():
        seat = seats.get(job.id)
        if job.leaving or (seat is not None and seat.slots == job.slots and seat.weave == job.weave):
            continue
        stops.append((job, "preempted" if seat is None else "moved"))
    for job, why in sorted(stops, key=lambda stop: stop[0].stamp, reverse=True):
        decide(Stop(state.now, job.id, job.run, why))
    if state.floor.leaving:
        return
    starts = [(job, seat) for seat in target for job in seat.jobs if job.status == "waiting"]
    for job, seat in sorted(starts, key=lambda start: start[0].stamp):
        decide(Start(state.now, job.id, job.run + 1, seat.slots, seat.share, seat.weave))
