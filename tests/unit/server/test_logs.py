"""What runs wrote, read while they write."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.core.state.job import JobState
from weft.engines.process.output.logs import MAX_PART_BYTES, LogPart, log_path, read_part
from weft.model import Job
from weft.server.api.logs import LogQuery, _read_run


@pytest.mark.parametrize(("tail", "chunks"), [(0, 3), (MAX_PART_BYTES, 2)])
def test_a_log_that_grows_as_fast_as_it_is_read_ends_where_it_ended_when_asked(
    tmp_path: Path, tail: int, chunks: int
) -> None:
    job = JobState(Job("1"), 0, 0.0)
    job.run, job.status = 1, "running"
    state = SimpleNamespace(jobs={"1": job})
    path = Path(log_path(str(tmp_path), "1", 1))

    async def read_log(job: JobState, run: int, _rank: int, offset: int, lines: int) -> LogPart:
        return read_part(log_path(str(tmp_path), job.id, run), offset, lines=lines)

    run_logs = SimpleNamespace(read=read_log)
    controller: Any = SimpleNamespace(run_logs=run_logs, scheduler=SimpleNamespace(state=state))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"y\n" * (MAX_PART_BYTES * 3 // 2))

    async def read() -> list[bytes]:
        found = []
        async for chunk in _read_run(controller, LogQuery(job, 0, False, tail), 1):
            found.append(chunk.text)
            assert len(found) < 10, "it never ends"
            with path.open("ab") as log:
                log.write(b"y\n" * MAX_PART_BYTES)
        return found

    assert [len(text) for text in asyncio.run(read())] == [MAX_PART_BYTES] * chunks
