"""A server gives memory back that it does not need any more, and stands still for short collections only."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import subprocess
import sys
import weakref
from typing import Any

import pytest

from weft.errors import InputError
from weft.server.process import allocator, garbage
from weft.server.process.cpu_shares import CpuShares, metered
from weft.server.process.memory import MemoryReturn, resident_mb


def freed_blocks(count: int) -> list[bytes]:
    """Allocate blocks that are too large for Python's own arenas. Free all but the last, the top of the heap."""
    blocks = [bytes(3000) for _ in range(count)]
    del blocks[:-1]
    return blocks


def test_memory_that_the_allocator_keeps_goes_back() -> None:
    memory = MemoryReturn()
    kept = freed_blocks(40_000)
    before_mb = resident_mb()
    asyncio.run(memory.check())
    assert resident_mb() < before_mb - 60.0
    assert kept


def test_memory_goes_back_again_after_a_second_load() -> None:
    memory = MemoryReturn()
    kept = [freed_blocks(40_000)]
    asyncio.run(memory.check())
    asyncio.run(memory.check())
    before_mb = resident_mb()
    load = [bytes(3000) for _ in range(40_000)]
    kept.append(load[-1:])
    load.clear()
    asyncio.run(memory.check())
    assert resident_mb() < before_mb + 20.0


def test_processes_of_a_server_do_not_inherit_its_allocator() -> None:
    program = (
        "import os\nfrom weft.server.process import allocator\n"
        "allocator.tune()\nprint(os.environ.get('PYTHONMALLOC'), allocator.free_mb() > 0)\n"
    )
    env = {**os.environ, "PYTHONMALLOC": "malloc"}
    done = subprocess.run([sys.executable, "-c", program], env=env, check=True, capture_output=True, text=True)
    assert done.stdout == "None True\n"


def test_survivors_of_a_long_collection_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds = gc.get_threshold()
    monkeypatch.setattr(garbage, "LONG_S", 0.0)
    gc.collect()
    before = gc.get_freeze_count()
    try:
        with garbage.short_collections():
            kept = [[number] for number in range(5000)]
            gc.collect()
            assert gc.get_freeze_count() >= before + len(kept)
            gone = weakref.ref(Cycle())
            gc.collect()
            assert gone() is None, "newer garbage is collected"
        assert gc.get_threshold() == thresholds
        frozen = gc.get_freeze_count()
        gc.collect()
        assert gc.get_freeze_count() <= frozen, "it ends with the server"
    finally:
        gc.unfreeze()


class Cycle:
    def __init__(self) -> None:
        self.itself = self


def test_a_cancelled_call_does_not_keep_its_request() -> None:
    async def answer(request: Any) -> None:
        await asyncio.sleep(3600)
        raise InputError(str(request))

    async def main() -> weakref.ref[Any]:
        request = Request()
        call = asyncio.ensure_future(_metered(answer(request)))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return weakref.ref(request)

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


class Request:
    """Stands for a large request."""


async def _metered(work: Any) -> None:
    await metered(CpuShares(0.0).account("ann"), work)


@pytest.mark.parametrize("older", [False, True])
def test_the_allocator_tells_how_much_is_free(older: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if older:
        monkeypatch.setattr(allocator, "_libc", Glibc231())
    blocks = [bytes(3000) for _ in range(20_000)]
    before_mb = allocator.free_mb()
    del blocks[:-1]  # the last one keeps the top of the heap
    assert allocator.free_mb() > before_mb + 40.0


class Glibc231:
    """The C library without the function that came with glibc 2.33."""

    mallinfo = ctypes.CDLL(None).mallinfo
