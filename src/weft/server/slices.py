"""Long work in slices: it is written as a generator of steps, and runs for a short time in each turn of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Work that pauses at each `yield`, and returns its result."""
SLICE_CPU_S: Final = 0.01
"""The CPU time of one slice. A turn of the loop has one slice of each piece of work in progress."""


async def in_slices(steps: Steps[T]) -> T:
    """Do the work, and let the loop do other things in between."""
    while True:
        until = time.thread_time() + SLICE_CPU_S
        try:
            while time.thread_time() < until:
                next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


def at_once(steps: Steps[T]) -> T:
    """Do the work without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
