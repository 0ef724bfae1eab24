"""The planner for replanners that weave. Runs whose GPUs stay the same keep them and are rewoven: no run restarts only
because its partners change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.model import WHOLE, JobId, NodeId, Rewoven, Share, Slots, Start, Stop, StopReason
from weft.scheduling.core.planning.ask_walk import AskPlanner
from weft.scheduling.core.planning.asks import ask_shape, jobs_of, refuse_twice
from weft.scheduling.core.planning.tentative import bit_set
from weft.scheduling.core.planning.weave_layout import Layout, Wish, is_blocked, lay_out
from weft.scheduling.core.ports import Ask
from weft.scheduling.core.resources.node import Holder
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State


class WeavePlanner(AskPlanner):
    """The planner lays out all asks, with each where most of its members are, and moves to that layout."""

    def work_towards(self, *, planned: bool) -> None:
        if not planned or self.context.refuses:
            for ids in self.context.state.pending:  # their partners hold the GPUs: none of these is idle
                self._join_partners(ids)
        super().work_towards(planned=planned)

    def _kept_back(self) -> Collection[JobId]:
        return {job for ids in self.context.state.pending for job in ids}

    def _walk(self, asks: list[Ask]) -> list[tuple[JobId, ...]]:
        """Serve the asks; return the jobs that wait for GPUs to be released."""
        context = self.context
        state = context.state
        refuse_twice(asks)
        context.allocator.begin()
        layout = Layout([])
        for fixed in context.fixed_runs(asks):
            layout = lay_out(state, self._wishes(asks), context.placement, fixed, context.kept_gpus())
            if context.accepts(_staying(state, layout)):
                break
        wish_of = {job.id: wish for wish in layout.wishes for job in wish.jobs}
        self._reweave(self._stop_others(layout, wish_of))
        return [tuple([job.id for job in wish.jobs]) for wish in layout.wishes if not self._start(wish)]

    def _wishes(self, asks: list[Ask]) -> list[Wish]:
        state = self.context.state
        jobs = [jobs_of(state, ask) for ask in asks]
        return [
            Wish(each, ask_shape(state, ask, each), ask.share, _weave(ask.jobs, each))
            for ask, each in zip(asks, jobs, strict=True)
        ]

    def _stop_others(self, layout: Layout, wish_of: Mapping[JobId, Wish]) -> list[tuple[JobState, Wish | None]]:
        """Stop the runs that are to run elsewhere, and the runs that are in the way of others; worst first. Return the
        runs that stay, each with its wish."""
        state = self.context.state
        claimed = _claimed(layout)
        stops: list[tuple[JobState, StopReason]] = []
        staying: list[tuple[JobState, Wish | None]] = []
        for job in state.active.values():
            if job.releasing:
                continue
            wish = wish_of.get(job.id)
            if job.id in layout.fixed or job.job.replica is not None:
                staying.append((job, wish))
            elif wish is not None and wish.slots != job.slots:
                stops.append((job, "moved"))
            elif wish is None and any(claimed.get(node, 0) & bit_set(gpus) for node, gpus in job.slots):
                stops.append((job, "preempted"))
            else:
                staying.append((job, wish))
        for job, why in sorted(stops, key=lambda stop: stop[0].tie_breaker, reverse=True):
            self.context.decide(Stop(state.now, job.id, job.run, why))
        return staying

    def _reweave(self, staying: Iterable[tuple[JobState, Wish | None]]) -> None:
        """Give the runs that stay their new partners. A run that no ask names keeps the partners that stay."""
        now = self.context.state.now
        for job, wish in staying:
            weave = self._remaining_weave(job) if wish is None else wish.weave
            if weave != job.weave:
                self.context.decide(Rewoven(now, job.id, job.run, weave))

    def _remaining_weave(self, job: JobState) -> tuple[JobId, ...]:
        active = self.context.state.active
        there = [name for name in job.weave if (other := active.get(name)) and _are_together(job, other)]
        return tuple(there) if len(there) > 1 else ()

    def _start(self, wish: Wish) -> bool:
        """Start the members that wait, if the GPUs of the wish are clear; return whether all of its members run."""
        assert wish.slots is not None
        waiting = [job for job in wish.jobs if job.status == "waiting"]
        if waiting and self._is_clear(wish.slots, wish.jobs):
            self._start_at(waiting, wish.slots, wish.share, wish.weave)
        elif waiting and not wish.shape.whole and len(waiting) == len(wish.jobs):
            self.context.allocator.start(tuple(waiting), wish.shape, wish.share)
        return all(job.active and not job.releasing for job in wish.jobs)

    def _join_partners(self, ids: tuple[JobId, ...]) -> None:
        """Start planned jobs next to the partners that stayed, once all others have left. None joins a partner on GPUs
        that may not be used any more, such as those of a drained node."""
        jobs = [job for job in map(self.context.state.jobs.get, ids) if job is not None]
        kept = [job for job in jobs if job.active and not job.releasing and len(ids) > 1 and set(job.weave) == set(ids)]
        waiting = [job for job in jobs if job.status == "waiting"]
        if not kept or not waiting or is_blocked(self.context.state, kept[0].slots):
            return
        if self._is_clear(kept[0].slots, kept):
            self._start_at(waiting, kept[0].slots, WHOLE, kept[0].weave)

    def _start_at(self, jobs: list[JobState], slots: Slots, share: Share, weave: tuple[JobId, ...]) -> None:
        now = self.context.state.now
        for job in jobs:
            self.context.decide(Start(now, job.id, job.run + 1, slots, share, weave))

    def _is_clear(self, slots: Slots, members: Collection[Holder]) -> bool:
        """Return whether only these members hold the GPUs."""
        nodes = self.context.state.resources.by_id
        return all(
            holder in members and not holder.releasing
            for node, gpus in slots
            for gpu in gpus
            for holder in nodes[node].holders[gpu]
        )


def _weave(ids: tuple[JobId, ...], jobs: tuple[JobState, ...]) -> tuple[JobId, ...]:
    """Return the weave of these jobs, as decisions name it: in the order of the ask, which is that of their places.
    A weave that runs keeps its places."""
    if len(ids) == 1:
        return ()
    for job in jobs:
        weave = job.weave
        if len(weave) == len(ids) and (weave == ids or set(weave) == set(ids)) and job.active and not job.releasing:
            return weave
    return ids


def _staying(state: State, layout: Layout) -> Iterator[tuple[Sequence[JobState], float]]:
    """Yield the jobs that have GPUs in a layout, those of a weave together, and their number of GPUs."""
    for name in layout.fixed:
        run = state.jobs[name]
        yield (run,), run.gpus / max(len(run.weave), 1)
    for wish in layout.wishes:
        yield wish.jobs, wish.shape.gpus


def _are_together(job: JobState, other: JobState) -> bool:
    return other.slots == job.slots and other.weave == job.weave and not other.releasing


def _claimed(layout: Layout) -> dict[NodeId, int]:
    """Return the GPUs of each node that wishes get, as bits."""
    found: dict[NodeId, int] = {}
    for wish in layout.wishes:
        for node, gpus in wish.slots or ():
            found[node] = found.get(node, 0) | bit_set(gpus)
    return found
