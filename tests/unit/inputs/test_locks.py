"""Locks on files, between processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.errors import Refused
from weft.inputs.locks import Locked, acquire, holder, is_locked, locked, try_lock

HOLD = """
import sys
from weft.inputs.locks import acquire
acquire(sys.argv[1], "held", write_pid=sys.argv[2] == "pid")
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: Path, *, writes: str = "pid") -> Iterator[subprocess.Popen[str]]:
    """Let another process hold the lock inside the block."""
    command = [sys.executable, "-c", HOLD, str(path), writes]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        try:
            yield process
        finally:
            process.kill()


def test_one_of_two_processes_holds_a_lock_and_the_other_is_told_which(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path) as process:
        with pytest.raises(Locked) as refused:
            acquire(path, "another worker runs here", "stop it")
        assert str(refused.value) == f"another worker runs here (pid {process.pid})\n  stop it"
        assert refused.value.pid == process.pid
        assert isinstance(refused.value, Refused)
        assert is_locked(path)
        assert holder(path) == process.pid


def test_the_lock_of_a_process_that_dies_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path) as process:
        process.kill()
        process.wait(60)
        assert not is_locked(path)
        assert holder(path) is None, "the pid in the file is out of date"
        os.close(acquire(path, "held"))
    assert path.read_text() == str(os.getpid())


def test_a_lock_that_is_freed_in_time_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path) as process:
        assert process.stdin is not None
        process.stdin.close()
        with locked(path, "held", wait_s=60.0):
            assert is_locked(path)
    assert not is_locked(path)


def test_waiting_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with another_process(path):
        began = time.monotonic()
        with pytest.raises(Locked):
            acquire(path, "held", wait_s=0.2)
        assert time.monotonic() - began >= 0.2


def test_a_holder_that_writes_no_pid_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("stopped")
    with another_process(path, writes="nothing"):
        with pytest.raises(Locked, match=r"^held$"):
            acquire(path, "held")
        assert is_locked(path)
        assert holder(path) is None
    assert path.read_text() == "stopped"


def test_an_error_in_the_block_frees_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), locked(path, "held"):
        print(1 / 0)
    assert not is_locked(path)


def test_a_file_that_is_not_there_is_not_locked(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "lock")
    assert holder(tmp_path / "lock") is None
    assert not (tmp_path / "lock").exists()


def test_two_descriptors_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    with (tmp_path / "journal").open("w") as one, (tmp_path / "journal").open() as other:
        assert try_lock(one.fileno())
        assert not try_lock(other.fileno())
