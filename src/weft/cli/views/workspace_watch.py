"""The scheduler's session of a workspace: it draws the live queue and the log, and maintains the tasks' sessions.

Nothing depends on it. It can be killed at any time; `status` or `start` start it again.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import suppress
from typing import Final

from weft.access.client import Client
from weft.access.endpoints.paths import user_paths
from weft.cli import render, tables
from weft.cli.views import workspace_table
from weft.errors import Refused, Unreachable, WeftError
from weft.text import escape_controls
from weft.workspace.config import Config
from weft.workspace.locks import tasks_locked, try_lock
from weft.workspace.sessions.backends import sessions_of
from weft.workspace.sessions.display import SessionDisplay
from weft.workspace.sessions.fact_feed import FactFeed, StateRemoved, connect
from weft.workspace.status import WorkspaceView, is_busy, status

REDRAW_S: Final = 5.0
COALESCE_S: Final = 0.5
"""Facts within this time are drawn together."""
CATCH_UP_S: Final = 60.0
LOG_LINES: Final = 10
TAIL_BYTES: Final = 8192


class Watch:
    def __init__(self, config: Config, args: argparse.Namespace) -> None:
        self._config, self._args, self._paths = config, args, user_paths()
        self._position = 0
        """The position of the last processed fact."""
        self._reloaded_at = time.monotonic()
        self._feed: FactFeed | None = None
        self._display: SessionDisplay | None = None
        self._client: Client | None = None

    def run(self) -> int:
        self._paths.make()
        if not (self._paths.answers() or self._paths.has_state()):
            print(workspace_table.headline(status(self._config, None)))
            return 0
        lock = try_lock(self._paths.runtime, self._config, "watch") if self._args.sessions else None
        try:
            self._position = self._begin(keep=lock is not None)
            self._feed = FactFeed(self._paths, self._position)
            self._feed.open()
            while not self._is_finished(lock):
                self._wait()
        except (KeyboardInterrupt, StateRemoved):
            return 0
        finally:
            if self._client is not None:
                self._client.close()
        return 0

    def _begin(self, *, keep: bool) -> int:
        """Load the current jobs, and return the position from which facts are new."""
        Client(self._paths).close()  # starts the scheduler if needed; `connect` does not start one that was ended
        self._client = connect(self._paths)
        found = self._client.jobs(group=self._config.group)
        sessions = sessions_of(self._config)
        if not keep or sessions.why_not():
            return found.position
        numbers = [gpu.gpu for gpu in self._client.gpus().gpus]
        self._display = SessionDisplay(self._config, self._paths, sessions, numbers)
        since = self._args.since
        early = since is not None and since < found.position
        self._display.update(found.jobs, names_only=early)
        return int(since if early else found.position)

    # ---- what happens

    def _wait(self) -> None:
        """Process facts until it is time to draw again."""
        until = time.monotonic() + min(REDRAW_S, self._config.number("check_interval"))
        while (left := until - time.monotonic()) > 0:
            if self._process_next(left):
                until = min(until, time.monotonic() + COALESCE_S)
        if time.monotonic() >= self._reloaded_at + self._config.number("check_interval"):
            self._reload()

    def _reload(self) -> None:
        """Reload all jobs, in case a fact was missed."""
        self._reloaded_at = time.monotonic()
        if self._display is not None and self._client is not None:
            with suppress(WeftError):
                self._display.update(self._client.jobs(group=self._config.group).jobs)

    def _process_next(self, timeout_s: float) -> bool:
        """Process the next fact, and return whether it changes the screen."""
        update = self._feed.next(timeout_s) if self._feed is not None else None
        if update is None:
            return False
        self._position = update.position
        if update.fact is None:
            self._reload()
            return True
        if self._display is None:
            return update.fact["fact"] in ("Started", "Exited")
        return self._display.apply(update.fact)

    def _catch_up(self) -> None:
        """Process all facts so far: even the shortest task gets a session."""
        until = time.monotonic() + CATCH_UP_S
        position = self._client.gpus().position if self._client is not None else 0
        while self._position < position and time.monotonic() < until:
            self._process_next(0.1)

    # ---- drawing

    def _is_finished(self, lock: int | None) -> bool:
        """Draw, and return whether nothing is left to run. Release the lock only while `start` cannot add tasks."""
        found = self._draw()
        if found is None or is_busy(found):
            return False
        if lock is None:
            return True
        try:
            with tasks_locked(self._paths.runtime, self._config):
                found = self._draw("")  # tmux scrolls by a line when the process exits
                if found is None or is_busy(found):
                    return False
                self._catch_up()
                os.close(lock)
        except (Refused, Unreachable):
            return False
        return True

    def _draw(self, *head: str) -> WorkspaceView | None:
        try:
            if self._client is None:
                self._client = connect(self._paths)
            found = status(self._config, self._client, strict=False)
        except Unreachable:
            if self._client is not None:
                self._client.close()
            self._client = None
            return None
        colour, narrow = render.use_colour(self._args.color), render.is_terminal()
        lines = [*head, workspace_table.headline(found), ""]
        lines += tables.format_lines(*workspace_table.gpus(found), colour=colour, narrow=narrow)
        lines += ["", *tables.format_lines(*workspace_table.tasks(found, log=False), colour=colour, narrow=narrow)]
        log = _tail(found.log)
        room = _height() - len(log) - 3
        tables.redraw([*lines[:room], "", *log])
        sys.stdout.flush()
        return found


def _tail(path: str | None) -> list[str]:
    try:
        with open(path or os.devnull, "rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return []
    return [escape_controls(line) for line in lines[-LOG_LINES:]]


def _height() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).lines
    except (OSError, ValueError):
        return 1_000_000
