"""Operations on the scheduler itself: pause, drain, policy, doctor, shutdown. The user is journalled with each."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from typing import Final, NamedTuple

from weft.access.auth.identity import Caller
from weft.access.server.guarantees import ADVISORY, ENFORCED
from weft.errors import InputError, UnknownName
from weft.history.journal import store_at
from weft.history.journal.marker import backup_time
from weft.model import AdminAction, Cancelled, Event, GroupLimited, Paused, Resumed, Undeployed, Wake
from weft.model.status import Reason
from weft.model.team import TeamEvent
from weft.server.admin import containers, drain, pools, reconfigure, teams
from weft.server.admin.profiles import store_profile
from weft.server.backends.base import Kill
from weft.server.controller import Controller
from weft.server.jobs import groups
from weft.server.pause_reasons import CLOSING, POLICY_FAILED, RECOVERING
from weft.server.pools.views import pool_problems
from weft.views.answers.base import Answer, replace_fields
from weft.views.answers.doctor import JobCountsView, JournalView, SchedulerView
from weft.views.answers.groups import GroupSettingsView
from weft.views.answers.notify import NotifyTestView, TargetsView
from weft.views.answers.operations import (
    DrainedView,
    DumpView,
    IntervalView,
    PassView,
    PausedView,
    PolicyView,
    SetView,
    ShutdownView,
)
from weft.views.answers.pools import PoolAnswer, PoolScriptView
from weft.views.answers.profiles import StoredProfileView
from weft.views.answers.teams import TeamsChangedView

MAX_OPTION_CHARS: Final = 4096
CHECK_S: Final = 2.0
"""The most seconds for a check of the journal, next to the work of the server."""
KILL_TIMEOUT_S: Final = 10.0
"""The most seconds to wait for killed runs to end."""


class AdminRequest(NamedTuple):
    """An operation, its options and the user who asked for it."""

    controller: Controller
    who: Caller
    verb: str
    options: Mapping[str, str]

    async def journal(self, make: Callable[[float], Sequence[Event]]) -> None:
        """Journal the request and the events that it leads to."""
        user_and_options = (self.who.user, self.verb, tuple(sorted(self.options.items())))
        await self.controller.loop.call(lambda now: ([AdminAction(now, *user_and_options), *make(now)], None))


async def operate(controller: Controller, verb: str, options: Mapping[str, str], who: Caller) -> Answer:
    if verb not in VERBS:
        raise UnknownName("operation", verb, VERBS)
    if any(len(text) > MAX_OPTION_CHARS for each in options.items() for text in each):
        raise InputError(f"{verb}: an option has more than {MAX_OPTION_CHARS:,} characters")
    return await VERBS[verb](AdminRequest(controller, who, verb, options))


async def _group(request: AdminRequest) -> GroupSettingsView:
    """Limit, pause or resume one group."""
    found: list[GroupLimited] = []

    def make(now: float) -> Sequence[Event]:
        state = request.controller.scheduler.state
        groups.check_may_limit(state, request.options.get("group", ""), request.who)
        found[:] = [groups.event_of(state, request.verb, request.options, now)]
        return found

    if request.options.get("notify", "none") != "none":
        request.controller.notifications.check(request.options["notify"])
    await request.journal(make)
    event = found[0]
    return GroupSettingsView(group=event.group, jobs=event.jobs, paused=event.paused, notify=event.notify or None)


async def _team(request: AdminRequest) -> TeamsChangedView:
    """Add, change or remove teams."""
    state = request.controller.scheduler.state
    found: list[TeamEvent] = []

    def make(now: float) -> Sequence[Event]:
        found[:] = teams.events_of(state, request.verb, request.options, now)
        return found

    await request.journal(make)
    return teams.changes_view(state, found)


async def _pause(request: AdminRequest) -> PausedView | GroupSettingsView:
    if "group" in request.options:
        return await _group(request)
    await request.journal(lambda now: [Paused(now)])
    return PausedView(paused=True)


async def _resume(request: AdminRequest) -> PausedView | GroupSettingsView:
    if "group" in request.options:
        return await _group(request)
    await request.controller.retry_policy()
    await request.journal(
        lambda now: [Resumed(now, why) for why in (Reason.PAUSED, POLICY_FAILED, CLOSING, RECOVERING)]
    )
    return PausedView(paused=False)


async def _drain(request: AdminRequest) -> DrainedView:
    """Drain GPUs or nodes; with `off`, undo it; with `move`, also move the runs that are there."""
    controller, undo = request.controller, "off" in request.options or request.verb in ("undrain", "uncordon")
    slots = drain.parse_targets(controller, request.options.get("gpus", ""))
    who, moves = request.who.user, "move" in request.options and not undo
    moved: list[str] = []

    def make(now: float) -> list[Event]:
        if undo:
            return drain.undrain(controller, slots, now)
        evicted = drain.evict(controller, slots, now) if moves else []
        moved[:] = [event.job for event in evicted]
        return [*drain.drain(slots, now, who), *evicted]

    await request.journal(make)
    first, gpus = slots[0]
    there = gpus or range(len(controller.scheduler.state.resources.by_id[first].node.gpus))
    numbers = [controller.inventory.numbers.number(first, gpu) for gpu in there]
    return DrainedView(
        node=first,
        gpus=numbers,
        places=drain.describe(controller, slots),
        drained=not undo,
        moved=moved if moves else None,
    )


async def _policy(request: AdminRequest) -> PolicyView:
    found = await reconfigure.policy(request.controller, request.options)
    if request.options.get("policy"):
        await request.journal(lambda now: [Resumed(now, POLICY_FAILED)])
    return found


async def _interval(request: AdminRequest) -> IntervalView:
    found = await reconfigure.interval(request.controller, request.options)
    await request.journal(lambda _: ())
    return found


async def _pass(request: AdminRequest) -> PassView:
    """Plan at once, even if the scheduler plans at intervals."""
    request.controller.scheduler.plan_at_once()
    before = set(request.controller.scheduler.state.active)
    await request.journal(lambda now: [Wake(now)])
    return PassView(started=[job for job in request.controller.scheduler.state.active if job not in before])


async def _set(request: AdminRequest) -> SetView:
    found: list[SetView] = []

    def make(now: float) -> Sequence[Event]:
        events, answer = reconfigure.set_job(request.controller, request.options, now, request.who)
        found[:] = [answer]
        return events

    await request.journal(make)
    return found[0]


async def _profile(request: AdminRequest) -> StoredProfileView:
    """Store the profile of a job that recorded its stages. Every user may do that for their own jobs."""

    def make(now: float) -> tuple[list[Event], StoredProfileView]:
        return store_profile(request.controller, request.options, now, request.who)

    stored: StoredProfileView = await request.controller.loop.call(make)
    return stored


async def _pool(request: AdminRequest) -> PoolAnswer:
    """Add, change, pause, resume, remove or try a pool."""
    keeper, options = pools.open_keeper(request.controller), dict(request.options)
    name, verb = options.pop("pool", ""), request.verb.removeprefix("pool-")
    checks = options.pop("check", "on") == "on"
    key = ""
    if verb == "add":
        made = pools.pool_of(name, options.pop("provider", ""), options)
        pools.add(keeper, made, 0.0)
        if checks:
            await pools.check(keeper, made)
        await keeper.off_loop(keeper.prepare, made)

    def make(now: float) -> Sequence[Event]:
        nonlocal key
        match verb:
            case "add":
                return pools.add(keeper, made, now)
            case "set":
                return pools.change(keeper, name, options, now)
            case "pause":
                return pools.pause(keeper, name, request.who.user, now)
            case "resume":
                return pools.resume(keeper, name, now)
            case "remove":
                return pools.remove(keeper, name, now, at_once="now" in options)
        events, key = pools.try_out(keeper, name, options.get("done", ""), now)
        return events

    removed = pools.find(keeper, name).pool if verb == "remove" else None
    await request.journal(make)
    if removed is not None:
        await keeper.off_loop(keeper.dispose_removed, removed)
    if verb == "try" and "done" not in options:
        keeper.call_request(name, key)
    return PoolAnswer(pool=name, key=key)


async def _pool_script(request: AdminRequest) -> PoolScriptView:
    keeper = pools.open_keeper(request.controller)
    pool = pools.find(keeper, request.options.get("pool", "")).pool
    return PoolScriptView(pool=pool.name, script=keeper.provider(pool).script(keeper.example(pool)))


async def _notify_list(request: AdminRequest) -> TargetsView:
    return await request.controller.notifications.list_targets(is_admin=request.who.role == "admin")


async def _notify_test(request: AdminRequest) -> NotifyTestView:
    return await request.controller.notifications.test(request.options.get("target", ""), request.who.user)


async def _dump(request: AdminRequest) -> DumpView:
    return reconfigure.dump(request.controller, request.options)


async def _doctor(request: AdminRequest) -> SchedulerView:
    """Describe the server. Safe to paste: no environment, command or name of a job. Its folders are for admins."""
    controller, is_admin = request.controller, request.who.role == "admin"
    state, summary = controller.scheduler.state, controller.inventory.summary()
    journal, database = await _journal_figures(controller, check=is_admin and summary.nodes is not None)
    if database is not None:
        database += await controller.notifications.problems()
    return SchedulerView(
        pid=os.getpid(),
        version=version("weft"),
        python=platform.python_version(),
        platform=platform.platform(),
        versions={name: version(name) for name in ("grpcio", "protobuf")} | {"sqlite": sqlite3.sqlite_version},
        policy=controller.policy,
        paused_for=dict(state.paused),
        recovered=controller.recovery.describe() if controller.recovery is not None else None,
        node=summary.node,
        nodes=summary.nodes,
        gpus=summary.gpus,
        gpus_from=summary.gpus_from,
        driver=summary.driver,
        cpus=summary.cpus,
        ram_mb=summary.ram_mb,
        limits=summary.limits or None,
        shared=summary.shared or None,
        shared_problem=summary.shared_problem or None,
        lease_s=summary.lease_s,
        beat_s=summary.beat_s,
        state_dir=str(controller.paths.state) if is_admin else "",
        runtime_dir=str(controller.paths.runtime) if is_admin else "",
        journal=journal,
        database=database,
        jobs=JobCountsView(running=len(state.active), waiting=len(state.waiting), ended=len(state.ended)),
        enforced=list(ENFORCED),
        advisory=list(ADVISORY),
        idle_s=controller.settings.idle_s,
        min_run_s=controller.settings.min_run_s,
        image_jobs=containers.count(state),
        container_problems=containers.problems(state, controller.loop.clock.now()),
        pools=pool_problems(controller.pools) if state.pools.by_name else None,
        node_problems=summary.problems,
    )


async def _journal_figures(controller: Controller, *, check: bool) -> tuple[JournalView, list[str] | None]:
    """Return the journal, checked if an admin asks, and the problems of its database if it is in one."""
    journal, store = controller.journal, store_at(controller.journal.url)
    health = await asyncio.to_thread(journal.check, CHECK_S if check else 0.0)
    view = JournalView(facts=len(journal), bytes=health.size_bytes)
    if check:
        view = replace_fields(view, check=health.check, backup=await asyncio.to_thread(backup_time, store) or None)
    if not journal.waits:
        return view, None
    from weft.history.journal.postgres.replicas import replica_problems

    return view, await asyncio.to_thread(replica_problems, journal.url)


async def _shutdown(request: AdminRequest) -> ShutdownView:
    """End the server. Jobs keep running unless `jobs=stop` is given."""
    controller, jobs = request.controller, request.options.get("jobs", "keep")
    if jobs not in ("keep", "stop"):
        raise InputError(f"shutdown: jobs is {jobs[:40]!r}", hint="keep or stop")
    runs = len(controller.scheduler.state.active)
    await request.journal(lambda _: ())
    if "kill" in request.options or jobs == "stop":
        await _kill(controller)
    controller.stop()
    return ShutdownView(pid=os.getpid(), running=runs)


async def _kill(controller: Controller) -> None:
    """Cancel all active jobs without grace, so that the next server does not resume them."""

    def make(now: float) -> tuple[list[Event], None]:
        return [
            Paused(now, CLOSING, "the scheduler is shutting down"),
            *(Undeployed(now, name) for name in controller.scheduler.state.services.by_name),
            *(Cancelled(now, job) for job in controller.scheduler.state.active),
        ], None

    await controller.loop.call(make)
    for job in list(controller.scheduler.state.active.values()):
        controller.backend.execute(Kill(job.id, job.run))
    with suppress(TimeoutError):
        async with asyncio.timeout(KILL_TIMEOUT_S), controller.loop.changed:
            await controller.loop.changed.wait_for(lambda: not controller.scheduler.state.active)


VERBS: Final[dict[str, Callable[[AdminRequest], Awaitable[Answer]]]] = {
    "group": _group, "pause": _pause, "resume": _resume, "drain": _drain, "undrain": _drain, "cordon": _drain,
    "uncordon": _drain, "policy": _policy, "interval": _interval, "pass": _pass, "set": _set, "dump": _dump,
    "notify-list": _notify_list, "notify-test": _notify_test,
    "doctor": _doctor, "shutdown": _shutdown, "profile": _profile, "pool-script": _pool_script,
    **dict.fromkeys(("team-add", "team-set", "team-remove", "team-apply"), _team),
    **dict.fromkeys(("pool-add", "pool-set", "pool-pause", "pool-resume", "pool-remove", "pool-try"), _pool),
}  # fmt: skip
