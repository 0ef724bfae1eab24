"""The keeper of pools with a provider that is slow, loses answers, refuses and forgets; and through restarts.

After every step: no allocation at the provider is unknown to the pool, and no more exist than the pool may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from weft.access.auth.tokens import Tokens
from weft.cli.views.live_services import explain_lines
from weft.history.journal.memory import MemoryJournal
from weft.model import (
    AllocationEnded,
    AllocationGranted,
    AllocationRequested,
    Cancelled,
    Deployed,
    Event,
    Job,
    NodeJoined,
    NodeLost,
    Pool,
    PoolAdded,
    PoolRemoved,
    PoolResumed,
    ScaleRule,
    Service,
    Submitted,
    Task,
    Team,
    TeamSet,
)
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.server.loop import Loop
from weft.server.pools import keeper as keeper_module
from weft.server.pools.keeper import PoolKeeper
from weft.server.pools.provider import AllocationSpec, AllocationStatus, ProviderError, Site
from weft.server.pools.views import explain_pools
from weft.server.process.clock import Clock
from weft.views.from_state.measured import NO_LOAD
from weft.views.from_state.services import service_view

POOL = Pool("p", "slurm", 2, 4, 3600.0, idle_s=30.0)
SITE = Site("c", "localhost:1", True, ("weft",))
STEPS = 150


class UnreliableProvider:
    """A Slurm in memory."""

    title = "Slurm"

    def __init__(self, random: Random) -> None:
        self.random, self.jobs, self.count = random, dict[str, AllocationStatus](), 0
        self.loses = self.refuses = self.is_away = 0.0
        """The chances that an answer is lost, a request is refused, and nothing answers."""

    def request(self, allocation: AllocationSpec) -> str:
        if self.random.random() < self.refuses:
            raise ProviderError("sbatch failed: invalid account")
        assert allocation.key not in [job.key for job in self.jobs.values()], "no name is used twice"
        self.count += 1
        self.jobs[str(self.count)] = AllocationStatus(allocation.key, str(self.count), "pending", "PENDING")
        if self.random.random() < self.loses:
            raise ProviderError("sbatch did not answer within 30 s")
        return str(self.count)

    def release(self, id: str) -> None:
        if self.random.random() < self.loses:
            raise ProviderError("scancel did not answer")
        if id in self.jobs:
            self.jobs[id] = replace(self.jobs[id], phase="ended", how="CANCELLED")

    def observe(self) -> Sequence[AllocationStatus]:
        if self.random.random() < self.is_away:
            raise ProviderError("slurmctld does not answer")
        return list(self.jobs.values())

    def check(self, allocation: AllocationSpec) -> None:
        """Accept everything."""

    def script(self, allocation: AllocationSpec) -> str:
        return ""

    def log(self, allocation: AllocationSpec, id: str) -> str:
        return "no such file"

    def live(self) -> dict[str, AllocationStatus]:
        return {job.key: job for job in self.jobs.values() if job.phase != "ended"}


class World:
    """A scheduler with one pool, whose time passes by steps."""

    def __init__(self, folder: Path, provider: UnreliableProvider) -> None:
        self.folder, self.provider, self.seconds, self.jobs = folder, provider, 0.0, 0
        self.journal, self.tokens = MemoryJournal(), Tokens(folder)
        self.clock = Clock(wall=lambda: 1000.0, steady=lambda: self.seconds)
        self.start()

    def start(self) -> None:
        """Start a server on the journal, as after a crash."""
        self.scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        self.scheduler.replay(self.journal.read())
        self.loop = Loop(self.scheduler, self.journal, self.clock, lambda _: None)
        self.loop.open()
        self.keeper = PoolKeeper(self.loop, lambda: self.scheduler, self.folder)
        self.keeper.site, self.keeper._tokens = SITE, self.tokens
        self.keeper._providers["p"] = POOL, self.provider

    async def turn(self, seconds: float = 2.0) -> None:
        self.seconds += seconds
        while self.loop.lag:
            await asyncio.sleep(0)
        await self.keeper.turn()
        while len(self.keeper._tasks):
            await asyncio.sleep(0)

    def post(self, *events: Event) -> None:
        self.loop.post(lambda now: [replace(event, at=now) for event in events])

    @property
    def allocations(self) -> dict[str, str]:
        pool = self.scheduler.state.pools.by_name.get("p")
        return {} if pool is None else {key: each.slot for key, each in pool.allocations.items()}

    def check(self) -> None:
        live = self.provider.live()
        assert set(live) <= set(self.allocations), "an allocation that the pool does not know costs for ever"
        assert len(live) <= POOL.max_nodes
        assert len(set(self.allocations.values())) == len(self.allocations)

    def happen(self, random: Random) -> None:
        """Let jobs come and go, and allocations start, join, leave or fail."""
        state = self.scheduler.state
        if random.random() < 0.3:
            self.jobs += 1
            self.post(Submitted(0.0, Job(str(self.jobs), gpus=random.choice((1, 1, 2, 4)))))
        for job in list(state.jobs.values()):
            if job.status == "waiting" and random.random() < 0.05:
                self.post(Cancelled(0.0, job.id))
        for id, found in list(self.provider.jobs.items()):
            slot = self.allocations.get(found.key, "")
            host = state.resources.by_id.get(slot)
            alive = host is not None and host.alive
            if found.phase == "pending" and random.random() < 0.5:
                self.provider.jobs[id] = replace(found, phase="running", how="RUNNING")
            elif found.phase == "running" and random.random() < 0.1:
                self.provider.jobs[id] = replace(found, phase="ended", how="FAILED")
            elif found.phase == "running" and slot and not alive and random.random() < 0.5:
                self.post(NodeJoined(0.0, POOL.node(slot)))
            elif found.phase == "ended" and alive:
                self.post(NodeLost(0.0, slot))
            elif found.phase == "ended" and random.random() < 0.1:
                del self.provider.jobs[id]  # the provider forgets old jobs
        for host in state.resources.nodes:
            if host.alive and random.random() < 0.1:
                for run in host.runs():
                    self.post(Cancelled(0.0, run.id))  # type: ignore[attr-defined]
        pool = state.pools.by_name.get("p")
        if pool is not None and pool.paused and random.random() < 0.2:
            self.post(PoolResumed(0.0, "p"))


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let requests follow each other without a pause, in the thread of the test."""

    async def call(work: object, *words: object) -> object:
        return work(*words)  # type: ignore[operator]

    monkeypatch.setattr(keeper_module, "REQUEST_SPACING_S", 0.0)
    monkeypatch.setattr(asyncio, "to_thread", call)


