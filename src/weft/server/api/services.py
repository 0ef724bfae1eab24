"""Answers about services: their replicas, their load and what they wait for."""

from __future__ import annotations

from weft.model import Seconds
from weft.scheduling.core.state.job import JobState
from weft.server.controller import Controller
from weft.server.pools.views import explain_pools
from weft.views.answers.services import ServiceView
from weft.views.from_state.services import service_view


def service_views(controller: Controller, now: Seconds, only: str = "") -> list[ServiceView]:
    """Return all services, by name, or the one of this name with its history."""
    scheduler, live, renumber = controller.scheduler, controller.services, controller.inventory.numbers.renumbered

    def pools_for(replica: JobState) -> list[str]:
        return [each.text for each in explain_pools(controller.pools, replica, now)]

    return [
        service_view(
            scheduler, name, now, live.autoscaling.figures(name), live.url(name), renumber, pools_for,
            watched=live.autoscaling.judge(known, now)[0], history=bool(only),
        )
        for name, known in sorted(scheduler.state.services.by_name.items())
        if only in ("", name)
    ]  # fmt: skip
