"""Answers with many jobs: the same text as in one piece, made in slices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from weft.server.rpc.answers import MAX_ROWS_AT_ONCE, LaterRows, rows_of, to_json
from weft.views.answers.base import encode
from weft.views.answers.jobs import JobDetailView, QueueView
from weft.views.answers.nodes import GpuView
from weft.views.answers.operations import DumpView

ROWS = 3 * MAX_ROWS_AT_ONCE
ROW_CPU_S = 0.002


def details() -> list[JobDetailView]:
    return [JobDetailView(id=str(at), name='"jobs": []', comment="a\nb") for at in range(ROWS)]


def dump(jobs: list[JobDetailView]) -> DumpView:
    gpus = [GpuView(node="n1", gpu=0), GpuView(node='"jobs": []', gpu=1)]
    return DumpView(policy="fifo", paused_for={"Paused": 'by "jobs": []'}, gpus=gpus, jobs=jobs)


def test_an_answer_in_slices_has_the_same_text() -> None:
    later = rows_of(details(), ROWS)
    assert isinstance(later, LaterRows)
    assert asyncio.run(to_json(dump(later))) == encode(dump(details()))
    queue = asyncio.run(to_json(QueueView(jobs=rows_of(details(), ROWS), running=7, policy="fifo")))
    assert queue == encode(QueueView(jobs=details(), running=7, policy="fifo"))


def test_a_few_jobs_are_described_at_once() -> None:
    few = details()[:MAX_ROWS_AT_ONCE]
    assert type(rows_of(iter(few), len(few))) is list
    assert asyncio.run(to_json(dump(few))) == encode(dump(few))


def test_other_work_goes_on_while_many_jobs_are_described() -> None:
    def costly() -> Iterator[JobDetailView]:
        for row in details():
            until = time.thread_time() + ROW_CPU_S
            while time.thread_time() < until:
                pass
            yield row

    async def answer() -> int:
        turns, described = 0, asyncio.ensure_future(to_json(dump(LaterRows(costly()))))
        while not described.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(answer()) > ROWS * ROW_CPU_S / 0.1
