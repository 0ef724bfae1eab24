"""Services and their replicas as the views that answers consist of."""

from __future__ import annotations

from collections.abc import Callable

from weft.core.explain_services import explain_service
from weft.core.scheduler import Scheduler
from weft.core.state.job import JobState
from weft.core.state.services import ServiceState
from weft.model import Seconds
from weft.model.slots import Renumber, format_slots
from weft.server.services.autoscaling import Figures
from weft.wire.views.services import ReplicaView, ServiceView
from weft.wire.views.timestamps import iso


def service_view(
    scheduler: Scheduler, name: str, now: Seconds, load: Figures, url: str, renumber: Renumber,
    explain_pools: Callable[[JobState], list[str]] = lambda _replica: [],
) -> ServiceView:  # fmt: skip
    """`explain_pools` returns what the pools do about a waiting replica."""
    known = scheduler.state.services.by_name[name]
    service, rule = known.service, known.service.scale
    found = explain_service(scheduler, name, at=now)
    return ServiceView(
        name=name, user=service.template.user, version=service.version, url=url, wanted=known.wanted, why=known.why,
        ready=len(known.ready()), min_replicas=rule.min_replicas,
        max_replicas=rule.max_replicas, scaler=rule.scaler, rate=round(load.arrivals, 3),
        in_flight=round(load.in_flight, 3), queued=load.queued, capacity=round(load.capacity, 3), slo_s=service.slo_s,
        waiting_for=found.why_waiting, held_by=found.held_by, models=list(service.models),
        failing=known.failing(), pools=explain_pools(known.replicas[found.waiting[0]]) if found.waiting else [],
        replicas=[_replica(known, each, renumber) for each in known.replicas.values()],
    )  # fmt: skip


def _replica(known: ServiceState, replica: JobState, renumber: Renumber) -> ReplicaView:
    made_for = replica.job.replica
    assert made_for is not None
    if replica.draining_since is not None:
        status = "draining"
    elif replica.ready_at is not None:
        status = "ready"
    else:
        status = "starting" if replica.active else "waiting"
    return ReplicaView(
        job=replica.id, index=made_for.index, version=made_for.version, status=status,
        current=known.is_current(replica), address=replica.address,
        gpus=format_slots(renumber(replica.slots)),
        since=iso(replica.ready_at if replica.ready_at is not None else replica.submitted_at),
    )  # fmt: skip
