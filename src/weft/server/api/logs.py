"""Stream the logs of runs, part by part, no faster than the client reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from typing import Final

from weft.access.auth.identity import Caller, check_owner
from weft.access.wire.messages import LogChunk, LogsRequest
from weft.errors import NotFound
from weft.model import JobId
from weft.model.slots import nodes_of
from weft.node.engine.launch_spec import LOG_CAP_BYTES
from weft.node.engine.output.logs import RUNS_KEPT, LogPart
from weft.scheduling.core.state.job import JobState
from weft.server.controller import Controller
from weft.server.jobs.job_refs import resolve_one

POLL_S: Final = 0.2
MEBI: Final = 1 << 20


async def read_log(controller: Controller, request: LogsRequest, who: Caller) -> AsyncIterator[LogChunk]:
    """Stream the log of a run. With `follow`, continue until the run has ended.

    If no run was named, `follow` continues with the job's next runs. A named run may be the next one.
    """
    state = controller.scheduler.state
    job = state.jobs[resolve_one(state, request.job, who.user)]
    check_owner(who, job.job)
    run = request.run or max(job.run, 1)
    if run > job.run + request.follow:
        runs = f"{job.run} run{'' if job.run == 1 else 's'}" if job.run else "no run yet"
        hint = "" if job.ended_at is not None else "\n  weft logs -f waits for the next"
        raise NotFound(f"job {job.id} has had {runs}{hint}")
    _check_rank(job, run, request.rank)
    if request.stderr and not (job.job.task and job.job.task.error):
        what = f"job {job.id} has no file for standard error: its output has both streams"
        raise NotFound(f"{what}\n  weft logs {job.id} prints them")
    query = LogQuery(job, request.rank, request.follow, request.lines, request.offset, request.stderr)
    if run <= job.run - RUNS_KEPT:
        part = await controller.run_logs.read(job, run, request.rank, 0, 0)
        if part is not None and part.missing:
            raise NotFound(
                f"the log of run {run} of job {job.id} was removed\n"
                f"  the logs of the last {RUNS_KEPT} runs of each job are kept"
            )
    while True:
        async for chunk in _read_run(controller, query, run):
            yield chunk
        if not request.follow or request.run or job.ended_at is not None:
            return
        run, query = run + 1, replace(query, lines=0, offset=0)


def _check_rank(job: JobState, run: int, rank: int) -> None:
    """Raise for a rank that the run does not have. The number of nodes is known for the last run alone."""
    nodes = len(nodes_of(job.placed)) if run == job.run else 0
    if nodes and rank >= nodes:
        there = f"{nodes} nodes, ranks 0 to {nodes - 1}" if nodes > 1 else "one node, rank 0"
        raise NotFound(f"run {run} of job {job.id} has no rank {rank}\n  it has {there}")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which log to read, and how."""

    job: JobState
    rank: int
    follow: bool
    lines: int
    offset: int = 0
    """The first byte to read."""
    stderr: bool = False


async def _read_run(controller: Controller, query: LogQuery, run: int) -> AsyncIterator[LogChunk]:
    at, lines = query.offset, query.lines
    end: int | None = None
    while True:
        over = _is_over(controller, query.job.id, run)
        while True:
            part = await controller.run_logs.read(query.job, run, query.rank, at, lines, stderr=query.stderr)
            if part is None or part.missing:
                break
            if end is None and not query.follow:
                end = part.size  # otherwise the log of a job that writes fast would never end
            if note := _missing_part(part, at, lines):
                yield LogChunk(note=note)
            at, lines = part.next_offset, 0
            text = part.text if end is None else part.text[: max(end - part.offset, 0)]
            if not text:
                break
            yield LogChunk(text=text, offset=part.offset)
            await asyncio.sleep(0)
        if over or not query.follow:
            if part is None:
                for chunk in _kept_part(controller, query, run, at):
                    yield chunk
            if over and run == query.job.run and query.job.detail:
                yield LogChunk(note=f"the run ended with {query.job.why}: {query.job.detail}")
            return
        await asyncio.sleep(POLL_S)


def _kept_part(controller: Controller, query: LogQuery, run: int, at: int) -> Iterator[LogChunk]:
    """Yield what the server keeps of a log whose node cannot be reached, from `at` on."""
    if query.stderr:
        yield LogChunk(note="the node is not connected, and the scheduler keeps no part of standard error")
        return
    kept = controller.run_logs.kept(query.job, run, query.rank, query.lines if not at else 0)
    text = kept.text[max(at - kept.offset, 0) :]
    missed = max(kept.offset - at, 0)
    if kept.missing:
        yield LogChunk(note="the node is not connected, and the scheduler keeps no part of this log")
    elif text or missed:
        yield LogChunk(note="the node is not connected: this is the last part of the log that the scheduler keeps")
        yield LogChunk(text=text, offset=max(kept.offset, at))


def _missing_part(part: LogPart, at: int, lines: int) -> str:
    """Return a note about output before this part that its reader does not get."""
    if part.older and not at and not lines:
        return f"earlier output is in {part.older}"
    removed = part.offset - at
    if lines or removed <= 0:
        return ""
    size = f"{removed / MEBI:,.0f} MB" if removed >= MEBI else f"{removed:,} bytes"
    which = "the first" if not at else "after the part above,"
    return f"{which} {size} of this log were removed: a log keeps at least its last {LOG_CAP_BYTES // MEBI} MB"


def _is_over(controller: Controller, job: JobId, run: int) -> bool:
    state = controller.scheduler.state.jobs.get(job)
    return state is None or state.run > run or (state.run == run and not state.active) or state.ended_at is not None
