"""The keeper of pools: observes the providers, decides by the rules, journals, and only then calls a provider.

A request is journalled under a key that is part of its name at the provider. After a crash between the two, the next
observation finds it by that name, or shows that it was never made.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from weft.access.auth.identity import owner
from weft.access.auth.tokens import Tokens
from weft.access.endpoints.paths import make_private
from weft.access.endpoints.private_files import write_private
from weft.errors import WeftError
from weft.model import (
    AllocationEnded,
    AllocationGranted,
    AllocationReleased,
    AllocationRequested,
    Cordoned,
    Event,
    NodeEndChanged,
    PoolPaused,
    Seconds,
    Uncordoned,
)
from weft.model.pool import END_MARGIN_S, Allocation, Pool
from weft.model.status import Reason
from weft.node.engine.background import TaskSet
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.pools import PoolState
from weft.scheduling.core.state.state import State
from weft.server.loop import Loop
from weft.server.pools.demand import Fits, measure_demand
from weft.server.pools.memory import PoolMemory
from weft.server.pools.pilot import CREDENTIALS
from weft.server.pools.provider import MAX_LOG_CHARS, AllocationSpec, AllocationStatus, Provider, ProviderError, Site
from weft.server.pools.providers import open_provider
from weft.server.pools.rules import Pause, Release, Request, plan

T = TypeVar("T")
TURN_S: Final = 1.0
OBSERVE_S: Final = 2.0
"""The period of observations while allocations come or go."""
OBSERVE_SETTLED_S: Final = 30.0
"""The period of observations while nothing changes."""
REQUEST_SPACING_S: Final = 0.3
"""The least time between two requests of a pool."""
RELEASE_RETRY_S: Final = 15.0
END_CHANGE_S: Final = 30.0
"""An allocation ends at another time than its worker said if the two differ by more than this."""
ENDING: Final = Reason.ALLOCATION_ENDING
ProviderCall = tuple[AllocationSpec, Request | Release, str]
"""A call of a provider that follows from journalled events, and the provider's id of an allocation to give back."""
log = logging.getLogger(__name__)


