"""Answers about services: their replicas, their load and what they wait for."""

from __future__ import annotations

from weft.model import Seconds
from weft.server.controller import Controller
from weft.server.services.views import service_view
from weft.wire.views.services import ServiceView


def service_views(controller: Controller, now: Seconds) -> list[ServiceView]:
    """Return all services, by name."""
    scheduler, live, renumber = controller.scheduler, controller.services, controller.inventory.numbers.renumbered
    return [
        service_view(scheduler, name, now, live.autoscaling.figures(name), live.url(name), renumber)
        for name in sorted(scheduler.state.services.by_name)
    ]
