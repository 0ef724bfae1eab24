"""Answers about services: their replicas, their load and what they wait for."""

from __future__ import annotations

from weft.core.explain_services import explain_service
from weft.core.state.job import JobState
from weft.core.state.services import ServiceState
from weft.model import Seconds
from weft.model.slots import format_slots
from weft.server.controller import Controller
from weft.wire.views.services import ReplicaView, ServiceView
from weft.wire.views.timestamps import iso


def service_views(controller: Controller, now: Seconds) -> list[ServiceView]:
    """Return all services, by name."""
    services = controller.scheduler.state.services.by_name
    return [_service(controller, services[name], now) for name in sorted(services)]


def _service(controller: Controller, known: ServiceState, now: Seconds) -> ServiceView:
    service, rule = known.service, known.service.scale
    load = controller.services.autoscaling.figures(service.name)
    found = explain_service(controller.scheduler, service.name, at=now)
    return ServiceView(
        name=service.name, user=service.template.user, version=service.version,
        url=controller.services.url(service.name), wanted=known.wanted, why=known.why,
        ready=len(known.ready()), min_replicas=rule.min_replicas,
        max_replicas=rule.max_replicas, scaler=rule.scaler, rate=round(load.arrivals, 3),
        in_flight=round(load.in_flight, 3), queued=load.queued, capacity=round(load.capacity, 3), slo_s=service.slo_s,
        waiting_for=found.why_waiting, held_by=found.held_by, models=list(service.models),
        failing=known.failing(),
        replicas=[_replica(controller, known, each) for each in known.replicas.values()],
    )  # fmt: skip


def _replica(controller: Controller, known: ServiceState, replica: JobState) -> ReplicaView:
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
        gpus=format_slots(controller.inventory.numbers.renumbered(replica.slots)),
        since=iso(replica.ready_at if replica.ready_at is not None else replica.submitted_at),
    )  # fmt: skip