@pytest.mark.parametrize("seed", range(8))
def test_no_allocation_is_lost_or_too_many_whatever_the_provider_does(seed: int, tmp_path: Path) -> None:
    async def scenario() -> None:
        random = Random(seed)
        provider = UnreliableProvider(random)
        world = World(tmp_path, provider)
        world.post(PoolAdded(0.0, POOL))
        for step in range(STEPS):
            provider.loses, provider.refuses, provider.is_away = (0.2, 0.1, 0.1) if seed % 2 else (0.05, 0.0, 0.0)
            world.happen(random)
            await world.turn(random.choice((1.0, 2.0, 10.0)))
            if step % 40 == 39:
                world.start()  # the server was killed
            world.check()
        assert provider.count > 10, "allocations came and went"
        provider.loses = provider.refuses = provider.is_away = 0.0
        world.post(PoolRemoved(0.0, "p", now=True))
        for _ in range(60):
            await world.turn(5.0)
            for host in world.scheduler.state.resources.nodes:
                if host.alive:
                    world.post(NodeLost(0.0, host.node.id))
        assert world.scheduler.state.pools.by_name == {}, "a removed pool goes"
        assert provider.live() == {}, "and leaves nothing behind"

    asyncio.run(scenario())


def test_a_request_whose_answer_is_lost_is_found_by_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = UnreliableProvider(Random(1))
        world = World(tmp_path, provider)
        provider.loses = 1.0
        world.post(PoolAdded(0.0, POOL), Submitted(0.0, Job("1")))
        await world.turn()
        provider.loses = 0.0
        await world.turn()
        await world.turn()
        facts = list(world.journal.read())
        (asked,) = [fact for fact in facts if isinstance(fact, AllocationRequested)]
        (granted,) = [fact for fact in facts if isinstance(fact, AllocationGranted)]
        assert (granted.key, granted.id) == (asked.key, "1")
        assert provider.count == 1

    asyncio.run(scenario())


def test_refused_requests_pause_the_pool_with_the_words_of_the_provider(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = UnreliableProvider(Random(1))
        provider.refuses = 1.0
        world = World(tmp_path, provider)
        world.post(PoolAdded(0.0, POOL), Submitted(0.0, Job("1")))
        for _ in range(30):
            await world.turn()
        pool = world.scheduler.state.pools.by_name["p"]
        assert (pool.paused, pool.failures) == ("CrashLoop", 3)
        assert "invalid account" in pool.detail
        assert len([fact for fact in world.journal.read() if isinstance(fact, AllocationEnded)]) == 3

    asyncio.run(scenario())


def test_nothing_is_asked_for_or_given_up_while_the_provider_is_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        provider = UnreliableProvider(Random(1))
        world = World(tmp_path, provider)
        world.post(PoolAdded(0.0, POOL), Submitted(0.0, Job("1")))
        await world.turn()
        provider.is_away = 1.0
        await world.turn()
        before = dict(world.allocations)
        world.post(Submitted(0.0, Job("2", gpus=4)))
        for _ in range(50):
            await world.turn(10.0)
        assert world.allocations == before
        assert "does not answer" in world.keeper.memory("p").error
        provider.is_away = 0.0
        await world.turn()
        await world.turn()
        assert len(world.allocations) > len(before)

    asyncio.run(scenario())


def test_jobs_beyond_the_maximum_of_their_team_need_no_nodes(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = World(tmp_path, UnreliableProvider(Random(1)))
        world.post(PoolAdded(0.0, POOL), TeamSet(0.0, Team("a", 0, 2)))
        world.post(*(Submitted(0.0, Job(str(n), task=Task(team="a"))) for n in range(8)))
        for _ in range(5):
            await world.turn()
        assert len(world.allocations) == 1, "a node of 2 GPUs has all that team a may hold"

    asyncio.run(scenario())


def test_a_service_that_waits_says_what_pools_do_for_it(tmp_path: Path) -> None:
    async def waiting() -> World:
        world = World(tmp_path, UnreliableProvider(Random(0)))
        world.post(PoolAdded(0.0, POOL), Deployed(0.0, Service("chat", Job("chat", gpus=1), ScaleRule("fixed", 1, 1))))
        for _ in range(3):
            await world.turn()
        return world

    world = asyncio.run(waiting())
    view = service_view(
        world.scheduler, "chat", world.clock.now(), NO_LOAD, "", lambda slots: slots,
        lambda replica: [each.text for each in explain_pools(world.keeper, replica, world.clock.now())],
    )  # fmt: skip
    (text,) = view.pools
    assert text.startswith("p: 1 allocation waits in Slurm since")
    assert f"  {text}" in explain_lines(view)
