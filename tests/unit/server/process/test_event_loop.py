"""The event loop of a server measures its turns."""

from __future__ import annotations

import asyncio
import time

from weft.server.process import event_loop
from weft.server.process.event_loop import Turns, current_turns


def busy(cpu_s: float) -> None:
    until = time.thread_time() + cpu_s
    while time.thread_time() < until:
        pass


def test_the_longest_turn_is_measured_in_wall_and_in_cpu_time() -> None:
    async def main() -> Turns:
        await asyncio.sleep(0)
        busy(0.05)
        await asyncio.sleep(0.01)
        time.sleep(0.1)  # waits, and uses no CPU time
        await asyncio.sleep(0.01)
        return current_turns()

    turns = event_loop.run(main())
    assert 0.05 <= turns.longest_cpu_s < 0.1
    assert turns.longest_s >= 0.1


def test_another_kind_of_loop_has_no_figures() -> None:
    async def main() -> Turns:
        busy(0.01)
        await asyncio.sleep(0)
        return current_turns()

    assert asyncio.run(main()).longest_cpu_s == 0.0
    assert current_turns().longest_s == 0.0
