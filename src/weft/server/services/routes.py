"""The table of services and replicas that routers serve (pure)."""

from __future__ import annotations

from collections.abc import Set

from weft.access.wire.messages import ReplicaRoute, RouteTable, ServiceRoute
from weft.model import NodeId
from weft.model.status import Reason
from weft.scheduling.core.state.services import ServiceState
from weft.scheduling.core.state.state import State


def route_table(state: State, number: int) -> RouteTable:
    """Return the table of the present state. Replicas that are not ready yet are not in it."""
    silent = {node for node, why in state.closed if why == Reason.NODE_SILENT}
    services = [
        _service(each, silent) for each in state.services.by_name.values() if not each.undeployed or each.replicas
    ]
    return RouteTable(number=number, services=services)


def _service(found: ServiceState, silent: Set[NodeId]) -> ServiceRoute:
    service, times = found.service, found.service.timeouts
    replicas = [
        ReplicaRoute(
            name=replica.id, address=replica.address, concurrency=service.concurrency,
            draining=replica.draining_since is not None or replica.releasing,
            version=replica.job.replica.version if replica.job.replica is not None else 0,
            silent=any(node in silent for node, _ in replica.slots),
        )
        for replica in found.replicas.values()
        if replica.ready_at is not None and replica.address
    ]  # fmt: skip
    return ServiceRoute(
        name=service.name, replicas=replicas, models=service.models, queue_s=times.queue_s, answer_s=times.answer_s,
        idle_s=times.idle_s, drain_s=times.drain_s, retry=service.routing.retry, max_queue=service.routing.max_queue,
        balance=service.routing.balance, health=service.health.path,
        failed=found.failing() if found.has_failed() else "",
    )  # fmt: skip
