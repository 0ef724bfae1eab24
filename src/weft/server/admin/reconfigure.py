"""How a scheduler that runs is made another: its policy, its rounds, one job's priority; and all that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from weft.errors import InputError
from weft.server.api.rows import brief_reason, detail, first_in_line, gpu_rows, iso, node_rows
from weft.server.auth.identity import Caller
from weft.server.settings import changed
from weft.wire.messages import ChangeRequest, Variable

if TYPE_CHECKING:
    from weft.model import Event
    from weft.server.controller import Running


def policy(running: Running, options: Mapping[str, str]) -> dict[str, Any]:
    """Another policy, or other options of it, from now on; what runs stays unless the new one preempts it."""
    if not options.get("policy"):
        return {"policy": running.policy, "placement": running.settings.placement}
    running.change(changed(running.settings, policy=options["policy"], placement=options.get("placement", "")))
    return {"policy": running.policy, "placement": running.settings.placement}


def interval(running: Running, options: Mapping[str, str]) -> dict[str, Any]:
    text = options.get("seconds", "")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise InputError(
            f"{text[:40]!r} is no interval", hint="seconds from 0.1 to 86,400; 0: whenever something happens"
        )
    running.change(changed(running.settings, interval_s=seconds))
    return {"interval_s": seconds}


def set_job(
    running: Running, options: Mapping[str, str], now: float, who: Caller
) -> tuple[list[Event], dict[str, Any]]:
    """The same as `weft set`."""
    settings = [Variable(name=key, value=value) for key, value in options.items() if key != "job"]
    if not options.get("job") or not settings:
        raise InputError("set what of which job?", hint="such as: weft operate set 7 priority=10")
    request = ChangeRequest(verb="set", jobs=[options["job"]], settings=settings)
    events, reply = running.desk.change(request, now, who)
    refused = [{"id": each.name, "why": each.value} for each in reply.refused]
    return events, {"changed": list(reply.ids), "refused": refused}


def dump(running: Running, options: Mapping[str, str]) -> dict[str, Any]:
    """The state: nodes, GPUs, jobs that have not ended (with `all`, those too), and what keeps things from starting."""
    state, now = running.scheduler.state, running.loop.clock.now()
    jobs = [job for job in state.jobs.values() if "all" in options or job.ended_at is None]
    first = first_in_line(running.scheduler)
    numbers = running.inventory.numbers
    found: dict[str, Any] = {
        "now": iso(now),
        "position": len(running.journal),
        "policy": running.policy,
        "settings": asdict(running.settings),
        "paused_for": dict(state.paused),
        "closed": [{"node": node, "reason": why, "detail": each.detail} for (node, why), each in state.closed.items()],
        "nodes": node_rows(state, running.inventory.nodes()),
        "gpus": gpu_rows(state, running.inventory.readings()),
        "jobs": [
            {
                **detail(job, now, brief_reason(running.scheduler, job, first), running.progress_of(job)),
                "last_gpus": numbers.numbers(job.placed),
            }
            for job in jobs
        ],
    }
    return numbers.shown(found)
