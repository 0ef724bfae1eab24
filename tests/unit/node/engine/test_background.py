"""Background tasks: nothing is lost, nothing outlives its owner."""

from __future__ import annotations

import asyncio
import logging

import pytest

from weft.errors import Refused
from weft.node.engine.background import TaskSet


def test_a_series_goes_on_after_failures(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[int] = []

    async def work() -> None:
        calls.append(len(calls))
        if len(calls) == 1:
            raise Refused("not now")
        if len(calls) == 2:
            raise ValueError("a bug")

    async def scene() -> None:
        tasks = TaskSet()
        tasks.every(0.001, work, "counting")
        while len(calls) < 4:
            await asyncio.sleep(0.001)
        await tasks.close()
        assert len(tasks) == 0

    with caplog.at_level(logging.WARNING):
        asyncio.run(scene())
    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
    assert caplog.messages == ["counting: not now", "counting failed; retrying"]


def test_work_may_be_a_plain_function() -> None:
    calls: list[int] = []

    async def scene() -> None:
        tasks = TaskSet()
        tasks.every(0.001, lambda: calls.append(1), "counting")
        while len(calls) < 3:
            await asyncio.sleep(0.001)
        await tasks.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing is left that could call it"

    asyncio.run(scene())


def test_a_task_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    async def scene() -> None:
        tasks = TaskSet()
        tasks.spawn(fail())
        while len(tasks):
            await asyncio.sleep(0.001)

    asyncio.run(scene())
    assert caplog.messages == ["a background task failed"]


def test_closing_waits_for_what_is_cancelled() -> None:
    ended: list[str] = []

    async def long() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.append("long")

    async def scene() -> None:
        tasks = TaskSet()
        tasks.spawn(long())
        await asyncio.sleep(0)
        await tasks.close()

    asyncio.run(scene())
    assert ended == ["long"]
