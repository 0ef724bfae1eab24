"""The session that shows the scheduler of a workspace, and its log."""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.paths import user_paths
from weft.errors import Refused

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.workspace.config import Config

ORPHAN_TIMEOUT_S: Final = 5.0
"""Limit for the process of a session to end after the session."""
POLL_S: Final = 0.05


def open_session(config: Config, client: Client, since: int) -> tuple[str, str]:
    """Open the scheduler's session unless it is open. Return its name, and a warning if it cannot be opened.

    The session shows the facts after the position `since` of the journal."""
    from weft.workspace.locks import is_held
    from weft.workspace.sessions.backends import sessions_of
    from weft.workspace.sessions.display import SessionDisplay

    sessions = sessions_of(config)
    why_not = sessions.why_not()
    if why_not:
        return "", "" if config.text("session_backend") == "none" else why_not
    display = SessionDisplay(config, client.paths, sessions)
    until = time.monotonic() + ORPHAN_TIMEOUT_S
    while is_held(client.paths.runtime, config, "watch"):
        name = display.scheduler_session()
        if name or time.monotonic() > until:  # a holder of the lock without a session ends soon, or needs none
            return name, ""
        time.sleep(POLL_S)
    name = display.open_scheduler_session(since)
    return name, "" if name else "no session can be opened; tasks run without one"


def attach_command_line(config: Config, name: str) -> str:
    """Return the command that attaches a terminal to a session."""
    if config.text("session_backend") == "tmux":
        return f"tmux attach -t {name}"
    from weft.workspace.sessions.backends import sessions_of

    return shlex.join(sessions_of(config).attach_command(name))


def reopen_session(config: Config, client: Client) -> str:
    """Open the scheduler's session again if it died. Return a warning if it cannot be opened."""
    from weft.workspace.locks import tasks_locked

    try:
        with tasks_locked(client.paths.runtime, config):
            return open_session(config, client, client.gpus().position)[1]
    except Refused:
        return ""  # the command that holds the lock opens it


def close_sessions(config: Config) -> int:
    """Close all sessions of the workspace. Return their number."""
    from weft.workspace.sessions.backends import sessions_of
    from weft.workspace.sessions.display import SessionDisplay

    sessions = sessions_of(config)
    return 0 if sessions.why_not() else SessionDisplay(config, user_paths(), sessions).close_all()


def append_log(config: Config, text: str) -> None:
    """Append a line to the scheduler's log."""
    from weft.workspace.task.log_files import format_line, open_log

    if not config.is_on("enable_logging"):
        return
    try:
        handle, _ = open_log(str(config.path("log_dir")), f"{config.scheduler_session}.log", config.group)
    except OSError:
        return
    try:
        os.write(handle, format_line(text))
    finally:
        os.close(handle)
