"""Answers about the future: they wait for the process that makes forecasts, never in the way of the loop."""

from __future__ import annotations

from typing import Any, Final

from weft.access.auth.identity import Caller
from weft.access.wire import messages as m
from weft.errors import InputError, NotPermitted
from weft.model.status import ENDED
from weft.scheduling.plugins.registry import is_file
from weft.server.controller import Controller
from weft.server.forecasts.keeper import ForecastTable
from weft.server.forecasts.views import forecast_view, what_if_view
from weft.server.jobs.job_refs import JobRefs
from weft.views.answers.base import replace_fields
from weft.views.answers.explain import ExplainView
from weft.views.answers.forecasts import WhatIfView

MAX_NODES: Final = 1000
MAX_NODE_GPUS: Final = 1024
MAX_PRIORITY: Final = 10**9


async def latest_table(controller: Controller) -> ForecastTable | None:
    """Return a fresh forecast of all jobs."""
    last = next(reversed(controller.scheduler.state.jobs.values()), None)
    needed = {last.id: last.submitted_at} if last is not None and last.job.replica is None else {}
    return await controller.forecasts.table(needed)


async def with_forecast(controller: Controller, found: ExplainView) -> ExplainView:
    """Return the explanation of a job with its forecast, unless the job has ended."""
    job = controller.scheduler.state.jobs.get(found.job)
    if job is None or job.status in ENDED:
        return found
    table = None
    if job.job.replica is None:
        table = await controller.forecasts.table({job.id: job.waiting_since})
    view = forecast_view(job, controller.scheduler.state, table, controller.forecasts.failure)
    return replace_fields(found, forecast=view)


async def what_if(controller: Controller, request: m.WhatIfRequest, who: Caller) -> WhatIfView:
    """Compare the present queue with the queue under a change. Nothing changes."""
    change = _change(controller, request, who)
    found = await controller.forecasts.what_if(change)
    return what_if_view(found, request.policy or controller.policy)


def _change(controller: Controller, request: m.WhatIfRequest, who: Caller) -> dict[str, Any]:
    state = controller.scheduler.state
    if who.role != "admin" and is_file(request.policy):
        raise NotPermitted("a policy in a file is for admins\n  name one of weft policies")
    if len(request.add_nodes) > MAX_NODES or any(not 1 <= gpus <= MAX_NODE_GPUS for gpus in request.add_nodes):
        raise InputError(
            f"at most {MAX_NODES:,} nodes of 1 to {MAX_NODE_GPUS:,} GPUs can be added", key="add_nodes",
            hint="such as --add-node 8",
        )  # fmt: skip
    refs = JobRefs(state, who.user)
    priorities = {refs.one(each.name): _priority(each.value) for each in request.priorities}
    change = {
        "policy": request.policy, "add_nodes": list(request.add_nodes),
        "cancel": refs.all(request.cancel), "priorities": priorities,
    }  # fmt: skip
    if not any(change.values()):
        raise InputError("nothing changes", hint="give --policy, --add-node, --cancel or --priority")
    return change


def _priority(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = MAX_PRIORITY + 1
    if abs(value) > MAX_PRIORITY:
        raise InputError(f"{text[:40]!r} is no priority", key="priority", hint="such as --priority 7=10")
    return value
