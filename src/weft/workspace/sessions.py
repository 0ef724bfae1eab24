"""tmux sessions: they show tasks, and nothing depends on them. No command is ever typed into one.

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
"""The option of a session that says whose it is."""
PATIENCE_S: Final = 10.0
LONGEST: Final = 200
"""Signs that a name may have here; tmux itself takes a few more."""
SIZE: Final = ("200", "50")
_PLAIN: Final = frozenset("-_+=@%,")


class Session(NamedTuple):
    name: str
    tag: str


class Sessions(Protocol):
    """Where tasks are shown."""

    def why_not(self) -> str:
        """Empty where it can be used; else a warning."""

    def all(self) -> list[Session]: ...

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:
        """Shows what a command writes, in a session that stays when it ends; False where that cannot be had."""

    def close(self, name: str) -> None: ...

    def attach_command(self, name: str) -> list[str]:
        """What a person's terminal is to run; empty where there is nothing to attach to."""


class Tmux:
    """The user's default tmux server."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = {key: value for key, value in env.items() if key != "TMUX"}
        parent = os.path.realpath(env.get("TMUX_TMPDIR") or "/tmp")
        socket = os.path.join(parent, f"tmux-{os.getuid()}", "default")
        self._inside = env.get("TMUX", "").partition(",")[0] == socket
        self._program = shutil.which("tmux", path=env.get("PATH")) or ""

    def why_not(self) -> str:
        return (
            "" if self._program else "tmux is not installed: tasks run all the same, but have no sessions to attach to"
        )

    def all(self) -> list[Session]:
        form = f"#{{session_name}}\t#{{{TAG}}}"
        lines = self._tmux("list-sessions", "-F", form).splitlines()
        return [Session(name, tag) for name, _, tag in (line.partition("\t") for line in lines)]

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:
        width, height = SIZE
        made = self._run(
            "new-session", "-d", "-s", name, "-x", width, "-y", height, "--", *map(_whole, command), ";",
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
                text=True, errors="replace", timeout=PATIENCE_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired):
            return None


class NoSessions:
    """`session_backend: none`."""

    def why_not(self) -> str:
        return "session_backend is none: tasks have no sessions"

    def all(self) -> list[Session]:
        return []

    def open(self, name: str, tag: str, command: Sequence[str]) -> bool:  # noqa: ARG002
        return False

    def close(self, name: str) -> None:
        """There is none."""

    def attach_command(self, name: str) -> list[str]:  # noqa: ARG002
        return []


def sessions_of(config: Config) -> Sessions:
    """Where the tasks of a workspace are shown."""
    return backend(config.text("session_backend"), config.home, where=config.origins["session_backend"])


def backend(name: str, home: Path | None = None, *, where: str = "") -> Sessions:
    """The backend of that name. One of the user's own may lie in the workspace, or wherever Python finds it."""
    if name == "tmux":
        return Tmux()
    if name == "none":
        return NoSessions()
    module, colon, attribute = name.partition(":")
    if home is not None and str(home) not in sys.path:
        sys.path.append(str(home))
    try:
        if not colon:
            raise ValueError("it is neither tmux nor none")
        made: Sessions = getattr(importlib.import_module(module), attribute)()
    except Exception as error:
        raise InputError(
            f"bad session_backend {name[:80]!r}: {error}", where=where, hint="tmux, none, or module:Class"
        ) from None
    return made


def _whole(word: str) -> str:
    """As tmux takes it: a semicolon at the end of a word would end the command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def plain(name: str, end: str = "") -> str:
    """A name that tmux takes as it is: it splits targets at colons and dots, and reads some other signs.

    Of one that is too long the middle is replaced by a mark that no other has; `end` stays.
    """
    kept = "".join(c if c.isalnum() or c in _PLAIN else "_" for c in name)
    if len(kept) + len(end) > LONGEST:
        mark = hashlib.sha256(name.encode(errors="surrogateescape")).hexdigest()[:8]
        kept = f"{kept[: LONGEST - len(end) - len(mark) - 1]}_{mark}"
    return f"{kept}{end}" or "_"
