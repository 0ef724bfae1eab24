"""Tasks in separate processes: results arrive in order, failures are reported, and no process is left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.lab.compare.process_pool import SilentProgress, TaskFailure, run_all

TASKS = """
import os, signal, sys, time

def work(task, tick):
    kind, value = task
    if kind == "raise":
        raise ValueError("no such luck")
    if kind == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "leave":
        sys.exit(3)
    if kind == "sleep":
        time.sleep(value)
    for done in range(64):
        tick(done)
        time.sleep(0.004 if kind == "slow" else 0)
    return value, os.getpid(), os.getcwd()
"""


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that the workers can import."""
    name = f"tasks_{os.getpid()}_{time.monotonic_ns()}"
    (tmp_path / f"{name}.py").write_text(TASKS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return __import__(name).work


ignore = SilentProgress()


class Recorder(SilentProgress):
    """Notes what it hears; None: the task has ended."""

    def __init__(self) -> None:
        self.heard: list[tuple[int, int | None]] = []

    def update(self, task: int, done: int) -> None:
        self.heard.append((task, done))

    def finish(self, task: int) -> None:
        self.heard.append((task, None))


class Refresher(SilentProgress):
    def __init__(self, refresh: Callable[[], None]) -> None:
        self._refresh = refresh

    def refresh(self) -> None:
        self._refresh()


@pytest.mark.parametrize("workers", [1, 3])
def test_results_are_in_the_order_of_the_tasks(work: Any, tmp_path: Path, workers: int) -> None:
    found = run_all(work, [("sleep", 0.2), ("", 2), ("", 3)], workers, ignore)
    assert [value for value, _, _ in found] == [0.2, 2, 3]
    pids = {pid for _, pid, _ in found}
    assert len(pids) == 3
    assert os.getpid() not in pids
    assert {folder for _, _, folder in found} == {str(tmp_path)}


def test_what_goes_wrong_is_told_and_the_rest_goes_on(work: Any, tmp_path: Path) -> None:
    tasks = [("raise", 0), ("die", 0), ("leave", 0), ("", 7)]
    raised, killed, left, good = run_all(work, tasks, 2, ignore)
    assert isinstance(raised, TaskFailure)
    assert raised.reason.startswith("ValueError: no such luck (")
    assert raised.reason.endswith(".py:7)")
    assert str(tmp_path) in raised.reason
    assert killed == TaskFailure("its worker process died: SIGKILL, perhaps out of memory")
    assert left == TaskFailure("its worker process died: exit code 3")
    assert good[0] == 7


def test_progress_is_heard(work: Any) -> None:
    recorder = Recorder()
    run_all(work, [("slow", 0), ("slow", 1)], 2, recorder)
    for task in (0, 1):
        mine = [done for each, done in recorder.heard if each == task]
        assert mine[-1] is None
        assert len(mine) > 1
        assert mine[:-1] == sorted(done for done in mine[:-1] if done is not None)


def test_an_interrupt_ends_them_all(work: Any) -> None:
    pids: list[int] = []
    others = _children(os.getpid())

    def interrupt() -> None:
        children = [pid for pid in _children(os.getpid()) if pid not in others]
        if len(children) >= 2:
            pids.extend(children)
            raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run_all(work, [("sleep", 60), ("sleep", 60)], 2, Refresher(interrupt))
    assert time.monotonic() - began < 30
    assert len(pids) >= 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def _children(parent: int) -> list[int]:
    """Workers: grandchildren, for a server of ours forks them."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            server = Path(f"/proc/{fields[1]}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(server[1]) == parent:
            found.append(int(folder.name))
    return found


def test_signals_of_the_terminal_are_for_us_alone(work: Any) -> None:
    sent = False

    def press() -> None:
        nonlocal sent
        for pid in () if sent else _children(os.getpid()):
            os.kill(pid, signal.SIGINT)
            sent = True

    assert run_all(work, [("sleep", 0.5)], 1, Refresher(press))[0][0] == 0.5
    assert sent
