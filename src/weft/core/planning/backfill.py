"""EASY backfill, where nobody may be stopped: the first that does not fit gets a reservation, those behind may start if
they do not delay it: on GPUs that it does not need, or on any if they end before."""

from __future__ import annotations

from weft.core.planning.allocator import NEVER, Walk
from weft.core.queue.order import Order
from weft.core.resources.shapes import Shape
from weft.core.state.job import JobState
from weft.model import Seconds, Share


class Easy:
    """One walk over those who wait, best first. Room only shrinks on the way, so no shape is tried twice in vain."""

    def __init__(self, walk: Walk, order: Order) -> None:
        self._walk, self._order = walk, order
        self._until: Seconds | None = None
        """When the first that does not fit gets its GPUs; None: all have fitted so far."""
        self._beside: set[Shape] = set()
        """What does not fit beside the reservation."""
        self.hopeless: set[Shape] = set()
        """What does not fit even if nothing were reserved."""

    def start(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        """Starts them, or makes the reservation for them if it is the first; False: they go on waiting."""
        if shape in self.hopeless:
            return False
        walk = self._walk
        if shape not in self._beside:
            if walk.start(jobs, shape, share):
                return True
            if self._until is None:
                self._until = walk.reserve(shape, self._order.soonest(walk.state))
                self.hopeless.add(shape)
                return False
            self._beside.add(shape)
            if not walk.would_fit(shape):
                self.hopeless.add(shape)
                return False
        now, until = walk.state.now, self._until
        if until is None or until == NEVER:
            return False
        for job in jobs:
            if now + job.remaining(now) > until:
                return False
        return self._start_meanwhile(jobs, shape, share)

    def _start_meanwhile(self, jobs: tuple[JobState, ...], shape: Shape, share: Share) -> bool:
        if self._walk.start_meanwhile(jobs, shape, share):
            return True
        self.hopeless.add(shape)
        return False
