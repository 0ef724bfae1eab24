"""The replicas of one service and the router's queue, advanced from event to event: one event per batch or stream.

Requests are an array of arrival times. The queue is a window of that array, from the first request that no replica has
taken to the last that has arrived, so an arrival costs nothing while all replicas are busy.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf

from weft.scheduling.scaling.port import Load
from weft.sim.serving.arrivals import Arrivals
from weft.sim.serving.service import SimulatedService


@dataclass(slots=True, eq=False)
class Replica:
    index: int
    ordered_s: float
    ready_s: float
    share: float
    """The share of its GPU that it runs at; it may change between batches."""
    active: int = 0
    """Requests that it serves."""
    listed: bool = False
    """True while it is in the heap of replicas with a free slot."""
    busy_s: dict[float, float] = field(default_factory=dict)
    """Seconds in which it served batches, by the share that it ran at."""
    draining: bool = False
    ended_s: float = inf


class ReplicaPool:
    def __init__(self, service: SimulatedService, arrivals: Arrivals) -> None:
        self.service, self._times, self._tokens = service, arrivals.times_s, arrivals.tokens
        self.replicas: list[Replica] = []
        """All replicas that ever were, in the order in which they were ordered."""
        self.living: list[Replica] = []
        self.latencies_s = array("d")
        """Seconds from arrival to answer, or to the begin of a stream, in the order in which requests are taken."""
        self.choose_share: Callable[[float, int], float] | None = None
        """Return the share for the next batch, given how long its first request waited and its size; None: fixed."""
        self.now_s = 0.0
        self._head = self._tail = 0
        self._busy: list[tuple[float, int, Replica, int]] = []
        self._idle: list[tuple[int, Replica]] = []
        self._places = 1 if service.grid is not None else service.slots
        """Batches or streams that a replica works on at a time."""
        self._sequence = 0
        self._in_flight = 0
        self._area = 0.0
        self.completed = self.completed_last = 0
        """Requests answered, and those of the last tick."""
        self.saturated = False
        """True if requests waited and all replicas worked throughout the last tick."""
        self._tick = _Tick()

    @property
    def queued(self) -> int:
        return self._tail - self._head

    @property
    def finished(self) -> bool:
        return self._head == len(self._times) and not self._busy

    def counted(self) -> list[Replica]:
        """Return the replicas that serve or start."""
        return [replica for replica in self.living if not replica.draining]

    # ---- replicas come and go

    def add(self, ready_s: float) -> Replica:
        replica = Replica(len(self.replicas), self.now_s, ready_s, self.service.speed)
        self.replicas.append(replica)
        self.living.append(replica)
        self._sequence += 1
        heappush(self._busy, (max(ready_s, self.now_s), self._sequence, replica, 0))
        return replica

    def remove(self) -> Replica:
        """Drain a replica: one that starts, else the least busy one, the newest of equals."""
        replica = min(self.counted(), key=lambda each: (each.ready_s <= self.now_s, each.active, -each.index))
        self.drain(replica)
        return replica

    def drain(self, replica: Replica) -> bool:
        """Give a replica no more requests; return whether it still answers some."""
        replica.draining = True
        if not replica.active:
            self._end(replica)
        return bool(replica.active)

    def end(self, replica: Replica) -> None:
        """End a replica now. The requests that it has taken count as answered when they would have been."""
        replica.draining = True
        if replica.ended_s == inf:
            self._end(replica)

    def _end(self, replica: Replica) -> None:
        replica.ended_s = self.now_s
        self.living.remove(replica)

    # ---- time passes

    def advance(self, until_s: float) -> None:
        """Serve all that happens up to this time."""
        times, count = self._times, len(self._times)
        while True:
            finish_s = self._busy[0][0] if self._busy else inf
            start_s = times[self._head] if self._has_idle() and self._head < count else inf
            if finish_s <= start_s:
                if finish_s > until_s:
                    break
                self._move_to(finish_s)
                self._finish()
            else:
                if start_s > until_s:
                    break
                self._move_to(max(start_s, self.now_s))
                self._start(self._idle[0][1])
        self._move_to(until_s)

    def load(self) -> Load:
        """Return the load since the last call."""
        tick, living = self._tick, self.counted()
        ready = sum(replica.ready_s <= self.now_s for replica in living)
        passed_s = max(self.now_s - tick.since_s, 1e-9)
        arrived, area = self._tail - tick.tail, self._area - tick.area
        self.saturated = not tick.idled and self.queued >= self.service.slots and ready > 0
        self.completed_last = self.completed - tick.completed
        self._tick = _Tick(self.now_s, self._tail, self._area, self.completed, self._has_idle() or not ready)
        rate = arrived / passed_s
        throughput, slots = self.service.throughput, self.service.slots
        return Load(self.now_s, len(living), ready, rate, area / passed_s, self.queued, slots, throughput, throughput)

    def _move_to(self, now_s: float) -> None:
        times, tail = self._times, self._tail
        while tail < len(times) and times[tail] <= now_s:
            tail += 1
        self._tail = tail
        self._area += self._in_flight * (now_s - self.now_s)
        self.now_s = now_s

    def _has_idle(self) -> bool:
        idle = self._idle
        while idle and (idle[0][1].draining or idle[0][1].active >= self._places):
            heappop(idle)[1].listed = False
        return bool(idle)

    def _finish(self) -> None:
        """Take the next event of the heap: a replica is ready, or a batch or stream ends."""
        _, _, replica, served = heappop(self._busy)
        self.completed += served
        self._in_flight -= served
        if served:
            replica.active -= 1 if self.service.grid is not None else served
        if replica.draining:
            if not replica.active and replica.ended_s == inf:
                self._end(replica)
            return
        if self._head < self._tail:
            self._start(replica)
        else:
            self._tick.idled = True
            if not replica.listed:
                replica.listed = True
                heappush(self._idle, (replica.index, replica))

    def _start(self, replica: Replica) -> None:
        """Give a replica as many requests as it takes at once."""
        service = self.service
        if service.grid is not None:
            size = min(self._tail - self._head, service.slots)
            if self.choose_share is not None:
                replica.share = self.choose_share(self.now_s - self._times[self._head], size)
            takes_s = service.grid.seconds(size, replica.share)
            ends_s = self.now_s + takes_s
            replica.busy_s[replica.share] = replica.busy_s.get(replica.share, 0.0) + takes_s
            latencies, times = self.latencies_s, self._times
            for at in range(self._head, self._head + size):
                latencies.append(ends_s - times[at])
            replica.active = 1
            self._push(ends_s, replica, size)
            return
        while self._head < self._tail and replica.active < service.slots:
            assert self._tokens is not None
            ends_s = self.now_s + max(self._tokens[self._head], 1) * service.token_s
            self.latencies_s.append(self.now_s - self._times[self._head])
            replica.active += 1
            self._push(ends_s, replica, 1)

    def _push(self, ends_s: float, replica: Replica, served: int) -> None:
        self._sequence += 1
        self._head += served
        self._in_flight += served
        heappush(self._busy, (ends_s, self._sequence, replica, served))


@dataclass(slots=True)
class _Tick:
    """The counters when the last tick ended."""

    since_s: float = 0.0
    tail: int = 0
    area: float = 0.0
    completed: int = 0
    idled: bool = False
