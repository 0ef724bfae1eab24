"""To the scheduler itself: pause, drain, policy, doctor, shutdown ... Who asked is journalled with what comes of it."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Final, NamedTuple

from weft.errors import InputError, UnknownName
from weft.model import AdminAction, Cancelled, Event, Paused, Resumed, Wake
from weft.model.status import Reason
from weft.server.admin import drain, reconfigure
from weft.server.admin.guarantees import ADVISORY, ENFORCED
from weft.server.auth.identity import Caller
from weft.server.backends.base import Kill
from weft.server.controller import Controller
from weft.server.pause_reasons import CLOSING, POLICY_FAILED
from weft.wire.views.base import Answer
from weft.wire.views.doctor import JobCountsView, JournalView, SchedulerView
from weft.wire.views.operations import (
    DrainedView,
    DumpView,
    IntervalView,
    PassView,
    PausedView,
    PolicyView,
    SetView,
    ShutdownView,
)

LONGEST: Final = 4096
KILL_S: Final = 10.0
"""How long killed runs may take to be gone."""


class Asked(NamedTuple):
    """By whom, and what."""

    controller: Controller
    who: Caller
    verb: str
    options: Mapping[str, str]

    async def journal(self, make: Callable[[float], Sequence[Event]]) -> None:
        """Who asked, and what comes of it."""
        controller, asked = self.controller, (self.who.user, self.verb, tuple(sorted(self.options.items())))
        await controller.loop.call(lambda now: ([AdminAction(now, *asked), *make(now)], None))


async def operate(controller: Controller, verb: str, options: Mapping[str, str], who: Caller) -> Answer:
    if verb not in VERBS:
        raise UnknownName("operation", verb, VERBS)
    if any(len(text) > LONGEST for each in options.items() for text in each):
        raise InputError(f"{verb}: more than {LONGEST:,} characters")
    return await VERBS[verb](Asked(controller, who, verb, options))


async def _pause(asked: Asked) -> PausedView:
    await asked.journal(lambda now: [Paused(now)])
    return PausedView(paused=True)


async def _resume(asked: Asked) -> PausedView:
    asked.controller.retry_policy()
    await asked.journal(lambda now: [Resumed(now, why) for why in (Reason.PAUSED, POLICY_FAILED, CLOSING)])
    return PausedView(paused=False)


async def _drain(asked: Asked) -> DrainedView:
    """Nobody new comes to GPUs or nodes; with `off`, they do again."""
    controller, undo = asked.controller, "off" in asked.options or asked.verb in ("undrain", "uncordon")
    slots = drain.targets(controller, asked.options.get("gpus", ""))
    who = asked.who.user
    await asked.journal(lambda now: drain.undrain(controller, slots, now) if undo else drain.drain(slots, now, who))
    first, gpus = slots[0]
    there = gpus or range(len(controller.scheduler.state.resources.by_id[first].node.gpus))
    numbers = [controller.inventory.numbers.number(first, gpu) for gpu in there]
    return DrainedView(node=first, gpus=numbers, places=drain.said(controller, slots), drained=not undo)


async def _policy(asked: Asked) -> PolicyView:
    found = reconfigure.policy(asked.controller, asked.options)
    if asked.options.get("policy"):
        await asked.journal(lambda now: [Resumed(now, POLICY_FAILED)])
    return found


async def _interval(asked: Asked) -> IntervalView:
    found = reconfigure.interval(asked.controller, asked.options)
    await asked.journal(lambda _: ())
    return found


async def _pass(asked: Asked) -> PassView:
    """Looks at everything at once, also where it plans at intervals."""
    asked.controller.scheduler.plan_at_once()
    before = set(asked.controller.scheduler.state.active)
    await asked.journal(lambda now: [Wake(now)])
    return PassView(started=[job for job in asked.controller.scheduler.state.active if job not in before])


async def _set(asked: Asked) -> SetView:
    found: list[SetView] = []

    def make(now: float) -> Sequence[Event]:
        events, answer = reconfigure.set_job(asked.controller, asked.options, now, asked.who)
        found[:] = [answer]
        return events

    await asked.journal(make)
    return found[0]


async def _dump(asked: Asked) -> DumpView:
    return reconfigure.dump(asked.controller, asked.options)


async def _doctor(asked: Asked) -> SchedulerView:
    """Safe to paste: no environment, no command, no name of a job."""
    controller = asked.controller
    state, summary = controller.scheduler.state, controller.inventory.summary()
    return SchedulerView(
        pid=os.getpid(),
        version=version("weft"),
        python=platform.python_version(),
        platform=platform.platform(),
        versions={name: version(name) for name in ("grpcio", "protobuf")} | {"sqlite": sqlite3.sqlite_version},
        policy=controller.policy,
        paused_for=dict(state.paused),
        node=summary.node,
        nodes=summary.nodes,
        gpus=summary.gpus,
        gpus_from=summary.gpus_from,
        driver=summary.driver,
        cpus=summary.cpus,
        ram_mb=summary.ram_mb,
        lease_s=summary.lease_s,
        beat_s=summary.beat_s,
        state_dir=str(controller.paths.state),
        runtime_dir=str(controller.paths.runtime),
        journal=JournalView(facts=len(controller.journal), bytes=controller.journal.check(0.0).size_bytes),
        jobs=JobCountsView(running=len(state.active), waiting=len(state.waiting), ended=len(state.ended)),
        enforced=list(ENFORCED),
        advisory=list(ADVISORY),
        idle_s=controller.settings.idle_s,
    )


async def _shutdown(asked: Asked) -> ShutdownView:
    """Jobs go on, unless they are to stop."""
    controller, jobs = asked.controller, asked.options.get("jobs", "keep")
    if jobs not in ("keep", "stop"):
        raise InputError(f"shutdown: jobs is {jobs[:40]!r}", hint="keep or stop")
    runs = len(controller.scheduler.state.active)
    await asked.journal(lambda _: ())
    if "kill" in asked.options or jobs == "stop":
        await _kill(controller)
    controller.stop()
    return ShutdownView(pid=os.getpid(), running=runs)


async def _kill(controller: Controller) -> None:
    """Cancels what runs, without grace: it does not come back with the next scheduler."""

    def make(now: float) -> tuple[list[Event], None]:
        return [
            Paused(now, CLOSING, "the scheduler ends"),
            *(Cancelled(now, job) for job in controller.scheduler.state.active),
        ], None

    await controller.loop.call(make)
    for job in list(controller.scheduler.state.active.values()):
        controller.backend.execute(Kill(job.id, job.run))
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_S), controller.loop.changed:
            await controller.loop.changed.wait_for(lambda: not controller.scheduler.state.active)


VERBS: Final[dict[str, Callable[[Asked], Awaitable[Answer]]]] = {
    "pause": _pause, "resume": _resume, "drain": _drain, "undrain": _drain, "cordon": _drain, "uncordon": _drain,
    "policy": _policy, "interval": _interval, "pass": _pass, "set": _set, "dump": _dump, "doctor": _doctor,
    "shutdown": _shutdown,
}  # fmt: skip
