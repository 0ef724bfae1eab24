"""Whatever dies in mid-run, nothing is lost: the scheduler, tmux, both, the session, the machine."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import is_alive, until
from support.running.workspaces import Desk, Folder, desk, needs_tmux
from weft.access.client.local_scheduler import end_scheduler

pytestmark = needs_tmux

WAITS = "echo begun; while ! test -e go; do sleep 0.05; done; echo over"


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def begun(at: Desk) -> Folder:
    """Two tasks run, two wait; all end once there is a file `go`."""
    here = at.folder("exp", max_jobs_per_gpu=1)
    here.configs(**dict.fromkeys("abcd", WAITS))
    here.weft("start")
    here.until_ran(2)
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1"} <= set(at.sessions()))
    return here


def kill_both(at: Desk) -> None:
    at.kill_tmux()  # first: the session in it would start the scheduler again
    at.site.kill9()


@pytest.mark.parametrize(
    "kill", [lambda at: at.site.kill9(), Desk.kill_tmux, kill_both], ids=["scheduler", "tmux", "both"]
)
def test_kill_9_loses_nothing(at: Desk, kill: Callable[[Desk], None]) -> None:
    here = begun(at)
    before = here.ran()
    kill(at)
    assert all(is_alive(int(pid)) for *_, pid in before)
    assert here.states() == {"a": "running", "b": "running", "c": "waiting", "d": "waiting"}
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1", "exp_scheduler"} <= set(at.sessions()))  # status brings them back
    (here.home / "go").touch()
    assert here.until_over() == dict.fromkeys("abcd", "done")
    assert here.ran()[:2] == before
    assert sorted(name for name, *_ in here.ran()) == list("abcd")
    assert all(here.marker(name).exists() for name in "abcd")
    assert here.log("a").splitlines()[1:] == here.log("c").splitlines()[1:] == ["begun", "over"]
    until(lambda: {"exp_c", "exp_d"} <= {name.rpartition("_gpu")[0] for name in at.sessions()})


def test_what_ends_while_nobody_looks_is_not_lost(at: Desk) -> None:
    here = begun(at)
    kill_both(at)
    (here.home / "go").touch()
    until(lambda: here.marker("a").exists() and here.marker("b").exists())
    assert "over" in here.log("a")
    assert here.states()["a"] == "done"
    assert here.until_over() == dict.fromkeys("abcd", "done")
    assert len(here.ran()) == 4


def test_a_killed_session_kills_no_task_and_a_killed_follower_comes_back(at: Desk) -> None:
    here = begun(at)
    at.tmux("kill-session", "-t", "=exp_a_gpu0")
    pid = int(at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_pid}"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_alive(pid))
    assert all(is_alive(int(pid)) for *_, pid in here.ran())
    here.weft("status")
    until(lambda: "exp_a_gpu0" in at.sessions())
    assert at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_dead}").strip() == "0"
    (here.home / "go").touch()
    assert here.until_over() == dict.fromkeys("abcd", "done")


def test_a_reboot_runs_again_what_ran(at: Desk) -> None:
    here = begun(at)
    kill_both(at)
    for *_, pid in here.ran():
        end_run(int(pid))
    for record in (at.site.paths.jobs).glob("*/*/started.json"):
        change_boot(record)
    (here.home / "go").touch()
    here.states()
    assert here.until_over() == dict.fromkeys("abcd", "done")
    assert sorted(name for name, *_ in here.ran()) == ["a", "a", "b", "b", "c", "d"]
    assert here.task("a")["run"] == 2
    assert here.task("a")["retries"] == 0
    until(lambda: here.log("a").splitlines()[1:] == ["begun", "begun", "over"])


def end_run(pid: int) -> None:
    """All of a run goes at once, as when the power does: its shim first, so that it leaves no record."""
    keeper = parent_of(pid)
    for each in (parent_of(keeper), keeper, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
        until(lambda each=each: not is_alive(each))  # type: ignore[misc]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def change_boot(record: Path) -> None:
    body = json.loads(record.read_bytes().rstrip(b"\0"))
    for who in ("shim", "leader"):
        body[who][0] = "00000000-0000-0000-0000-000000000000"
    record.write_text(json.dumps(body))


def watcher(at: Desk) -> int:
    return int(at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_pid}"))


def test_down_with_kill_leaves_no_session_and_no_watch(at: Desk) -> None:
    begun(at)
    watch = watcher(at)
    at.site.weft("down", "--kill", "-y", check=True)
    until(lambda: not is_alive(watch))
    assert at.sessions() == []


def test_a_watch_ends_when_the_state_is_removed(at: Desk) -> None:
    begun(at)
    watch = watcher(at)
    with at.site.client() as client:
        end_scheduler(client, kill="yes")
    assert is_alive(watch), "it waits for the next scheduler"
    shutil.rmtree(at.site.paths.state)
    until(lambda: not is_alive(watch))
