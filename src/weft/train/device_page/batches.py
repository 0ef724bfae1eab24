"""The batches of an inference process: each is marked on the device page while it runs."""

from __future__ import annotations

import time
from _thread import allocate_lock

from weft.train.device_page import layout, rules

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from weft.train.device_page.place import Place


class Batches:
    """The batches of this process on all its GPUs. Batches of several threads count as one."""

    def __init__(
        self, places: Sequence[Place], *, is_llm: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places, self._clock, self._is_llm = list(places), clock, is_llm
        self._periods = [rules.Periods(self._bands(place)) for place in places]
        self._lock, self._depth = allocate_lock(), 0

    def _bands(self, place: Place) -> rules.Bands:
        if layout.rule(place.memory) != layout.DILU:
            return rules.PRIO_BANDS
        return rules.DILU_LLM_BANDS if self._is_llm else rules.DILU_BANDS

    def begin(self) -> float:
        """Begin a batch; return the part of the GPU that it should use."""
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                now = self._clock()
                for place in self._places:
                    if now - layout.active_at(place.memory) > rules.IDLE_AFTER_S and self._restores(place):
                        layout.set_factor(place.memory, 1.0)
                    layout.begin(place.memory, place.index, now)
        return min((self._share(place) for place in self._places), default=1.0)

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            now = self._clock()
            for place, periods in zip(self._places, self._periods, strict=True):
                seconds = layout.end(place.memory, place.index, now)
                layout.set_factor(place.memory, periods.next_factor(layout.factor(place.memory), seconds))

    def _restores(self, place: Place) -> bool:
        """Return whether idle time restores the full rate, as Dilu has it."""
        return layout.rule(place.memory) == layout.DILU and not layout.is_busy(place.memory)

    def _share(self, place: Place) -> float:
        memory, owner = place.memory, place.owner
        is_contended = layout.has_kind(memory, layout.TRAINING) or layout.is_other_busy(memory, place.index)
        return rules.batch_share(owner.request, owner.limit, is_contended=is_contended)
