"""A worker leaves before its allocation ends, also if the site moves that end."""

from __future__ import annotations

import asyncio
import time

import pytest

from weft.node.agent.allocation_end import CHANGE_S, AllocationEnd


def test_a_later_end_keeps_the_worker_and_an_earlier_one_lets_it_leave() -> None:
    async def scenario() -> list[str]:
        left: list[str] = []
        end = AllocationEnd(time.time() + 20.05, 20.0, lambda: left.append("left"))
        end.open()
        end.follow(3600.0)
        await asyncio.sleep(0.1)
        assert not left, "the first timer is off"
        assert end.leaves_in_s == pytest.approx(3600.0, abs=5.0)
        end.follow(0.0)
        await asyncio.sleep(0.05)
        return left

    assert asyncio.run(scenario()) == ["left"]


def test_small_differences_are_those_of_clocks() -> None:
    async def scenario() -> None:
        end = AllocationEnd(time.time() + 1000.0, 0.0, lambda: None)
        end.open()
        end.follow(1000.0 + CHANGE_S - 1.0)
        assert end.leaves_in_s == pytest.approx(1000.0, abs=5.0)

    asyncio.run(scenario())


def test_without_an_end_it_stays_until_the_scheduler_knows_one() -> None:
    async def scenario() -> None:
        end = AllocationEnd(None, 20.0, lambda: None)
        end.open()
        assert end.leaves_in_s is None
        end.follow(100.0)
        assert end.leaves_in_s == pytest.approx(100.0, abs=5.0)

    asyncio.run(scenario())