class PoolKeeper:
    """Grows and shrinks the pools of one scheduler. It does nothing before `open`."""

    def __init__(self, loop: Loop, scheduler: Callable[[], Scheduler], folder: Path) -> None:
        self._loop, self._scheduler, self._folder = loop, scheduler, folder
        self.site: Site | None = None
        self._tokens: Tokens | None = None
        self._ca: bytes | None = None
        self.memories: dict[str, PoolMemory] = {}
        self._providers: dict[str, tuple[Pool, Provider]] = {}
        self.fits = Fits()
        self._tasks = TaskSet()
        self._released_at: dict[str, Seconds] = {}

    @property
    def scheduler(self) -> Scheduler:
        return self._scheduler()

    @property
    def state(self) -> State:
        return self._scheduler().state

    @property
    def is_open(self) -> bool:
        """True in a cluster: only its workers can come from elsewhere."""
        return self.site is not None

    def open(self, site: Site, tokens: Tokens, ca: bytes | None) -> None:
        self.site, self._tokens, self._ca = site, tokens, ca
        for pool in self.state.pools.by_name.values():
            self.prepare(pool.pool)
        self._tasks.every(TURN_S, self.turn, "keeping the pools")

    async def close(self) -> None:
        """Leave the allocations alone: the next server finds them again."""
        await self._tasks.close()

    # ---- pools

    def memory(self, name: str) -> PoolMemory:
        return self.memories.setdefault(name, PoolMemory())

    def folder_of(self, pool: Pool) -> Path:
        """Return the folder of a pool, which its nodes share."""
        return Path(pool.setting("folder") or self._folder / "pools" / pool.name)

    def provider(self, pool: Pool) -> Provider:
        known = self._providers.get(pool.name)
        if known is None or known[0].settings != pool.settings:
            assert self.site is not None
            known = self._providers[pool.name] = pool, open_provider(pool, self.site)
        return known[1]

    def spec(self, pool: Pool, key: str, slot: str) -> AllocationSpec:
        assert self.site is not None
        return AllocationSpec(key, slot, pool, self.site, str(self.folder_of(pool)))

    async def off_loop(self, work: Callable[[T], None], about: T) -> None:
        """Call a method that changes tokens, in a thread if they are in a database: it may be slow."""
        if self._tokens is not None and self._tokens.is_remote:
            await asyncio.to_thread(work, about)
        else:
            work(about)

    def prepare(self, pool: Pool) -> None:
        """Create the folder of a pool with the token of its workers, unless it has one."""
        assert self._tokens is not None
        folder = self.folder_of(pool) / CREDENTIALS
        for each in (folder, self.folder_of(pool) / "logs", self.folder_of(pool) / "workers"):
            make_private(each)
        if self._ca is not None:
            write_private(folder / "ca.pem", self._ca)
        path = folder / "worker-token"
        try:
            self._tokens.verify(path.read_text().strip())
        except (OSError, WeftError):
            write_private(path, f"{self._tokens.issue_pool_token(pool.name, owner().user)}\n".encode())

    def dispose(self, pool: Pool) -> None:
        """Revoke the token of a pool that is gone."""
        assert self._tokens is not None
        self._tokens.revoke_pool_tokens(pool.name)
        (self.folder_of(pool) / CREDENTIALS / "worker-token").unlink(missing_ok=True)
        self._providers.pop(pool.name, None)
        self.memories.pop(pool.name, None)

    def dispose_removed(self, pool: Pool) -> None:
        """Clean up after a pool that had no allocations when it was removed."""
        if pool.name not in self.state.pools.by_name:
            self.dispose(pool)

    def example(self, pool: Pool) -> AllocationSpec:
        """Return the spec of an allocation, for checks and for readers."""
        return self.spec(pool, f"{pool.name}-0-example", f"{pool.name}-0")

    def call_request(self, name: str, key: str) -> None:
        """Ask the provider for an allocation that an admin requested."""
        pool = self.state.pools.by_name[name]
        spec = self.spec(pool.pool, key, pool.allocations[key].slot)
        self._tasks.spawn(self._call(spec, Request(spec.slot), ""))

    # ---- one turn

    async def turn(self) -> None:
        pools = list(self.state.pools.by_name.values())
        if not pools:
            return
        now = self._loop.clock.now()
        for pool in pools:
            if self._is_due(pool, now):
                self.memory(pool.pool.name).observed_at = now
                self._tasks.spawn(self._observe(pool.pool))
        for spec, action, id in await self._loop.call(self._decide):
            self._tasks.spawn(self._call(spec, action, id))

    def _is_due(self, pool: PoolState, now: Seconds) -> bool:
        memory = self.memory(pool.pool.name)
        if not pool.allocations or memory.observing:
            return False
        period_s = OBSERVE_SETTLED_S if memory.is_settled and not memory.error else OBSERVE_S
        return now - memory.observed_at >= period_s

    async def _observe(self, pool: Pool) -> None:
        """Ask the provider, and journal which allocations it granted or ended."""
        memory, state = self.memory(pool.name), self.state.pools.by_name.get(pool.name)
        if state is None:
            return
        # what is requested meanwhile may or may not be in the answer
        settled = [each for each in state.allocations.values() if each.key not in memory.calling]
        now = self._loop.clock.now()
        memory.observing = True
        try:
            found = await asyncio.to_thread(self.provider(pool).observe)
        except (ProviderError, OSError) as error:
            if not memory.error:
                memory.error_since = now
                log.warning("pool %s: %s", pool.name, error)
            memory.error = str(error).partition("\n")[0]
            return
        finally:
            memory.observing = False
        memory.error = ""
        by_key = {status.key: status for status in found}
        for each in settled:
            status = by_key.get(each.key)
            memory.of(each.key, now).status = status
            if status is not None and not each.id:
                self._loop.post(partial(_granted, pool.name, each.key, status.id))
            if status is None or status.phase == "ended":
                await self._end(pool, each, status)
            elif status.ends_at is not None and each.joined_at is not None:
                self._loop.post(partial(self._follow_end, pool, each.slot, status.ends_at))

    def _follow_end(self, pool: Pool, slot: str, ends_at: float, now: Seconds) -> list[Event]:
        """Return the new end of a node, if the site has changed the time limit of its allocation."""
        host = self.state.resources.by_id.get(slot)
        until = float(int(ends_at - pool.leave_grace_s - END_MARGIN_S))
        if host is None or not host.alive or until <= now:
            return []
        if host.node.until is not None and abs(host.node.until - until) <= END_CHANGE_S:
            return []
        log.info("pool %s: the allocation of %s ends at another time now", pool.name, slot)
        return [NodeEndChanged(now, slot, until)]

    async def _end(self, pool: Pool, allocation: Allocation, status: AllocationStatus | None) -> None:
        memory = self.memory(pool.name)
        known = memory.of(allocation.key, self._loop.clock.now())
        how = status.how if status is not None else "gone" if allocation.id else "never requested"
        failed = memory.has_failed(allocation, self._loop.clock.now())
        if status is None and not allocation.id:  # a crash came before the request, or the provider refused it
            failed = bool(known.error)
        detail = known.error
        if failed and status is not None:
            spec = self.spec(pool, allocation.key, allocation.slot)
            try:
                detail = await asyncio.to_thread(self.provider(pool).log, spec, status.id)
            except (ProviderError, OSError) as error:
                detail = f"its log cannot be read: {error}"

        def make(now: Seconds) -> list[Event]:
            state = self.state.pools.by_name.get(pool.name)
            if state is None or allocation.key not in state.allocations:
                return []
            ended = AllocationEnded(now, pool.name, allocation.key, how, failed, detail[-MAX_LOG_CHARS:])
            opened = (
                [Uncordoned(now, allocation.slot, ENDING)] if (allocation.slot, ENDING) in self.state.closed else []
            )
            return [ended, *opened]

        log.info("pool %s: allocation %s has ended (%s)", pool.name, allocation.key, how)
        await self._loop.call(lambda now: (make(now), None))
        if pool.name not in self.state.pools.by_name:
            await self.off_loop(self.dispose, pool)

    # ---- decisions

    def _decide(self, now: Seconds) -> tuple[list[Event], list[ProviderCall]]:
        """Return what the rules ask for, as events and as calls of providers."""
        scheduler, state = self.scheduler, self.state
        coming = {}
        for name, pool in state.pools.by_name.items():
            memory = self.memory(name)
            memory.forget_others(pool.allocations)
            memory.update(pool, state, now)
            coming[name] = memory.coming(pool)
        demands = measure_demand(state, scheduler.placement, scheduler.allowed_in_order(), coming, self.fits)
        events: list[Event] = []
        calls: list[ProviderCall] = []
        for name, pool in state.pools.by_name.items():
            memory = self.memory(name)
            for action in plan(memory.situation(pool, state, demands[name], now)):
                if isinstance(action, Pause):
                    events.append(PoolPaused(now, name, action.why, f"{action.detail}: {pool.failure}"))
                elif memory.error:
                    continue  # nothing is asked or given up while the provider cannot be reached
                elif isinstance(action, Request):
                    key = new_key(action.slot, now)
                    memory.calling.add(key)
                    events.append(AllocationRequested(now, name, key, action.slot))
                    calls.append((self.spec(pool.pool, key, action.slot), action, ""))
                else:
                    each = pool.allocations[action.key]
                    events += self._release(pool, each, action.why, now)
                    if each.id and each.key not in memory.calling:
                        calls.append(self._release_call(pool.pool, each, action.why, now))
            for each in pool.allocations.values():
                calls += self._due_release(pool, each, now)
        return events, calls

    def _release(self, pool: PoolState, each: Allocation, why: str, now: Seconds) -> list[Event]:
        events: list[Event] = [AllocationReleased(now, pool.pool.name, each.key, why)]
        host = self.state.resources.by_id.get(each.slot)
        if host is not None and host.alive:  # nothing starts on it from now on
            events.append(Cordoned(now, each.slot, ENDING, why))
        return events

    def _due_release(self, pool: PoolState, each: Allocation, now: Seconds) -> list[ProviderCall]:
        """Give back again what the provider has not ended: the call was lost, or a crash came before it."""
        if not (each.release and each.id) or each.key in self.memory(pool.pool.name).calling:
            return []
        if now - self._released_at.get(each.key, float("-inf")) < RELEASE_RETRY_S:
            return []
        return [self._release_call(pool.pool, each, each.release, now)]

    def _release_call(self, pool: Pool, each: Allocation, why: str, now: Seconds) -> ProviderCall:
        self.memory(pool.name).calling.add(each.key)
        self._released_at[each.key] = now
        return self.spec(pool, each.key, each.slot), Release(each.key, why), each.id

    # ---- calls of providers

    async def _call(self, spec: AllocationSpec, action: Request | Release, id: str) -> None:
        memory = self.memory(spec.pool.name)
        try:
            if isinstance(action, Request):
                await self._request(spec, memory)
            else:
                log.info("pool %s: giving %s back (%s)", spec.pool.name, spec.key, action.why)
                await asyncio.to_thread(self.provider(spec.pool).release, id)
        except (WeftError, OSError) as error:
            log.warning("pool %s: %s", spec.pool.name, error)
            memory.of(spec.key, self._loop.clock.now()).error = str(error)
        finally:
            memory.calling.discard(spec.key)
            memory.observed_at = float("-inf")

    async def _request(self, spec: AllocationSpec, memory: PoolMemory) -> None:
        async with memory.spacing:
            id = await asyncio.to_thread(self.provider(spec.pool).request, spec)
            await self._loop.call(lambda now: ([AllocationGranted(now, spec.pool.name, spec.key, id)], None))
            log.info("pool %s: asked for %s, id %s", spec.pool.name, spec.key, id)
            await asyncio.sleep(REQUEST_SPACING_S)


def _granted(pool: str, key: str, id: str, at: Seconds) -> list[Event]:
    return [AllocationGranted(at, pool, key, id)]


def new_key(slot: str, now: Seconds) -> str:
    """Return the name of a new allocation: its slot, and a number that rises."""
    return f"{slot}-{_base36(int(now * 1000))}"


def _base36(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[rest] + digits
    return digits
