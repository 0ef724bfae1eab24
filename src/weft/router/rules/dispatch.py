"""The dispatcher of one service: outstanding requests per replica, and one queue, first come, first served.

Requests come in and leave, replicas come and go; `assignments` returns the requests that begin now. Nothing here reads
a clock or a socket, so any order of calls can be tested.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

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
        "answered", "at", "concurrency", "draining", "errors", "failures", "last_error", "name", "outstanding",
        "penalty_until_s", "removed", "turn", "version", "weight",
    )  # fmt: skip

    def __init__(self, plan: ReplicaPlan) -> None:
        self.name, self.version = plan.name, plan.version
        self.concurrency, self.weight, self.draining = plan.concurrency, plan.weight, plan.draining
        self.outstanding = 0
        self.answered = self.errors = self.failures = 0
        """Answers, those of them with a status from 500 up, and requests without a whole answer."""
        self.last_error = ""
        self.removed = False
        self.penalty_until_s: float | None = None
        """A replica that refused a connection gets no requests before this time."""
        self.turn = 0.0
        """The moment of its next request, for a choice in turn. It rises by 1/weight with each request."""
        self.at = -1
        """Its place among the open replicas; -1: it is not open."""

    def note_answer(self, status: int) -> None:
        """Count a whole answer."""
        self.answered += 1
        if status >= 500:
            self.errors += 1
            self.last_error = f"answered {status}"

    def note_failure(self, error: str) -> None:
        """Count a request that got no answer, or not all of it."""
        self.failures += 1
        self.last_error = error

    def is_drained(self) -> bool:
        """Return whether the replica has answered its last request."""
        return self.draining and not self.outstanding


class Dispatcher(Generic[Request]):
    """Gives the requests of one service to its replicas."""

    def __init__(self, draw: Draw, max_queue: int) -> None:
        self._draw, self.max_queue = draw, max_queue
        self.balance: BalanceRule = "p2c"
        self._turn = 0.0
        self.replicas: dict[str, ReplicaLoad] = {}
        self.queue: OrderedDict[Request, None] = OrderedDict()
        self.in_flight = 0
        self._open: list[ReplicaLoad] = []
        """The replicas that take another request now."""
        self._weighted = False
        self.penalized: set[ReplicaLoad] = set()

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

    def return_to_front(self, request: Request) -> None:
        """Put a request that reached no replica back to the front of the queue."""
        self.queue[request] = None
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
            request, _ = self.queue.popitem(last=False)
            yield request, self._take()

    def _take(self) -> ReplicaLoad:
        if self.balance == "round_robin":
            replica = pick_in_turn(self._open, self._turn)
            self._turn = max(self._turn, replica.turn)  # a replica that was away does not catch up
            replica.turn = self._turn + 1 / replica.weight
        else:
            replica = pick(self._open, self._draw, weighted=self._weighted)
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
        return gone

    def penalize(self, replica: ReplicaLoad, until_s: float) -> None:
        """Give a replica no requests until this time."""
        if not replica.removed:
            replica.penalty_until_s = until_s
            self.penalized.add(replica)
        self._sort_in(replica)

    def end_penalties(self, now_s: float) -> None:
        """Let replicas take requests again whose time is over."""
        for replica in [
            each for each in self.penalized if each.penalty_until_s is None or each.penalty_until_s <= now_s
        ]:
            replica.penalty_until_s = None
            self._sort_in(replica)

    def has_ready(self) -> bool:
        """Return whether any replica gets requests."""
        return any(not replica.draining for replica in self.replicas.values())

    def _sort_in(self, replica: ReplicaLoad) -> None:
        """Add a replica to the open ones, or remove it from them."""
        if replica.removed or replica.penalty_until_s is None:
            self.penalized.discard(replica)
        is_open = (
            replica.outstanding < replica.concurrency
            and not replica.draining
            and not replica.removed
            and replica.penalty_until_s is None
        )
        if is_open and replica.at < 0:
            replica.at = len(self._open)
            self._open.append(replica)
        elif not is_open and replica.at >= 0:
            last = self._open.pop()
            if last is not replica:
                self._open[replica.at] = last
                last.at = replica.at
            replica.at = -1
