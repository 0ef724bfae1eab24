"""Live reconfiguration (policy, interval, job settings) and the state dump."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from weft.access.auth.identity import Caller
from weft.access.jobspec.description import describe
from weft.access.wire.convert import variables
from weft.access.wire.messages import ChangeRequest
from weft.errors import InputError
from weft.model import Event
from weft.scheduling.core.reasons import WaitReasons
from weft.server.controller import Controller
from weft.server.rpc.answers import rows_of
from weft.views.answers.operations import ClosedView, DumpView, IntervalView, PolicyView, RefusalView, SetView
from weft.views.from_state.jobs_and_nodes import (
    brief_reason,
    first_in_line,
    gpu_views,
    job_detail,
    node_views,
)
from weft.views.from_state.timestamps import iso


async def policy(controller: Controller, options: Mapping[str, str]) -> PolicyView:
    """Change the policy or its options. Runs stay unless the new policy preempts them."""
    if options.get("policy"):
        await controller.apply_settings(policy=options["policy"], placement=options.get("placement", ""))
    return PolicyView(policy=controller.policy, placement=controller.settings.placement)


async def interval(controller: Controller, options: Mapping[str, str]) -> IntervalView:
    text = options.get("seconds", "")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise InputError(
            f"invalid interval {text[:40]!r}", hint="seconds from 0.1 to 86,400; 0: whenever something happens"
        )
    await controller.apply_settings(interval_s=seconds)
    return IntervalView(interval_s=seconds)


def set_job(controller: Controller, options: Mapping[str, str], now: float, who: Caller) -> tuple[list[Event], SetView]:
    """Change the settings of a job, as `weft set` does."""
    settings = variables((key, value) for key, value in options.items() if key != "job")
    if not options.get("job") or not settings:
        raise InputError("no job or no setting is named", hint="such as: weft operate set 7 priority=10")
    request = ChangeRequest(verb="set", jobs=[options["job"]], settings=settings)
    events, reply = controller.commands.change(request, now, who)
    refused = [RefusalView(each.name, each.value) for each in reply.refused]
    return events, SetView(changed=list(reply.ids), refused=refused)


def dump(controller: Controller, options: Mapping[str, str]) -> DumpView:
    """Return the state: nodes, GPUs, jobs that have not ended (with `all`, ended ones too), and what blocks starts."""
    scheduler, now, numbers = controller.scheduler, controller.loop.clock.now(), controller.inventory.numbers
    state, first, reasons = scheduler.state, first_in_line(scheduler), WaitReasons(scheduler, now)
    jobs = [job for job in state.jobs.values() if "all" in options or job.ended_at is None]
    rows = (
        job_detail(job, now, brief_reason(reasons, job, first), controller.progress_of(job), numbers, describe)
        for job in jobs
    )
    return DumpView(
        now=iso(now),
        position=len(controller.journal),
        policy=controller.policy,
        settings=asdict(controller.settings),
        paused_for=dict(state.paused),
        closed=[ClosedView(node, why, each.detail) for (node, why), each in state.closed.items()],
        nodes=node_views(state, controller.inventory.nodes()),
        gpus=gpu_views(state, controller.inventory.readings(), numbers),
        jobs=rows_of(rows, len(jobs)),
    )
