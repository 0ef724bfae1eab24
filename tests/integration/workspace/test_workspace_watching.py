"""The scheduler's session of a workspace, when facts are missed and when the scheduler ends."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from support.file_opens import opens_of
from support.running.local_scheduler import is_alive, until
from support.running.workspaces import Desk, Folder, desk, needs_tmux
from weft.errors import WeftError
from weft.history.journal.sqlite.compaction import compact
from weft.workspace.sessions.fact_feed import FactFeed

pytestmark = needs_tmux

WAITS = "echo begun; while ! test -e go; do sleep 0.05; done; echo over"


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def begun(at: Desk, **keys: object) -> Folder:
    """Two tasks run, one waits; all end once there is a file `go`."""
    here = at.folder("exp", max_jobs_per_gpu=1, **keys)
    here.configs(**dict.fromkeys("abc", WAITS))
    here.weft("start")
    here.until_ran(2)
    until(lambda: {"exp_a_gpu0", "exp_b_gpu1", "exp_scheduler"} <= set(at.sessions()))
    return here


def shorten(at: Desk) -> None:
    """Everything so far is in a snapshot: positions of before are gone."""
    assert until(lambda: compact(at.site.paths.journal_url))


# ---- the journal is shortened


def test_from_a_position_that_is_gone_it_goes_on_from_now(at: Desk) -> None:
    """Without sessions for long, then from where it was: the tasks that run now have theirs."""
    here = begun(at, check_interval=3600)
    at.kill_tmux()
    shorten(at)
    words = ["workspace", "--dir", str(here.home), "watch", "--sessions", "--since", "1"]
    command = [sys.executable, "-m", "weft", *words]
    with subprocess.Popen(command, env=at.site.env, cwd=at.root, stdout=subprocess.DEVNULL) as watch:
        until(lambda: {"exp_a_gpu0", "exp_b_gpu1"} <= set(at.sessions()))
        (here.home / "go").touch()
        assert here.until_over() == dict.fromkeys("abc", "done")
        assert watch.wait(60) == 0  # nothing is left to run, and it has seen all of it
    assert any(name.startswith("exp_c_gpu") for name in at.sessions())


def test_a_feed_skips_what_is_gone_once_and_then_waits_for_facts(at: Desk) -> None:
    """A feed that stayed where it was would ask again and again, and never see a fact."""
    here = begun(at, check_interval=3600)
    shorten(at)
    feed = FactFeed(at.site.paths, 1)
    with at.site.client() as client:
        feed._read(client)  # returns: there is nothing to continue from
        assert feed._position == client.gpus().position

        def read() -> None:
            with contextlib.suppress(WeftError):  # the scheduler ends
                feed._read(client)

        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        (here.home / "go").touch()
        seen = [feed.next(60.0)]
        while seen[-1] is not None and (seen[-1].fact or {}).get("fact") != "Exited":
            seen.append(feed.next(60.0))
        assert all(update is not None and update.fact is not None for update in seen)
        assert here.until_over() == dict.fromkeys("abc", "done")
        at.site.weft("down", check=True)
        reading.join(60.0)
        assert not reading.is_alive()


def test_shortened_while_it_watches(at: Desk) -> None:
    here = begun(at, check_interval=3600)
    shorten(at)
    (here.home / "go").touch()
    assert here.until_over() == dict.fromkeys("abc", "done")
    until(lambda: any(name.startswith("exp_c_gpu") for name in at.sessions()))
    until(lambda: at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_dead}").strip() == "1")


def test_whoever_waits_from_a_position_that_is_gone_is_answered(at: Desk) -> None:
    with at.site.client() as client:
        job = at.site.submit(client, "sh", "-c", f"while ! test -e {at.root}/go; do sleep 0.05; done", gpus="0")
        until(lambda: client.jobs([job]).jobs[0].status == "running")
        position = client.jobs([job]).position
        shorten(at)
        other = at.site.submit(client, "true", gpus="0")
        client.wait(other)
        shorten(at)
        assert list(client.facts(position - 1)) == []  # it says that it cannot go on from there
        (at.root / "go").touch()
        assert client.wait(job).status == "done"


# ---- the scheduler ends


def test_a_scheduler_that_is_told_to_end_ends_although_it_is_watched(at: Desk) -> None:
    here = begun(at)
    pid, pids = at.site.pid(), [int(pid) for *_, pid in here.ran()]
    at.site.weft("down", check=True)
    assert not is_alive(pid)
    assert at.site.paths.lock_text() == "stopped"
    assert all(is_alive(each) for each in pids)
    with opens_of(at.site.paths.lock) as looks:
        until(lambda: looks() >= 3)  # the session looks whether a scheduler has died, and starts none
    assert not at.site.paths.answers()
    at.site.weft("up", check=True)
    (here.home / "go").touch()
    assert here.until_over() == dict.fromkeys("abc", "done")
    until(lambda: any(name.startswith("exp_c_gpu") for name in at.sessions()))
    assert at.site.weft("down", "--kill", "-y").returncode == 0


def test_a_closed_session_comes_back(at: Desk) -> None:
    here = begun(at, check_interval=0.5)
    at.tmux("kill-session", "-t", "=exp_a_gpu0")
    until(lambda: "exp_a_gpu0" in at.sessions())
    assert len(here.ran()) == 2


def test_a_folder_that_vanishes_does_not_end_it(at: Desk) -> None:
    here = begun(at)
    (here.home / "configs").rename(here.home / "gone")
    (here.home / "go").touch()
    with at.site.client() as client:
        client.wait_for(["a", "b", "c"])
    until(lambda: at.tmux("display-message", "-p", "-t", "=exp_scheduler:", "#{pane_dead}").strip() == "1")
    shown = at.tmux("capture-pane", "-p", "-t", "=exp_scheduler:")
    assert "exp: 0 waiting, 0 running" in shown
