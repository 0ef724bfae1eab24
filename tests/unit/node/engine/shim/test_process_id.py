"""A pid is not a process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator

import pytest

from weft.node.engine.shim.process_id import Identity, boot_id, identify, is_alive, open_pidfd, send_signal
from weft.node.engine.shim.process_tree import descendants, list_processes


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def test_signals_reach_exactly_the_process_that_is_meant(sleeper: subprocess.Popen[bytes]) -> None:
    who = identify(sleeper.pid)
    assert who is not None
    for stranger in (who._replace(start=who.start + 1), who._replace(boot="another")):
        assert not is_alive(stranger)
        assert open_pidfd(stranger) is None
        assert not send_signal(stranger, signal.SIGKILL)
    assert sleeper.poll() is None
    assert send_signal(who, signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    assert not send_signal(who, signal.SIGTERM)


def test_a_zombie_is_dead_but_still_has_its_pid(sleeper: subprocess.Popen[bytes]) -> None:
    who = identify(sleeper.pid)
    assert who is not None
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert identify(sleeper.pid) == who
    assert not is_alive(who)


def test_nobody_has_no_identity() -> None:
    assert identify(2**22 + 1) is None
    assert not is_alive(Identity(boot_id(), 2**22 + 1, 1))


def test_a_name_with_brackets_is_read_over() -> None:
    script = "import ctypes, time; ctypes.CDLL(None).prctl(15, b') S 1 (x', 0, 0, 0); print(flush=True); time.sleep(60)"
    with subprocess.Popen(["python3", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            assert [stat.pid for stat in descendants([os.getpid()], list_processes()) if stat.pid == process.pid]
        finally:
            process.kill()
