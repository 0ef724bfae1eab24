"""The loop and the scheduler's alarm clock."""

from __future__ import annotations

import asyncio
import time

from support.builders import node
from weft.errors import InputError
from weft.history.journal.memory import MemoryJournal
from weft.model import Exited, Job, NodeJoined, Start, Submitted
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.server.loop import Loop
from weft.server.process.clock import Clock


def test_an_alarm_that_rings_too_soon_is_set_again() -> None:
    """The scheduler's clock goes slower here than the one that rings: a job whose next try is due later gets it."""

    async def scenario() -> None:
        began = time.monotonic()
        clock = Clock(wall=lambda: 1000.0, steady=lambda: (time.monotonic() - began) / 4)
        scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        started: list[Start] = []
        loop = Loop(scheduler, MemoryJournal(), clock, lambda decision: started.append(decision))  # type: ignore[arg-type]
        loop.open()
        loop.post(lambda now: [NodeJoined(now, node("n0", 1)), Submitted(now, Job("1"))])
        while not started:
            await asyncio.sleep(0.001)
        due = 0.0

        def end(now: float) -> list[Exited]:
            nonlocal due
            due = now + 0.05
            return [Exited(now, "1", 1, "requeued", delay_s=0.05)]

        loop.post(end)
        for _ in range(10_000):
            if len(started) == 2:
                break
            await asyncio.sleep(0.001)
        await loop.close()
        assert [start.run for start in started if isinstance(start, Start)] == [1, 2]
        assert started[-1].at >= due

    asyncio.run(scenario())


class SlowDisk(MemoryJournal):
    """Counts what was appended when it was last told to sync."""

    synced = 0

    def sync(self) -> None:
        self.synced = len(self)


def test_facts_are_on_disk_before_anything_acts_on_them() -> None:
    async def submit() -> list[tuple[int, int]]:
        journal, seen = SlowDisk(), list[tuple[int, int]]()
        scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))

        loop = Loop(scheduler, journal, Clock(), lambda _: seen.append((journal.synced, len(journal))))
        loop.open()
        await loop.call(lambda now: ([NodeJoined(now, node("n0", 1)), Submitted(now, Job("a"))], None))
        await loop.close()
        return seen

    (acted,) = asyncio.run(submit())
    assert acted[0] == acted[1] == 3, "the two events and the decision to start"


def test_a_fact_that_cannot_be_journalled_fails_its_request_alone() -> None:
    """The request in the same batch is journalled, and nothing has to be rebuilt."""

    async def submit() -> tuple[list[object], int, list[Exception]]:
        journal, failures = MemoryJournal(), list[Exception]()
        scheduler = Scheduler(registry.load_policy("fifo"), registry.load_placement("packed"))
        loop = Loop(scheduler, journal, Clock(), lambda _: None)
        loop.on_failure = failures.append
        loop.open()
        jobs = [Job("a"), Job("b", deadline_at=float("inf")), Job("c", name="\ud800")]
        calls = [loop.call(lambda now, job=job: ([Submitted(now, job)], job.id)) for job in jobs]  # type: ignore[misc]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        await loop.close()
        return list(answers), len(journal), failures

    (first, second, third), facts, failures = asyncio.run(submit())
    assert first == "a"
    assert isinstance(second, InputError)
    assert "numbers must be finite" in str(second)
    assert facts == 1 + (third == "c")
    assert failures == []
