"""The layout of a plan that weaves: which jobs run on which GPUs, so that as many runs as possible stay where they are.

Each ask goes to the GPUs that most of its members already hold. Asks without such GPUs get the room that is left. If
that is not enough, the asks for fewer GPUs give up theirs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

from weft.model import JobId, Share, Slots
from weft.scheduling.core.planning.tentative import TentativeCluster
from weft.scheduling.core.ports import Placement
from weft.scheduling.core.resources.node import NodeResources, Occupant
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


@dataclass(slots=True, eq=False)
class Wish:
    """Jobs that are to run together, and the GPUs that they get."""

    jobs: tuple[JobState, ...]
    shape: Shape
    share: Share
    weave: tuple[JobId, ...]
    slots: Slots | None = None
    """None: they get none."""
    anchor: Slots | None = None
    """The GPUs of a member that must not move."""


@dataclass(slots=True)
class Layout:
    """The wishes that get GPUs, and the runs that stay because they must not move."""

    wishes: list[Wish]
    fixed: set[JobId] = field(default_factory=set)


class LayoutCluster(TentativeCluster):
    """An emptied copy of the cluster without the GPUs and the memory that may not be used now."""

    def __init__(self, state: State, placement: Placement, kept: Mapping[int, int]) -> None:
        super().__init__(state, placement)
        blocks = any(host.occupants or host.foreign_mb or host.closures for host in state.resources.nodes if host.alive)
        if blocks or kept:
            full = self.resources()
            for host, twin in zip(state.resources.nodes, full.nodes, strict=True):
                twin.foreign_mb.update(host.foreign_mb)
                twin.closures = host.closures  # also for jobs without GPUs
                for gpu in {occupant.gpu for occupant in host.occupants} if host.alive else ():
                    full.occupy(Occupant(host.node.id, gpu, "", None, ""))
            for node, count in kept.items():
                host = state.resources.nodes[node]
                for gpu in islice(_unheld(host), count):
                    full.occupy(Occupant(host.node.id, gpu, "", None, ""))

    def fits_at(self, shape: Shape, slots: Slots) -> bool:
        """Return whether the shape fits on exactly these GPUs."""
        if not shape.gpus:
            return True
        if shape.plain and self._full is None:
            return self.vacant(slots)
        nodes = self.resources().by_id
        return all(
            set(gpus) <= set(nodes[node].fitting(shape, after_release=False))
            and nodes[node].count_for(shape, after_release=False) >= len(gpus)
            for node, gpus in slots
        )

    def try_keep(self, shape: Shape, slots: Slots) -> bool:
        """Take exactly these GPUs; return False and take nothing if the shape does not fit there."""
        fits = self.fits_at(shape, slots)
        if fits and shape.gpus:
            self.keep(shape, slots)
        return fits


def _unheld(host: NodeResources) -> Iterator[int]:
    """Yield the GPUs of a node that no run holds, or only runs that stop."""
    return (gpu for gpu, holders in enumerate(host.holders) if all(holder.releasing for holder in holders))


def lay_out(
    state: State, wishes: Sequence[Wish], placement: Placement, protected: set[JobId], kept: Mapping[int, int]
) -> Layout:
    """Give the wishes GPUs. Runs in `protected`, and runs on GPUs that may not be used any more, stay in place. As many
    GPUs of each node stay free as `kept` says."""
    layout = _fix_runs(state, wishes, protected)
    sizes = list(dict.fromkeys(wish.shape.gpus for wish in layout.wishes))
    for staying in range(len(sizes), -1, -1):
        if _try(state, layout, LayoutCluster(state, placement, kept), set(sizes[:staying])):
            break
    layout.wishes = [wish for wish in layout.wishes if wish.slots is not None]
    return layout


def _fix_runs(state: State, wishes: Sequence[Wish], protected: set[JobId]) -> Layout:
    """Find the runs that must not move. A wish goes where its only such run is; a wish that cannot is dropped."""
    fixed_on: dict[Slots, list[JobState]] = {}
    frozen: set[JobId] = set()
    any_blocked = any(host.closures or host.occupants for host in state.resources.nodes)
    if not protected and not any_blocked:
        return Layout(list(wishes))
    wish_of = {job.id: wish for wish in wishes for job in wish.jobs}
    for job in state.active.values():
        if job.releasing or job.job.replica is not None:
            continue  # replicas have their GPUs in the empty cluster already
        if any_blocked and is_blocked(state, job.slots):
            frozen.add(job.id)
        elif job.id in protected:
            fixed_on.setdefault(job.slots, []).append(job)
    for slots, jobs in fixed_on.items():
        wanted = {id(wish_of.get(job.id)): wish_of.get(job.id) for job in jobs}
        wish = wanted.popitem()[1] if len(wanted) == 1 else None
        if wish is None or wish.anchor not in (None, slots):
            frozen.update(job.id for job in jobs)
        else:
            wish.anchor = slots
    for wish in wishes:  # a wish with an anchor and a frozen member cannot be met either
        if wish.anchor is not None and any(job.id in frozen for job in wish.jobs):
            frozen.update(job.id for job in wish.jobs if job.slots == wish.anchor and job.id in protected)
    met = [wish for wish in wishes if not any(job.id in frozen for job in wish.jobs)]
    return Layout(met, frozen)


def is_blocked(state: State, slots: Slots) -> bool:
    """Return whether nothing new may start on one of these GPUs."""
    return any(
        (host := state.resources.by_id[node]).closures or any(occupant.gpu in gpus for occupant in host.occupants)
        for node, gpus in slots
    )


def _try(state: State, layout: Layout, cluster: LayoutCluster, staying: set[int]) -> bool:
    """Lay out all wishes; return whether each got GPUs. Wishes of the sizes `staying` stay in place if they can."""
    by_size: dict[int, list[Wish]] = {}
    for wish in layout.wishes:
        wish.slots = None
        by_size.setdefault(wish.shape.gpus, []).append(wish)
    _hold_fixed(state, cluster, layout)
    for wish in layout.wishes:
        if wish.anchor is not None and cluster.try_keep(wish.shape, wish.anchor):
            wish.slots = wish.anchor
    for size, wishes in by_size.items():
        if size in staying:
            _stay(cluster, wishes)
    for size, wishes in by_size.items():
        if size not in staying:
            _stay(cluster, wishes)
        for wish in wishes:
            if wish.slots is None and wish.anchor is None:
                wish.slots = cluster.allocate(wish.shape)
    return all(wish.slots is not None for wish in layout.wishes)


def _hold_fixed(state: State, cluster: LayoutCluster, layout: Layout) -> None:
    held: set[Slots] = set()
    for name in layout.fixed:
        job = state.jobs[name]
        if job.slots not in held and job.allocation.gpus and not is_blocked(state, job.slots):
            held.add(job.slots)
            cluster.keep(job.allocation, job.slots)


def _stay(cluster: LayoutCluster, wishes: Iterable[Wish]) -> None:
    """Give wishes the GPUs that most of their members hold, the largest such part first."""
    places: list[tuple[int, int, Slots, Wish]] = []
    for at, wish in enumerate(wishes):
        if wish.slots is None and wish.anchor is None:
            held: dict[Slots, int] = {}
            for job in wish.jobs:
                if job.active and not job.releasing:
                    slots = job.slots
                    held[slots] = held.get(slots, 0) + 1
            places += [(-count, at, slots, wish) for slots, count in held.items()]
    for _, _, slots, wish in sorted(places, key=itemgetter(0, 1)):
        if wish.slots is None and cluster.try_keep(wish.shape, slots):
            wish.slots = slots
