"""What runs wrote, as a stream."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, BinaryIO, Final

from weft.errors import NotFound
from weft.local import files
from weft.server.refs import one
from weft.wire.messages import LogsRequest

if TYPE_CHECKING:
    from weft.server.running import Running

CHUNK: Final = 1 << 16
LOOK_S: Final = 0.2


async def read_log(running: Running, request: LogsRequest) -> AsyncIterator[bytes]:
    """The log of a run; with `follow`, until the run has ended, and through the job's next runs if none was named.

    With `follow`, the run may be the job's next.
    """
    state = running.scheduler.state
    job = state.jobs[one(state, request.job)]
    run = request.run or max(job.run, 1)
    if run > job.run + request.follow:
        runs = f"{job.run} run{'' if job.run == 1 else 's'}" if job.run else "no run yet"
        hint = "" if job.ended_at is not None else "\n  weft logs -f waits for the next"
        raise NotFound(f"job {job.id} has had {runs}{hint}")
    tail = request.lines
    while True:
        async for text in _one_run(running, job.id, run, request.follow, tail):
            yield text
        if not request.follow or request.run or job.ended_at is not None:
            return
        run, tail = run + 1, 0


async def _one_run(running: Running, job: str, run: int, follow: bool, tail: int) -> AsyncIterator[bytes]:
    path = os.path.join(files.run_dir(str(running.places.jobs), job, run), files.LOG)
    file: BinaryIO | None = None
    end: int | None = None
    try:
        while True:
            over = _is_over(running, job, run)
            if file is None and os.path.exists(path):
                file = open(path, "rb")  # noqa: SIM115
                size = file.seek(0, os.SEEK_END)
                end = None if follow else size  # or a job that writes as fast as it is read would never be read up
                file.seek(_tail_start(file, size, tail))
            while file is not None and (text := file.read(CHUNK if end is None else min(CHUNK, end - file.tell()))):
                yield text
                await asyncio.sleep(0)
            if over or not follow:
                return
            if file is not None and file.tell() > os.fstat(file.fileno()).st_size:  # cut at its cap: go on from there
                file.seek(0)
            await asyncio.sleep(LOOK_S)
    finally:
        if file is not None:
            file.close()


def _is_over(running: Running, job: str, run: int) -> bool:
    state = running.scheduler.state.jobs.get(job)
    return state is None or state.run > run or (state.run == run and not state.active) or state.ended_at is not None


def _tail_start(file: BinaryIO, end: int, lines: int) -> int:
    """Where the last lines before the end begin."""
    at = end
    if not lines:
        return 0
    found = 0
    while at > 0:
        size = min(CHUNK, at)
        at -= size
        file.seek(at)
        block = file.read(size)
        newline = len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            if at + newline + 1 < end:  # the last line's own end does not begin another
                found += 1
                if found == lines:
                    return at + newline + 1
    return 0
