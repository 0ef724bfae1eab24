"""What runs wrote, as a stream: pulled part by part from where it is, no faster than it is read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Final

from weft.core.state.job import JobState
from weft.engines.process.output.logs import RUNS_KEPT
from weft.errors import NotFound
from weft.model import JobId
from weft.server.auth.identity import Caller, check_owner
from weft.server.controller import Controller
from weft.server.jobs.job_refs import one
from weft.server.nodes.gangs import nodes_of
from weft.wire.messages import LogChunk, LogsRequest

LOOK_S: Final = 0.2


async def read_log(controller: Controller, request: LogsRequest, who: Caller) -> AsyncIterator[LogChunk]:
    """The log of a run; with `follow`, until the run has ended, and through the job's next runs if none was named.

    With `follow`, the run may be the job's next.
    """
    state = controller.scheduler.state
    job = state.jobs[one(state, request.job, who.user)]
    check_owner(who, job.job)
    run = request.run or max(job.run, 1)
    if run > job.run + request.follow:
        runs = f"{job.run} run{'' if job.run == 1 else 's'}" if job.run else "no run yet"
        hint = "" if job.ended_at is not None else "\n  weft logs -f waits for the next"
        raise NotFound(f"job {job.id} has had {runs}{hint}")
    _check_rank(job, run, request.rank)
    asked = Asked(job, request.rank, request.follow, request.lines)
    if run <= job.run - RUNS_KEPT:
        part = await controller.run_logs.read(job, run, request.rank, 0, 0)
        if part is not None and part.missing:
            raise NotFound(
                f"what run {run} of job {job.id} wrote is gone\n  of each job the last {RUNS_KEPT} runs are kept"
            )
    while True:
        async for chunk in _one_run(controller, asked, run):
            yield chunk
        if not request.follow or request.run or job.ended_at is not None:
            return
        run, asked = run + 1, replace(asked, lines=0)


def _check_rank(job: JobState, run: int, rank: int) -> None:
    """Of its last run it is known on how many nodes that was."""
    nodes = len(nodes_of(job.placed)) if run == job.run else 0
    if nodes and rank >= nodes:
        there = f"{nodes} nodes, ranks 0 to {nodes - 1}" if nodes > 1 else "one node, rank 0"
        raise NotFound(f"run {run} of job {job.id} has no rank {rank}\n  it is on {there}")


@dataclass(frozen=True, slots=True)
class Asked:
    job: JobState
    rank: int
    follow: bool
    lines: int


async def _one_run(controller: Controller, asked: Asked, run: int) -> AsyncIterator[LogChunk]:
    at, lines = 0, asked.lines
    end: int | None = None
    while True:
        over = _is_over(controller, asked.job.id, run)
        while True:
            part = await controller.run_logs.read(asked.job, run, asked.rank, at, lines)
            if part is None or part.missing:
                break
            if end is None and not asked.follow:
                end = part.size  # or a job that writes as fast as it is read would never be read up
            at, lines = part.next_offset, 0
            text = part.text if end is None else part.text[: max(end - part.offset, 0)]
            if not text:
                break
            yield LogChunk(text=text)
            await asyncio.sleep(0)
        if over or not asked.follow:
            if part is None:
                for chunk in _kept(controller, asked, run, at):
                    yield chunk
            return
        await asyncio.sleep(LOOK_S)


def _kept(controller: Controller, asked: Asked, run: int, at: int) -> Iterator[LogChunk]:
    """The node is not there: what the scheduler keeps of it, from where it was read up to."""
    kept = controller.run_logs.kept(asked.job, run, asked.rank, asked.lines if not at else 0)
    text = kept.text[max(at - kept.offset, 0) :]
    missed = max(kept.offset - at, 0)
    if kept.missing:
        yield LogChunk(note="its node is not there, and nothing is kept of what it wrote")
    elif text or missed:
        yield LogChunk(note="its node is not there: this is the last part of what it wrote, as far as it is known")
        yield LogChunk(text=text)


def _is_over(controller: Controller, job: JobId, run: int) -> bool:
    state = controller.scheduler.state.jobs.get(job)
    return state is None or state.run > run or (state.run == run and not state.active) or state.ended_at is not None
