"""`weft compare` as a process: a worker that is killed, Ctrl-C, and bars on a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.pseudo_terminals import read_all

WEFT = Path(sys.executable).with_name("weft")
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some seconds of work."""
    monkeypatch.chdir(tmp_path)
    words = ["--jobs", "9000", "--seed", "1", "--cluster", "2x8", "--load", "2", "-o", "t.csv"]
    subprocess.run([WEFT, "trace", "generate", *words], check=True, capture_output=True)
    return tmp_path / "t.csv"


def compare(*words: str, **streams: int) -> subprocess.Popen[str]:
    words = ("compare", "t.csv", "--cluster", "2x8", "--workers", "2", *words)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    return subprocess.Popen([WEFT, *words], text=True, start_new_session=True, **streams)  # type: ignore[call-overload,no-any-return]


def session(leader: int) -> dict[int, list[int]]:
    """The processes of its session and their children; all that it has started are in it."""
    found: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.setdefault(int(folder.name), [])
            found.setdefault(int(fields[1]), []).append(int(folder.name))
    return found


def workers(leader: int) -> list[int]:
    """Grandchildren: a server forks them."""
    tree = session(leader)
    return [pid for server in tree.get(leader, []) for pid in tree.get(server, [])]


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_worker_that_is_killed_is_reported_and_the_rest_goes_on() -> None:
    with compare("--policies", "srtf,fifo,tiresias", "--json") as process:
        wait_until(lambda: len(workers(process.pid)) == 2)
        victim = min(workers(process.pid))
        os.kill(victim, signal.SIGKILL)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    found = json.loads(out)["policies"]
    dead = [each for each in found if "error" in each]
    assert [each["error"] for each in dead] == ["its worker process died: SIGKILL, perhaps out of memory"]
    assert f"{dead[0]['policy']}: its worker process died" in json.loads(err)["error"]["message"]
    assert sum(each["avg_jct_s"] is not None for each in found) == 2


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_no_process_and_no_file(trace: Path, sent: signal.Signals, code: int) -> None:
    with compare("--policies", "srtf,tiresias,srsf", "--out", "out") as process:
        wait_until(lambda: len(workers(process.pid)) == 2)
        os.killpg(process.pid, sent)  # as a terminal does
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    wait_until(lambda: not session(process.pid))
    assert [entry.name for entry in trace.parent.iterdir()] == ["t.csv"]


def test_a_parent_that_is_killed_takes_its_workers_along() -> None:
    with compare("--policies", "srtf,tiresias", "--seeds", "2") as process:
        wait_until(lambda: len(workers(process.pid)) == 2)
        process.kill()
        process.communicate(timeout=PATIENCE_S)
    wait_until(lambda: not session(process.pid))


def test_a_terminal_gets_a_bar_for_each_policy() -> None:
    ours, theirs = pty.openpty()
    with compare("--policies", "srtf,tiresias", stderr=theirs) as process:
        os.close(theirs)
        shown = read_all(ours)
        assert process.stdout is not None
        table = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    last = shown.decode().split("\x1b[1A")
    assert any("srtf" in line and "/9000" in line for line in last)
    assert any("tiresias" in line and "/9000" in line for line in last)
    assert table.splitlines()[0].startswith("policy")
    assert "\x1b" not in table
