"""tmux sessions that show tasks. Nothing depends on them, and no command is ever typed into one.

Another backend is a class with the methods of `Sessions`; `session_backend: module:Class` names it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from weft.errors import InputError
from weft.workspace.config import Config

TAG: Final = "@weft"
"""The tmux option of a session that holds its tag."""
TMUX_TIMEOUT_S: Final = 10.0
MAX_NAME_CHARS: Final = 200
"""Limit for session names; tmux accepts a few more."""
SIZE: Final = ("200", "50")
"""Columns and lines of a session without a terminal."""
_SAFE_SIGNS: Final = frozenset("-_+=@%,")


class Session(NamedTuple):
    name: str
    tag: str
    """The text of a `Tag`; empty for sessions that are not Weft's."""


class Sessions(Protocol):
    """A session backend."""

    def why_not(self) -> str:
        """Return a warning if the backend cannot be used; else an empty text."""

    def all(self) -> list[Session]:
        """Return all sessions."""

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:
        """Show the output of a command in a session that stays after it ends. Return False if that fails."""

    def close(self, name: str) -> None:
        """Close a session."""

    def attach_command(self, name: str) -> list[str]:
        """Return the command that attaches a terminal; empty if there is nothing to attach to."""


class Tmux:
    """The user's default tmux server."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = {key: value for key, value in env.items() if key != "TMUX"}
        parent = os.path.realpath(env.get("TMUX_TMPDIR") or "/tmp")
        socket = os.path.join(parent, f"tmux-{os.getuid()}", "default")
        self._inside = env.get("TMUX", "").partition(",")[0] == socket
        self._program = shutil.which("tmux", path=env.get("PATH")) or ""

    def why_not(self) -> str:
        return "" if self._program else "tmux is not installed; tasks run, but have no sessions to attach to"

    def all(self) -> list[Session]:
        form = f"#{{session_name}}\t#{{{TAG}}}"
        lines = self._tmux("list-sessions", "-F", form).splitlines()
        return [Session(name, tag) for name, _, tag in (line.partition("\t") for line in lines)]

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:
        width, height = SIZE
        made = self._run(
            "new-session", "-d", "-s", name, "-x", width, "-y", height, "--", *map(_escape, command), ";",
            "set-option", "-t", f"={name}:", TAG, tag, ";",
            "set-option", "-w", "-t", f"={name}:", "remain-on-exit", "on",
        )  # fmt: skip
        return made is not None and made.returncode == 0

    def close(self, name: str) -> None:
        self._run("kill-session", "-t", f"={name}")

    def attach_command(self, name: str) -> list[str]:
        if self._inside:
            return [self._program, "-u", "switch-client", "-t", f"={name}"]
        return ["env", "-u", "TMUX", self._program, "-u", "attach-session", "-t", f"={name}"]

    def _tmux(self, *words: str) -> str:
        done = self._run(*words)
        return done.stdout if done is not None and done.returncode == 0 else ""

    def _run(self, *words: str) -> subprocess.CompletedProcess[str] | None:
        if not self._program:
            return None
        try:
            return subprocess.run(
                [self._program, "-u", *words], env=self._env, cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors="replace", timeout=TMUX_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None


class NoSessions:
    """The backend without sessions: `session_backend: none`."""

    def why_not(self) -> str:
        return "session_backend is none: tasks have no sessions"

    def all(self) -> list[Session]:
        return []

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:  # noqa: ARG002
        return False

    def close(self, name: str) -> None:
        """Do nothing."""

    def attach_command(self, name: str) -> list[str]:  # noqa: ARG002
        return []


def sessions_of(config: Config) -> Sessions:
    """Return the session backend of a workspace."""
    return load_backend(config.text("session_backend"), config.home, where=config.origins["session_backend"])


def load_backend(name: str, home: Path | None = None, *, where: str = "") -> Sessions:
    """Return the backend of this name. `module:Class` is imported from the workspace or from Python's path."""
    if name == "tmux":
        return Tmux()
    if name == "none":
        return NoSessions()
    module, colon, attribute = name.partition(":")
    if home is not None and str(home) not in sys.path:
        sys.path.append(str(home))
    try:
        if not colon:
            raise ValueError("neither tmux, none nor module:Class")
        made: Sessions = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise InputError(
            f"bad session_backend {name[:80]!r}: {error}", where=where, hint="use tmux, none, or module:Class"
        ) from None
    return made


def _escape(word: str) -> str:
    """Escape a semicolon at the end of a word, which would end the command of tmux."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def session_name(name: str, end: str = "") -> str:
    """Return a name that tmux accepts: without the colons and dots that split targets, and other special signs.

    If the name is too long, a hash replaces its last part; `end` stays.
    """
    kept = "".join(c if c.isalnum() or c in _SAFE_SIGNS else "_" for c in name)
    if len(kept) + len(end) > MAX_NAME_CHARS:
        suffix = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
        kept = f"{kept[: MAX_NAME_CHARS - len(end) - len(suffix) - 1]}_{suffix}"
    return f"{kept}{end}" or "_"
