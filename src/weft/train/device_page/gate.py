"""The gate between the layers of a training step: it opens at once unless inference runs on the GPU."""

from __future__ import annotations

import time

from weft.train.device_page import layout, rules
from weft.train.device_page.layout import BUSY_AT, DILU, IDLE, ROW, RULE_AT

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Final, Protocol

    from weft.train.device_page.place import Place

    class Queue(Protocol):
        """The work that this process has queued at the device."""

        def limit(self) -> None:
            """Wait until at most two layers are queued."""


POLL_S: Final = 0.0005
"""The longest that training sleeps after a batch has ended."""
HEAL_S: Final = 0.1
"""A batch of this length may be that of a dead process."""
MAX_LAYER_S: Final = 1.0


class Gate:
    """The gate of a training process on one GPU. Call it between two layers."""

    def __init__(
        self, place: Place, queue: Queue | None = None,
        clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._place, self._memory, self._queue = place, place.memory, queue
        self._clock, self._sleep = clock, sleep
        self._bucket = rules.Bucket()
        self._layers, self._began, self._waited = 0, clock(), 0.0

    def __call__(self) -> None:
        self._layers += 1
        memory = self._memory
        if memory[BUSY_AT : BUSY_AT + ROW] == IDLE and memory[RULE_AT] != DILU and self._queue is None:
            return
        self._pass(memory)

    def _pass(self, memory: layout.Buffer) -> None:
        if self._queue is not None and layout.has_kind(memory, layout.INFERENCE):
            self._queue.limit()
        rule = layout.rule(memory)
        if rule == layout.OFF or (rule == layout.PRIO and not layout.is_busy(memory)):
            return
        now = self._clock()
        layer_s = self._layer_s(now)
        rate, since = self._rate(rule, now)
        if rate >= 1:
            return
        wait_s = self._bucket.wait_s(now, since, rate, layer_s)
        ended = self._wait(rule, now, now + wait_s) if wait_s > 0 else now
        self._bucket.end_wait(ended, rate, layer_s)
        self._waited += ended - now
        layout.add_wait(memory, self._place.index, ended - now, rate)

    def _rate(self, rule: int, now: float) -> tuple[float, float]:
        """Return the rate and when it began to hold."""
        memory, owner = self._memory, self._place.owner
        factor = layout.factor(memory)
        since = layout.contended_since(memory)
        if rule == layout.PRIO:
            return rules.prio_rate(since is not None, factor, owner.request), since or now
        idle_s = 0.0 if since is not None else now - layout.active_at(memory)
        training = [slot.owner for slot in layout.slots(memory) if slot.owner.kind == layout.TRAINING]
        requests, limits = sum(each.request for each in training), sum(each.limit for each in training)
        return rules.dilu_rate(idle_s, factor, owner.request, requests, limits), 0.0

    def _wait(self, rule: int, now: float, until: float) -> float:
        """Wait until the given time, or until no batch runs."""
        memory, heal_at = self._memory, now + HEAL_S
        while now < until:
            self._sleep(min(POLL_S, until - now))
            now = self._clock()
            if rule == layout.PRIO and memory[BUSY_AT : BUSY_AT + ROW] == IDLE:
                break
            if now >= heal_at:
                self._place.page.heal()
                heal_at = now + HEAL_S
        return now

    def _layer_s(self, now: float) -> float:
        """Return the mean time between two gates without the waits. It forgets the past slowly."""
        mean = (now - self._began - self._waited) / self._layers
        if self._layers > 1000:
            self._layers //= 2
            self._waited = 0.0
            self._began = now - mean * self._layers
        return min(max(mean, 0.0), MAX_LAYER_S)


def gate_for(places: Sequence[Place], queue: Queue | None = None) -> Callable[[], None]:
    """Return the gate of a process on these GPUs."""
    gates = [Gate(place, queue if not at else None) for at, place in enumerate(places)]
    if len(gates) == 1:
        return gates[0]

    def pass_all() -> None:
        for gate in gates:
            gate()

    return pass_all
