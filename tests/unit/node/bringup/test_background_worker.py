"""A worker's process is named by boot, pid and start time, and only that process is ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.node.bringup.background import end_process, format_process, parse_process
from weft.node.bringup.record import Process, Record
from weft.node.bringup.teardown import end_processes
from weft.node.engine.shim.process_id import identify


def test_a_process_is_read_as_it_is_written() -> None:
    who = identify(os.getpid())
    assert who is not None
    assert parse_process(format_process(who)) == who


@pytest.mark.parametrize("text", ["", "12", "boot:12", "boot:x:3", "boot:1:-3", ":1:2"])
def test_what_is_not_a_process_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a process"):
        parse_process(text)


def test_a_process_is_ended_once() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        who = identify(process.pid)
        assert who is not None
        assert end_process(who, 10.0)
        process.wait()
        assert not end_process(who, 10.0)


def test_a_process_that_reuses_the_pid_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        who = identify(process.pid)
        assert who is not None
        assert not end_process(who._replace(start=who.start - 1), 1.0)
        assert process.poll() is None
        process.kill()


def test_the_ends_of_many_workers_are_awaited_together_and_counted(tmp_path: Path) -> None:
    # a signal just before `wait` is not lost: the loop comes round again
    script = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done >/dev/null"
    children = [subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) for _ in range(5)]
    workers = []
    for number, child in enumerate(children):
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        who = identify(child.pid)
        assert who is not None
        workers.append(Process(f"n{number}", who, str(tmp_path / f"n{number}")))
    seen: list[tuple[int, int]] = []
    end_processes(Record("localhost:1", tuple(workers)), lambda *counts: seen.append(counts))
    assert seen == [(count, 5) for count in range(1, 6)]
    for child in children:
        assert child.wait(30) == 0
        child.communicate()
