"""The way to this user's own scheduler, over a unix socket. It is started where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any, Final

import grpc

from weft.endpoints.paths import Places
from weft.errors import Unreachable
from weft.wire.service import CHANNEL

START_S: Final = 20.0
"""How long a scheduler may take to start."""
OUTLIVE_S: Final = 10.0
"""How long one that no longer answers may take to end."""


class OwnRoute:
    def __init__(self, places: Places, *, start: bool) -> None:
        self.places, self._may_start = places, start

    def open(self) -> Any:
        self.places.check()
        if not self.places.answers():
            if not self._may_start:
                raise Unreachable("no scheduler is running\n  weft up starts one; so does weft submit")
            start_scheduler(self.places)
        if stopped := self.places.stopped():
            raise Unreachable(f"the scheduler, {stopped}, is stopped\n  kill -CONT {stopped} lets it go on")
        return grpc.insecure_channel(f"unix:{self.places.socket}", options=CHANNEL)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Its folder is the lock: nothing has to be shown."""
        return ()

    def gone(self, details: str) -> Unreachable:
        return Unreachable(f"the scheduler at {self.places.socket} does not answer: {details}\n  {self.advice}")

    @property
    def advice(self) -> str:
        return f"its log: {self.places.server_log}"

    def is_hopeless(self, *, spoke: bool) -> bool:  # noqa: ARG002
        return not self._may_start and not self.places.answers()

    def outlive(self) -> None:
        until = time.monotonic() + OUTLIVE_S
        while not self.places.answers():
            words = self.places.last_words()
            if not words.isdecimal():
                raise Unreachable("the scheduler was told to end\n  jobs go on; weft up starts it again")
            if not os.path.exists(f"/proc/{words}") or time.monotonic() > until:
                break
            time.sleep(0.02)


def start_scheduler(where: Places) -> None:
    """Starts this user's scheduler in the background, and returns once it listens."""
    where.make()
    log = os.open(where.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    env = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    command = [sys.executable, "-m", "weft.server", str(where.state), str(where.runtime)]
    process = subprocess.Popen(
        command, env=env, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    os.close(log)
    until = time.monotonic() + START_S
    while not where.answers():
        if process.poll() not in (None, 0):
            raise Unreachable(f"the scheduler did not start: {_last_error(where)}\n  its log: {where.server_log}")
        if time.monotonic() > until:
            raise Unreachable(f"the scheduler did not start within {START_S:.0f} s\n  its log: {where.server_log}")
        time.sleep(0.01)
    threading.Thread(target=process.wait, daemon=True).start()  # it may end before we do: nothing of it is to stay


def _last_error(where: Places) -> str:
    try:
        lines = where.server_log.read_text(errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    errors = [line.partition(" ERROR ")[2].partition(": ")[2] for line in lines if " ERROR " in line]
    return errors[-1] if errors else lines[-1] if lines else "its log is empty"
