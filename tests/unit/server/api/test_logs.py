"""The logs of runs, read while the runs write."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weft.model import Job
from weft.node.engine.output.logs import MAX_PART_BYTES, LogPart, log_path, read_part
from weft.node.engine.shim.log_cap import enforce_cap
from weft.scheduling.core.state.job import JobState
from weft.server.api.logs import LogQuery, _read_run


def read_all(jobs: Path, offset: int = 0, lines: int = 0) -> list[Any]:
    """The chunks of the first run of job 1, which has ended."""
    job = JobState(Job("1"), 0, 0.0)
    job.run, job.status = 1, "done"

    async def read_log(
        job: JobState, run: int, _rank: int, offset: int, lines: int, *, stderr: bool = False
    ) -> LogPart:
        return read_part(log_path(str(jobs), job.id, run, stderr=stderr), offset, lines=lines)

    state = SimpleNamespace(jobs={"1": job})
    controller: Any = SimpleNamespace(run_logs=SimpleNamespace(read=read_log), scheduler=SimpleNamespace(state=state))

    async def read() -> list[Any]:
        return [chunk async for chunk in _read_run(controller, LogQuery(job, 0, False, lines, offset), 1)]

    return asyncio.run(read())


@pytest.fixture
def over_its_cap(tmp_path: Path) -> Path:
    """A log of 30 MB that has lost all but its last 10 MB and a few blocks."""
    path = Path(log_path(str(tmp_path), "1", 1))
    path.parent.mkdir(parents=True)
    path.write_bytes(b"early\n" * (5 << 20))
    enforce_cap(str(path), "none", "none", 10 << 20)
    return path


@pytest.mark.usefixtures("over_its_cap")
def test_a_log_over_its_cap_begins_with_a_note(tmp_path: Path) -> None:
    first, *chunks = read_all(tmp_path)
    assert first.note == "the first 20 MB of this log were removed: a log keeps at least its last 512 MB"
    assert not first.text
    text = b"".join(chunk.text for chunk in chunks)
    assert len(text) == 10 << 20
    assert b"\0" not in text
    assert [chunk.note for chunk in chunks if chunk.note] == []
    assert chunks[0].offset == 20 << 20


@pytest.mark.usefixtures("over_its_cap")
def test_a_reader_that_was_overtaken_learns_what_it_missed(tmp_path: Path) -> None:
    note, *_ = read_all(tmp_path, offset=5 << 20)
    assert note.note.startswith("after the part above, 15 MB of this log were removed")
    assert [chunk.note for chunk in read_all(tmp_path, lines=3)] == [""]
    assert [chunk.note for chunk in read_all(tmp_path, offset=30 << 20)] == []


def test_a_log_that_was_truncated_names_the_file_with_its_start(tmp_path: Path, over_its_cap: Path) -> None:
    over_its_cap.with_name("output.log.1").write_text("early\n")
    over_its_cap.write_text("late\n")
    assert [(chunk.note, chunk.text) for chunk in read_all(tmp_path)] == [
        (f"earlier output is in {over_its_cap}.1", b""), ("", b"late\n"),
    ]  # fmt: skip


@pytest.mark.parametrize(("tail", "chunks"), [(0, 3), (MAX_PART_BYTES, 2)])
def test_a_log_that_grows_as_fast_as_it_is_read_ends_where_it_ended_when_asked(
    tmp_path: Path, tail: int, chunks: int
) -> None:
    job = JobState(Job("1"), 0, 0.0)
    job.run, job.status = 1, "running"
    state = SimpleNamespace(jobs={"1": job})
    path = Path(log_path(str(tmp_path), "1", 1))

    async def read_log(
        job: JobState, run: int, _rank: int, offset: int, lines: int, *, stderr: bool = False
    ) -> LogPart:
        return read_part(log_path(str(tmp_path), job.id, run, stderr=stderr), offset, lines=lines)

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
