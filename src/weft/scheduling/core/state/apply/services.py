"""Facts about services and their replicas."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from weft.model import (
    Deployed,
    DrainReplica,
    Move,
    Ready,
    ReplicaDrained,
    Resized,
    Revision,
    RolledBack,
    Rollout,
    Service,
    ServiceSnapshot,
    Undeployed,
    Unready,
)
from weft.scheduling.core.state.services import MAX_REVISIONS, MOVE_WINDOW_S, ServiceState
from weft.scheduling.core.state.transitions import TRANSITIONS

if TYPE_CHECKING:
    from weft.scheduling.core.state.job import JobState
    from weft.scheduling.core.state.state import State


def deployed(state: State, fact: Deployed) -> bool:
    services, service = state.services, fact.service
    known = services.by_name.get(service.name)
    rollout = Rollout(deployed_at=fact.at, who=fact.who)
    if known is None:
        known = services.by_name[service.name] = ServiceState(service)
        known.rollout = rollout
    else:
        if known.service == service and not known.undeployed and known.wanted >= fact.start:
            return False
        _replace_version(known, service, rollout, rollback=fact.rollback)
        known.undeployed = False
    if known.wanted < fact.start:
        known.wanted, known.why = 1, "to see whether it starts"
    services.touch()
    state.news = True
    return True


def rolled_back(state: State, fact: RolledBack) -> bool:
    known = state.services.by_name.get(fact.service.name)
    if known is None or known.undeployed or fact.service.version <= known.service.version:
        return False
    _replace_version(known, fact.service, Rollout(deployed_at=fact.at), rollback=True)
    known.rollout = replace(known.rollout, why=fact.why)
    state.services.touch()
    state.news = True
    return True


def _replace_version(known: ServiceState, service: Service, rollout: Rollout, *, rollback: bool) -> None:
    """Set the version of a service. Replicas of an earlier version that run the same program count as current."""
    if service.version > known.service.version:
        replaced = Revision(known.service, replace(known.rollout, rolled_back=rollback))
        known.revisions = (*known.revisions, replaced)[-MAX_REVISIONS:]
        known.rollout = rollout
        for earlier, before in ((revision.service, revision.rollout) for revision in known.revisions[:-1]):
            if earlier.runs_like(service):
                ready_at = None if before.rolled_back else before.ready_at
                known.rollout = replace(rollout, versions=(*before.versions, earlier.version), ready_at=ready_at)
    if service.scale != known.service.scale:
        known.why = ""
    known.service = service
    known.wanted = min(max(known.wanted, service.scale.min_replicas), service.scale.max_replicas)


def count_failed_start(state: State, replica: JobState, why: str) -> None:
    """Count the end of a run that was never ready, if no replica of its version ever was."""
    service = state.services.of(replica)
    if service is None or replica.ready_at is not None or not service.is_current(replica):
        return
    if service.rollout.ready_at is not None:
        return
    service.rollout = replace(service.rollout, failed_starts=service.rollout.failed_starts + 1, why=why)
    state.services.touch()


def undeployed(state: State, fact: Undeployed) -> bool:
    service = state.services.by_name.get(fact.service)
    if service is None or service.undeployed:
        return False
    service.undeployed, service.wanted = True, 0
    state.services.touch()
    state.news = True
    if not service.replicas:
        del state.services.by_name[fact.service]
    return True


def resized(state: State, fact: Resized) -> bool:
    service = state.services.by_name.get(fact.service)
    if service is None or service.undeployed or fact.replicas == service.wanted:
        return False
    service.wanted, service.why = fact.replicas, fact.why
    state.services.touch()
    state.news = True
    return True


def ready(state: State, fact: Ready) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.job.replica is None or replica.releasing:
        return False
    replica.ready_at, replica.address = fact.at, fact.address
    replica.delays = 0
    service = state.services.of(replica)
    if service is not None and service.is_current(replica) and service.rollout.ready_at is None:
        service.rollout = replace(service.rollout, ready_at=fact.at, failed_starts=0, why="")
    state.services.touch()
    state.news = True
    return True


def unready(state: State, fact: Unready) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.job.replica is None or replica.status not in TRANSITIONS["Stop"]:
        return False
    count_failed_start(state, replica, fact.why)
    replica.ready_at = None
    state.orphans[replica.id] = replica
    state.services.touch()
    state.news = True
    return True


def drain_replica(state: State, fact: DrainReplica) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.job.replica is None or replica.draining_since is not None:
        return False
    replica.draining_since = fact.at
    return True


def replica_drained(state: State, fact: ReplicaDrained) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.draining_since is None or replica.drained:
        return False
    replica.drained = True
    state.services.touch()
    state.news = True
    return True


def move(state: State, fact: Move) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.job.replica is None or replica.leaving:
        return False
    replica.leaving = True
    service = state.services.of(replica)
    if service is not None:
        service.moved_at = (*service.moved_since(fact.at - MOVE_WINDOW_S), fact.at)
    state.services.unsettled = True
    return True


def restore_service(state: State, fact: ServiceSnapshot) -> bool:
    service = state.services.by_name[fact.service.name] = ServiceState(fact.service)
    service.wanted, service.undeployed, service.next_index = fact.replicas, fact.undeployed, fact.next_index
    service.moved_at = fact.moved_at
    service.rollout, service.revisions = fact.rollout, fact.revisions
    state.services.touch()
    return True
