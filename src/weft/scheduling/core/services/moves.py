"""Moves of replicas to other GPUs, so that GPUs become empty. The placement proposes them, the core checks and limits.

A move costs no request: the new replica starts on its GPU at once, and the old one is drained when the new one is
ready. Only ready replicas on a part of one GPU move; training never does. No more than `moves_per_minute` of the
placement begin within any minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from weft.model import Move, Seconds, Start
from weft.scheduling.core.planning.planner import Context
from weft.scheduling.core.ports import ReplicaMove
from weft.scheduling.core.resources.shapes import shape_of
from weft.scheduling.core.services.replicas import make_replica, surge
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.services import MOVE_WINDOW_S, ServiceState

MAX_PROPOSALS: Final = 4
"""The number of proposals for one instant; each leaves out the replicas whose move the core refused."""


class ReplicaMoves:
    """Decides moves after events, and again when the limit of a minute allows more."""

    def __init__(self, context: Context, settle: Callable[[], None]) -> None:
        self._context, self._settle = context, settle
        self._limit = context.placement.moves_per_minute
        self.due = True
        """True if moves may have become possible since the last try. A restarted scheduler tries once more: where
        nothing has changed, it finds no move either."""

    def use(self, context: Context) -> None:
        """Decide with this context from now on."""
        self._context = context

    def step(self) -> None:
        """Begin the moves that the placement proposes and the limit allows."""
        state = self._context.state
        if not self._limit or not self.due or state.paused or state.resources.releasing:
            return  # GPUs that are released may be promised to other runs
        allowed = self._limit - len(self._recent())
        if allowed <= 0:
            return
        news, self.due = state.news, False
        for move in self._proposals()[:allowed]:
            if self._fits(move):
                self._begin(move)
                self.due = True
        state.news = news  # the submission of a replica that starts at once calls for no plan

    def next_try(self) -> Seconds | None:
        """Return when the limit of a minute allows another move, if one may be possible."""
        recent = self._recent() if self._limit and self.due else []
        return recent[-self._limit] + MOVE_WINDOW_S if len(recent) >= self._limit > 0 else None

    def _recent(self) -> list[Seconds]:
        """Return the times of the moves of the last minute, the oldest first."""
        state = self._context.state
        services = state.services.by_name.values()
        return sorted(at for service in services for at in service.moved_since(state.now - MOVE_WINDOW_S))

    def _proposals(self) -> list[ReplicaMove]:
        """Return the moves that the placement proposes, all of which are possible."""
        context = self._context
        movable = dict.fromkeys(self._movable())
        avoided = set(self._avoided())
        for _ in range(MAX_PROPOSALS):
            if not movable:
                return []
            moves = list(context.placement.propose_moves(context.state.resources.nodes, movable, avoided))
            refused = [move.holder for move in moves if move.holder not in movable or not self._fits(move)]
            if not refused:
                return moves
            for holder in refused:
                movable.pop(holder, None)  # type: ignore[call-overload]
        return []

    def _movable(self) -> Iterator[JobState]:
        """Yield the replicas that may move: their service is complete and has room for one more replica."""
        state = self._context.state
        for service in state.services.by_name.values():
            shape = shape_of(make_replica(service.service, 0))
            if service.undeployed or shape.gpus != 1 or not shape.family.serves or not _has_surge(service):
                continue
            for replica in service.ready():
                if replica.shape is shape and service.is_current(replica) and state.eligibility.has_room_like(replica):
                    yield replica

    def _avoided(self) -> Iterator[tuple[int, int]]:
        """Yield the GPUs that replicas leave."""
        state = self._context.state
        for service in state.services.by_name.values():
            for replica in service.replicas.values():
                if replica.leaving or replica.draining_since is not None:
                    for node, gpus in replica.slots:
                        yield from ((state.resources.by_id[node].index, gpu) for gpu in gpus)

    def _fits(self, move: ReplicaMove) -> bool:
        """Return whether the new GPU has room for a second run of the replica now."""
        replica = move.holder
        if not isinstance(replica, JobState) or not self._may_move(replica):
            return False
        host, shape = self._context.state.resources.nodes[move.node], replica.shape
        able = host.alive and host.count_for(shape, after_release=False) >= 1
        return able and move.gpu in host.fitting(shape, after_release=False)

    def _may_move(self, replica: JobState) -> bool:
        """Return whether a replica may still move after the moves before it at this instant."""
        service = self._context.state.services.of(replica)
        return service is not None and not replica.leaving and _has_surge(service)

    def _begin(self, move: ReplicaMove) -> None:
        """Start the new replica on its GPU; the old one stays until the new one is ready."""
        context, replica = self._context, move.holder
        assert isinstance(replica, JobState)
        state = context.state
        service = state.services.of(replica)
        assert service is not None
        slots = ((state.resources.nodes[move.node].node.id, (move.gpu,)),)
        context.decide(Move(state.now, replica.id, replica.run, slots))
        before = set(service.replicas)
        self._settle()
        for job in [job for job in service.replicas if job not in before]:
            new = service.replicas[job]
            if new.waits:
                context.decide(Start(state.now, new.id, new.run + 1, slots, new.wanted_share))


def _has_surge(service: ServiceState) -> bool:
    """Return whether a service has all its replicas, and may have one more while one of them is replaced."""
    staying = service.staying()
    current = sum(service.is_current(replica) for replica in staying)
    return current == service.wanted and len(staying) < service.wanted + surge(service)
