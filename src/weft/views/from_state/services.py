"""Services and their replicas as the views that answers consist of."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Final

from weft.model import Rollout, Seconds, Service
from weft.model.slots import Renumber, format_slots
from weft.scheduling.core.explain_services import explain_service
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.services import ServiceState
from weft.views.answers.services import ReplicaView, RevisionView, ServiceView
from weft.views.from_state.measured import MeasuredLoad
from weft.views.from_state.timestamps import iso

MAX_SUMMARY_CHARS: Final = 300


def service_view(
    scheduler: Scheduler, name: str, now: Seconds, load: MeasuredLoad, url: str, renumber: Renumber,
    explain_pools: Callable[[JobState], list[str]] = lambda _replica: [], *, watched: bool = False,
    history: bool = False,
) -> ServiceView:  # fmt: skip
    """`explain_pools` returns what the pools do about a waiting replica; `history`: list all versions."""
    known = scheduler.state.services.by_name[name]
    service, rule = known.service, known.service.scale
    found = explain_service(scheduler, name, at=now)
    return ServiceView(
        name=name, user=service.template.user, version=service.version, url=url, wanted=known.wanted, why=known.why,
        ready=len(known.ready()), min_replicas=rule.min_replicas,
        max_replicas=rule.max_replicas, scaler=rule.scaler, rate=round(load.arrivals, 3),
        in_flight=round(load.in_flight, 3), queued=load.queued, capacity=round(load.capacity, 3), slo_s=service.slo_s,
        waiting_for=found.why_waiting, held_by=found.held_by, models=list(service.models),
        failing=known.failing(), failed=known.has_failed(), watched=watched,
        history=_history(known) if history else [],
        pools=explain_pools(known.replicas[found.waiting[0]]) if found.waiting else [],
        replicas=[_replica(known, each, renumber) for each in known.replicas.values()],
    )  # fmt: skip


def _history(known: ServiceState) -> list[RevisionView]:
    """Return the versions of a service, the newest first."""
    rollout = known.rollout
    outcome = "live" if rollout.ready_at is not None else "failed" if known.has_failed() else "starting"
    earlier = [_revision(each.service, each.rollout, _outcome(each.rollout)) for each in reversed(known.revisions)]
    return [_revision(known.service, rollout, outcome), *earlier]


def _outcome(rollout: Rollout) -> str:
    if rollout.ready_at is None:
        return "never ready"
    return "rolled back" if rollout.rolled_back else "replaced"


def _revision(service: Service, rollout: Rollout, outcome: str) -> RevisionView:
    job = service.template
    image = job.task.image if job.task is not None else ""
    line = job.command[-1] if job.command[1:2] == ("-c",) else shlex.join(job.command)
    return RevisionView(
        version=service.version, deployed=iso(rollout.deployed_at), who=rollout.who,
        summary=" ".join(filter(None, (image, line)))[:MAX_SUMMARY_CHARS], outcome=outcome, why=rollout.why,
    )  # fmt: skip


def _replica(known: ServiceState, replica: JobState, renumber: Renumber) -> ReplicaView:
    made_for = replica.job.replica
    assert made_for is not None
    if replica.draining_since is not None:
        status = "draining"
    elif replica.unreachable:
        status = "unreachable"
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
