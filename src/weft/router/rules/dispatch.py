"""The dispatcher of one service: outstanding requests per replica, and one queue, first come, first served.

Requests come in and leave, replicas come and go; `assignments` returns the requests that begin now. Nothing here reads
a clock or a socket, so any order of calls can be tested.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from weft.router.rules.outliers import Health, is_outlier
from weft.router.rules.picking import BalanceRule, Draw, pick, pick_in_turn

Request = TypeVar("Request")


class ReplicaPlan(NamedTuple):
    """A replica as a table describes it."""

    name: str
    concurrency: int = 1
    weight: float = 1.0
    draining: bool = False
    version: int = 1


class ReplicaLoad:
    """A replica and its outstanding requests."""

    __slots__ = (
        "at", "concurrency", "draining", "health", "name", "outstanding", "removed", "turn", "version", "weight",
    )  # fmt: skip

    def __init__(self, plan: ReplicaPlan) -> None:
        self.name, self.version = plan.name, plan.version
        self.concurrency, self.weight, self.draining = plan.concurrency, plan.weight, plan.draining
        self.outstanding = 0
        self.health = Health()
        self.removed = False
        self.turn = 0.0
        """The moment of its next request, for a choice in turn. It rises by 1/weight with each request."""
        self.at = -1
        """Its place among the open replicas; -1: it is not open."""

    def is_drained(self) -> bool:
        """Return whether the replica has answered its last request."""
        return self.draining and not self.outstanding

    def is_in(self) -> bool:
        """Return whether the replica gets requests: it is in the rotation, though it may be busy."""
        return not self.draining and not self.removed and not self.health.is_out()


class Dispatcher(Generic[Request]):
    """Gives the requests of one service to its replicas."""

    def __init__(self, draw: Draw, max_queue: int) -> None:
        self._draw, self.max_queue = draw, max_queue
        self.balance: BalanceRule = "p2c"
        self._turn = 0.0
        self.replicas: dict[str, ReplicaLoad] = {}
        self.queue: OrderedDict[Request, ReplicaLoad | None] = OrderedDict()
        """The waiting requests, each with the replica that failed to answer it."""
        self.in_flight = 0
        self._open: list[ReplicaLoad] = []
        """The replicas that take another request now."""
        self._weighted = False
        self.ejected: set[ReplicaLoad] = set()
        """The replicas that are out for a time."""

    # ---- requests

    def arrive(self, request: Request) -> ReplicaLoad | None:
        """Return the replica for a new request, or None if it has to wait: see `is_full`."""
        if self.queue or not self._open:
            self.queue[request] = None
            return None
        return self._take()

    def is_full(self) -> bool:
        """Return whether the queue takes no further request."""
        return len(self.queue) >= self.max_queue and not self._open

    def return_to_front(self, request: Request, failed: ReplicaLoad | None) -> None:
        """Put a request back to the front of the queue. Another replica than the one that failed will take it."""
        self.queue[request] = failed
        self.queue.move_to_end(request, last=False)

    def leave(self, request: Request) -> None:
        """Remove a waiting request."""
        self.queue.pop(request, None)

    def release(self, replica: ReplicaLoad) -> None:
        """Free the place of a request that a replica has answered or lost."""
        replica.outstanding -= 1
        self.in_flight -= 1
        self._sort_in(replica)

    def assignments(self) -> Iterator[tuple[Request, ReplicaLoad]]:
        """Yield the waiting requests that begin now, oldest first."""
        while self.queue and self._open:
            only = self._open[0] if len(self._open) == 1 and self._has_other(self._open[0]) else None
            request = next((each for each, failed in self.queue.items() if failed is None or failed is not only), None)
            if request is None:
                return
            yield request, self._take(self.queue.pop(request))

    def _has_other(self, failed: ReplicaLoad) -> bool:
        """Return whether another replica will take a request that this one failed to answer."""
        return any(replica is not failed and replica.is_in() for replica in self.replicas.values())

    def _take(self, failed: ReplicaLoad | None = None) -> ReplicaLoad:
        replicas = self._open
        if failed is not None and failed.at >= 0 and len(replicas) > 1:
            replicas = [replica for replica in replicas if replica is not failed]
        if self.balance == "round_robin":
            replica = pick_in_turn(replicas, self._turn)
            self._turn = max(self._turn, replica.turn)  # a replica that was away does not catch up
            replica.turn = self._turn + 1 / replica.weight
        else:
            replica = pick(replicas, self._draw, weighted=self._weighted)
        replica.outstanding += 1
        self.in_flight += 1
        if replica.outstanding >= replica.concurrency:
            self._sort_in(replica)
        return replica

    # ---- replicas

    def update(self, plans: Iterable[ReplicaPlan]) -> list[ReplicaLoad]:
        """Set the replicas. Return the ones that left; they finish the requests they have."""
        wanted = {plan.name: plan for plan in plans}
        gone = [replica for name, replica in self.replicas.items() if name not in wanted]
        for replica in gone:
            del self.replicas[replica.name]
            replica.removed = True
            self._sort_in(replica)
        for plan in wanted.values():
            replica = self.replicas.setdefault(plan.name, ReplicaLoad(plan))
            replica.concurrency, replica.weight, replica.draining = plan.concurrency, plan.weight, plan.draining
            replica.version = plan.version
            self._sort_in(replica)
        self._weighted = len({replica.weight for replica in self.replicas.values()}) > 1
        self._keep_one_in()
        return gone

    # ---- failures

    def judge(self, replica: ReplicaLoad, now_s: float) -> None:
        """Eject a replica if it is an outlier."""
        if is_outlier(replica.health, [each.health for each in self.replicas.values() if not each.draining]):
            replica.health.eject(now_s)
            self.ejected.add(replica)
            self._sort_in(replica)
            self._keep_one_in()

    def suspect(self, replica: ReplicaLoad) -> None:
        """Give a replica no requests until it answers a probe."""
        replica.health.suspect = True
        self._sort_in(replica)
        self._keep_one_in()

    def clear(self, replica: ReplicaLoad) -> None:
        """Let a replica take requests that has answered a probe, unless it is ejected."""
        replica.health.suspect = False
        self._sort_in(replica)

    def end_ejections(self, now_s: float) -> None:
        """Let replicas take requests again whose time is over."""
        for replica in list(self.ejected):
            if (replica.health.ejected_until_s or 0.0) <= now_s or replica.removed:
                self.ejected.discard(replica)
                replica.health.end_ejection()
                self._sort_in(replica)

    def _keep_one_in(self) -> None:
        """End all ejections if no replica is in: bad answers are better than none. Suspect replicas stay out."""
        if self.ejected and not self.has_ready():
            self.end_ejections(float("inf"))

    def has_ready(self) -> bool:
        """Return whether any replica gets requests."""
        return any(replica.is_in() for replica in self.replicas.values())

    def _sort_in(self, replica: ReplicaLoad) -> None:
        """Add a replica to the open ones, or remove it from them."""
        is_open = replica.outstanding < replica.concurrency and replica.is_in()
        if is_open and replica.at < 0:
            replica.at = len(self._open)
            self._open.append(replica)
        elif not is_open and replica.at >= 0:
            last = self._open.pop()
            if last is not replica:
                self._open[replica.at] = last
                last.at = replica.at
            replica.at = -1
