"""The replicas that a service is to have: which to add, to drain and to end.

A change of version, and a move to other GPUs, replace replicas one after the other: a new one starts, and once it is
ready an old one is drained. Draining lets a replica answer the requests it has; then it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from weft.model import Cancelled, Decision, DrainReplica, Job, Replica, RolledBack, Seconds, Service, Submitted, Task
from weft.model.status import ACTIVE
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.services import ServiceState


def make_replica(service: Service, index: int) -> Job:
    """Return a replica as a job: `SERVICE/INDEX` names it, because its group is the service."""
    task = replace(service.template.task or Task(), group=service.name)
    made_for = Replica(service.name, index, service.version)
    return replace(service.template, id=f"{service.name}.{index}", name=str(index), task=task, replica=made_for)


def changes(state: ServiceState, now: Seconds) -> Iterator[Decision]:
    """Yield what brings the replicas of a service closer to what it is to have."""
    yield from _end_drained(state, now)
    staying = state.staying()
    current = [replica for replica in staying if state.is_current(replica)]
    old = [replica for replica in staying if not state.is_current(replica)]
    wanted, ready = state.wanted, sum(replica.ready_at is not None for replica in staying)
    for replica in old:
        if replica.ready_at is None:
            yield _end(replica, now, "replaced")
        elif ready > wanted or not wanted:
            ready -= 1
            yield _end(replica, now, "replaced")
    for replica in sorted(current, key=_spared)[wanted:]:
        yield _end(replica, now, "scaled in")
    for replica in state.staying(unreachable=True):  # one of a version that is gone might still answer
        if ready >= wanted and not (wanted and state.is_current(replica)):
            yield _end(replica, now, "replaced")
    room = wanted + surge(state) - len(staying)
    for index in range(min(wanted - len(current), room)):
        yield Submitted(now, make_replica(state.service, state.next_index + index))


def surge(state: ServiceState) -> int:
    """Return how many replicas may run in addition while replicas are replaced."""
    return ceil(state.wanted * state.service.update.surge)


def rollback_of(state: ServiceState, now: Seconds, errors: str = "") -> RolledBack | None:
    """Return the way back to the last good version if the present one never got ready, or for its `errors`."""
    good = state.last_good()
    if good is None or state.undeployed or not state.service.update.rollback or not (errors or state.has_failed()):
        return None
    cause = errors or f"it never got ready ({state.rollout.why})"
    why = f"version {state.service.version} was rolled back: {cause}"
    return RolledBack(now, replace(good.service, version=state.service.version + 1), why)


def drained_by(state: ServiceState) -> Seconds | None:
    """Return when the first draining replica must end even if it still answers requests."""
    draining = [r.draining_since for r in state.replicas.values() if r.draining_since is not None and not r.cancelling]
    return min(draining) + state.service.timeouts.drain_s if draining else None


def _end_drained(state: ServiceState, now: Seconds) -> Iterator[Decision]:
    drain_s = state.service.timeouts.drain_s
    for replica in list(state.replicas.values()):
        if replica.draining_since is None or replica.cancelling:
            continue
        if replica.drained or now >= replica.draining_since + drain_s:
            yield Cancelled(now, replica.id)


def _end(replica: JobState, now: Seconds, why: str) -> Decision:
    """Drain a replica that may have requests; cancel any other."""
    if replica.ready_at is not None:
        return DrainReplica(now, replica.id, replica.run, why)
    return Cancelled(now, replica.id)


def _spared(replica: JobState) -> tuple[int, int]:
    """Return the order in which replicas stay when there are too many: ready ones, then the oldest."""
    return 0 if replica.ready_at is not None else 1 if replica.status in ACTIVE else 2, replica.seq
