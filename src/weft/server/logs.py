"""What runs wrote, as a stream: pulled part by part from where it is, no faster than it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from weft.errors import NotFound
from weft.server.callers import Caller, check_owner
from weft.server.refs import one
from weft.server.upkeep import RUNS_KEPT
from weft.wire.messages import LogsRequest

if TYPE_CHECKING:
    from weft.server.running import Running

LOOK_S: Final = 0.2


async def read_log(running: Running, request: LogsRequest, who: Caller) -> AsyncIterator[bytes]:
    """The log of a run; with `follow`, until the run has ended, and through the job's next runs if none was named.

    With `follow`, the run may be the job's next.
    """
    state = running.scheduler.state
    job = state.jobs[one(state, request.job, who.user)]
    check_owner(who, job.job)
    run = request.run or max(job.run, 1)
    if run > job.run + request.follow:
        runs = f"{job.run} run{'' if job.run == 1 else 's'}" if job.run else "no run yet"
        hint = "" if job.ended_at is not None else "\n  weft logs -f waits for the next"
        raise NotFound(f"job {job.id} has had {runs}{hint}")
    if run <= job.run - RUNS_KEPT and (await running.fleet.read_log(job.id, run, 0, 0)).missing:
        raise NotFound(
            f"what run {run} of job {job.id} wrote is gone\n  of each job the last {RUNS_KEPT} runs are kept"
        )
    tail = request.lines
    while True:
        async for text in _one_run(running, job.id, run, request.follow, tail):
            yield text
        if not request.follow or request.run or job.ended_at is not None:
            return
        run, tail = run + 1, 0


async def _one_run(running: Running, job: str, run: int, follow: bool, tail: int) -> AsyncIterator[bytes]:
    at = 0
    end: int | None = None
    while True:
        over = _is_over(running, job, run)
        while True:
            part = await running.fleet.read_log(job, run, at, tail)
            if part.missing:
                break
            if end is None and not follow:
                end = part.size  # or a job that writes as fast as it is read would never be read up
            at, tail = part.following, 0
            text = part.text if end is None else part.text[: max(end - part.offset, 0)]
            if not text:
                break
            yield text
            await asyncio.sleep(0)
        if over or not follow:
            return
        await asyncio.sleep(LOOK_S)


def _is_over(running: Running, job: str, run: int) -> bool:
    state = running.scheduler.state.jobs.get(job)
    return state is None or state.run > run or (state.run == run and not state.active) or state.ended_at is not None
