"""Facts about services and their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.core.state.services import MOVE_WINDOW_S, ServiceState
from weft.core.state.transitions import TRANSITIONS
from weft.model import (
    Deployed,
    DrainReplica,
    Move,
    Ready,
    ReplicaDrained,
    Resized,
    ServiceSnapshot,
    Undeployed,
    Unready,
)

if TYPE_CHECKING:
    from weft.core.state.state import State


def deployed(state: State, fact: Deployed) -> bool:
    services, service = state.services, fact.service
    known = services.by_name.get(service.name)
    if known is None:
        services.by_name[service.name] = ServiceState(service)
    else:
        if known.service == service and not known.undeployed:
            return False
        if service.version > known.service.version:
            known.previous = known.service
        known.service, known.undeployed = service, False
        known.wanted = min(max(known.wanted, service.scale.min_replicas), service.scale.max_replicas)
    services.touch()
    state.news = True
    return True


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
    state.services.touch()
    state.news = True
    return True


def unready(state: State, fact: Unready) -> bool:
    replica = state.running(fact.job, fact.run)
    if replica is None or replica.job.replica is None or replica.status not in TRANSITIONS["Stop"]:
        return False
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
    service.previous = fact.previous
    state.services.touch()
    return True
