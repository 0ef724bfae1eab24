"""A server gives memory back that it does not need any more."""

from __future__ import annotations

import asyncio

from weft.server.process.memory import MemoryReturn, resident_mb


def test_memory_that_the_allocator_keeps_goes_back() -> None:
    memory = MemoryReturn()
    blocks = [bytes(3000) for _ in range(40_000)]  # too large for Python's own arenas
    del blocks[:-1]  # the last one keeps the top of the heap
    before_mb = resident_mb()
    asyncio.run(memory.check())
    assert resident_mb() < before_mb - 60.0
