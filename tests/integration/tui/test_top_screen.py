"""weft top in a real terminal, with a real scheduler and real jobs: end to end in tmux."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.running.local_scheduler import Site, site, until
from support.running.workspaces import needs_tmux

PATIENCE_S = 120.0
JOB = "import time; print('first \\x1b[31mline\\x1b[0m', flush=True); time.sleep(600)"


@pytest.fixture
def machine() -> Iterator[Site]:
    with site({"gpus": "0,1", "min_run_s": 0}) as made:
        yield made


class Terminal:
    """A terminal of 110 by 30 in a tmux server that ends with the test."""

    def __init__(self, machine: Site) -> None:
        self._name = f"weft-top-{os.getpid()}"
        command = shlex.join([sys.executable, "-m", "weft", "top", "--scheduler", "local"])
        env = {**os.environ, **machine.env, "TERM": "xterm-256color"}
        self._env = env
        self.tmux("new-session", "-d", "-x", "110", "-y", "30", f"{command}; echo left with $?; sleep 600")

    def tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, "-f", "/dev/null", *words], env=self._env, capture_output=True, text=True
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        self.tmux("send-keys", *keys)

    def text(self) -> str:
        return self.tmux("capture-pane", "-p")

    def sees(self, *texts: str) -> None:
        try:
            until(lambda: all(text in self.text() for text in texts), PATIENCE_S)
        except AssertionError:
            raise AssertionError(f"{texts} are not on the screen:\n{self.text()}") from None

    def close(self) -> None:
        self.tmux("kill-server")


@needs_tmux
@pytest.mark.soak
def test_a_user_watches_cancels_and_survives_a_restart(machine: Site) -> None:
    with machine.client() as client:
        running = machine.submit(client, sys.executable, "-c", JOB, name="long-job", gpus="1")
        machine.submit(client, "true", name="wide-job", gpus="2")
        until(lambda: client.job(running).status == "running", PATIENCE_S)
    terminal = Terminal(machine)
    try:
        terminal.sees("● live", "this machine", "long-job", "wide-job", "(Resources)", "1/2")
        terminal.press("/")
        terminal.sees("filter: words")
        terminal.press("w", "i", "d", "e", "Enter")
        terminal.sees("queue 1 of 2", "/wide")
        terminal.press("w")
        terminal.sees("Resources: needs 2 GPUs")
        terminal.press("Escape")
        until(lambda: "needs 2 GPUs" not in terminal.text(), PATIENCE_S)
        terminal.press("Escape")
        terminal.sees("queue 2", "long-job")
        terminal.tmux("resize-window", "-x", "80", "-y", "24")
        terminal.press("Home")
        terminal.press("Enter")
        terminal.sees("first line", "running")
        terminal.press("Escape")
        terminal.sees("wide-job")
        machine.kill9()
        terminal.sees("reconnecting")
        with machine.client():
            terminal.sees("● live", "long-job")
        terminal.press("c")
        terminal.sees("Cancel 1 job?", "long-job")
        terminal.press("y")
        terminal.sees("CA")
        with machine.client() as client:
            assert client.job(running).status == "cancelled"
        terminal.press("q")
        terminal.sees("left with 0")
    finally:
        terminal.close()
