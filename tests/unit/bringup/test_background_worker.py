"""A worker's process is named by boot, pid and start time, and only that process is ended."""

from __future__ import annotations

import os
import subprocess

import pytest

from weft.bringup.background import end_process, format_process, parse_process
from weft.engines.process.shim.process_id import identify
from weft.errors import InputError


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
