"""Where tasks are shown: `weft attach`, and backends of one's own."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.running.local_scheduler import until
from support.running.workspaces import Desk, desk, needs_tmux

pytestmark = needs_tmux


@pytest.fixture
def at() -> Iterator[Desk]:
    with desk() as made:
        yield made


def test_attach_opens_the_session_of_a_job(at: Desk) -> None:
    here = at.folder("exp")
    here.configs(a="echo I am here; sleep 60")
    here.weft("start")
    until(lambda: "exp_a_gpu0" in at.sessions())
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "weft", "attach", "a"]
    env = {**at.site.env, "TERM": "xterm"}
    with subprocess.Popen(
        words, env=env, cwd=at.root, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        until(lambda: at.tmux("list-clients", "-F", "#{session_name}").strip() == "exp_a_gpu0")
        at.tmux("detach-client", "-s", "=exp_a_gpu0")
        seen = b""
        while b"detached" not in seen:
            seen += os.read(ours, 65536)
        assert process.wait(20) == 0
    os.close(ours)
    assert b"I am here" in seen
    assert here.states() == {"a": "running"}
    here.weft("kill-all")


SCREENS = """
import json, pathlib, subprocess
from weft.workspace.sessions.backends import Session

FILE = pathlib.Path(__file__).with_name("sessions.json")

class Screens:
    def why_not(self):
        return ""
    def all(self):
        found = json.loads(FILE.read_text()) if FILE.exists() else {}
        return [Session(name, tag) for name, tag in found.items()]
    def _keep(self, sessions):
        FILE.with_suffix(".tmp").write_text(json.dumps({each.name: each.tag for each in sessions}))
        FILE.with_suffix(".tmp").replace(FILE)
    def open(self, name, tag, command):
        self._keep([*self.all(), Session(name, tag)])
        if "watch" in command:
            quiet = subprocess.DEVNULL
            subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        return True
    def close(self, name):
        self._keep([each for each in self.all() if each.name != name])
    def attach_command(self, name):
        return ["echo", "opening", name]
"""


def test_another_backend_in_the_workspace(at: Desk) -> None:
    here = at.folder("exp", session_backend="screens:Screens")
    (here.home / "screens.py").write_text(SCREENS)
    here.configs(a="while ! test -e go; do sleep 0.05; done")
    assert "watch it: echo opening exp_scheduler" in here.weft("start").stdout
    shown = here.home / "sessions.json"
    until(lambda: sorted(json.loads(shown.read_text())) == ["exp_a_gpu0", "exp_scheduler"])
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "weft", "attach", "a"]
    done = subprocess.run(words, env=at.site.env, cwd="/", stdin=theirs, stdout=theirs, stderr=theirs, timeout=60)
    os.close(theirs)
    assert done.returncode == 0
    assert os.read(ours, 1000) == b"opening exp_a_gpu0\r\n"
    os.close(ours)
    (here.home / "go").touch()
    assert here.until_over() == {"a": "done"}
    assert "closed 2 sessions" in here.weft("kill-all").stdout
    assert at.sessions() == []


def test_a_backend_that_is_none_starts_nothing(at: Desk) -> None:
    here = at.folder("exp", session_backend="screen")
    here.configs(a="true")
    done = here.weft("start", check=False)
    assert done.returncode == 2
    assert "bad session_backend 'screen': neither tmux, none nor module:Class" in done.stderr
    assert not at.site.paths.answers()
