"""Each user has a share of the server's CPU: beyond it, calls of that user wait, and those of others do not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from weft.history.journal.memory import MemoryJournal
from weft.model import Job, Submitted
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.server.loop import Loop
from weft.server.process.clock import Clock
from weft.server.process.cpu_shares import BURST_S, MAX_CALLS, Account, CpuShares, metered, metered_stream, set_payer


class ManualClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def busy(cpu_s: float) -> None:
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass


def test_a_bucket_empties_by_what_is_used_and_fills_with_time() -> None:
    clock = ManualClock()
    account = CpuShares(0.25, clock).account("ann")
    account.charge(0.25 * BURST_S)
    assert account.wait_s() == 0.0
    account.charge(1.0)
    assert account.wait_s() == pytest.approx(4.0)
    clock.now += 3.0
    assert account.wait_s() == pytest.approx(1.0)
    clock.now += 1000.0
    account.charge(0.25 * BURST_S + 0.5)
    assert account.wait_s() == pytest.approx(2.0), "a bucket holds no more than a burst"
    assert account.used_s == pytest.approx(2 * 0.25 * BURST_S + 1.5)


def test_without_a_limit_nobody_waits() -> None:
    account = CpuShares(0.0).account("ann")
    account.charge(1e6)
    assert account.wait_s() == 0.0


def test_calls_of_a_user_with_an_empty_bucket_wait_and_those_of_others_do_not() -> None:
    async def main() -> None:
        shares = CpuShares(0.5)
        ann, bob = shares.account("ann"), shares.account("bob")
        ann.charge(0.5 * BURST_S + 0.1)
        entered: list[str] = []

        async def call(name: str, account: Account) -> None:
            await account.enter()
            entered.append(name)
            account.leave()

        calls = [asyncio.ensure_future(call(name, ann)) for name in ("ann 1", "ann 2")]
        await asyncio.sleep(0)
        assert ann.waiting == 2
        began = time.monotonic()
        await call("bob", bob)
        await asyncio.gather(*calls)
        assert entered == ["bob", "ann 1", "ann 2"], "the calls of one user keep their order"
        assert time.monotonic() - began >= 0.15
        assert ann.waiting == 0

    asyncio.run(main())


def test_calls_of_one_user_that_are_answered_at_a_time_are_limited() -> None:
    async def main() -> None:
        account = CpuShares(0.0).account("ann")
        for _ in range(MAX_CALLS):
            await account.enter()
        late = asyncio.ensure_future(account.enter())
        for _ in range(10):
            await asyncio.sleep(0)
        assert not late.done()
        account.leave()
        await late

    asyncio.run(main())


def test_the_cpu_time_of_each_step_is_charged_and_waits_are_not() -> None:
    async def work() -> str:
        busy(0.02)
        await asyncio.sleep(0.05)
        busy(0.02)
        return "done"

    async def stream() -> AsyncIterator[int]:
        for number in range(3):
            busy(0.01)
            yield number

    async def main() -> None:
        account = CpuShares(0.0).account("ann")
        assert await metered(account, work()) == "done"
        assert 0.04 <= account.used_s < 0.08
        assert [number async for number in metered_stream(account, stream())] == [0, 1, 2]
        assert 0.07 <= account.used_s < 0.15

    asyncio.run(main())


def test_what_a_metered_call_raises_or_how_it_is_cancelled_does_not_change() -> None:
    ended: list[str] = []

    async def wrong() -> None:
        await asyncio.sleep(0)
        raise ValueError("wrong")

    async def endless() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def main() -> None:
        account = CpuShares(0.0).account("ann")
        with pytest.raises(ValueError, match="wrong"):
            await metered(account, wrong())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await metered(account, endless())
        assert ended == ["cancelled"]

    asyncio.run(main())


def test_the_loop_charges_a_batch_to_those_whose_events_it_has() -> None:
    def slow(now: float, job: str, cpu_s: float) -> tuple[list[Submitted], None]:
        busy(cpu_s)
        return [Submitted(now, Job(job))], None

    async def main() -> None:
        shares = CpuShares(0.0)
        scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        loop = Loop(scheduler, MemoryJournal(), Clock(), lambda _: None)
        loop.open()

        async def call(user: str, job: str, cpu_s: float) -> None:
            set_payer(shares.account(user))
            await loop.call(lambda now: slow(now, job, cpu_s))

        await asyncio.gather(*(asyncio.create_task(call(*each)) for each in (("ann", "1", 0.03), ("bob", "2", 0.01))))
        assert 0.03 <= shares.account("ann").used_s < 0.08
        assert 0.01 <= shares.account("bob").used_s < 0.03
        await loop.close()

    asyncio.run(main())
