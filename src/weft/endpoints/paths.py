"""Paths of a user's scheduler: its state, its sockets and its lock, in private XDG folders."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from weft.errors import InputError, WeftError

try:  # hashlib loads OpenSSL, which is slow to import
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256 as _sha256

JOURNAL_FILE: Final = "state.db"
MAX_SOCKET_BYTES: Final = 100
"""The kernel limits the path of a socket to 107 bytes."""


class Paths(NamedTuple):
    """The files of one scheduler."""

    state: Path
    runtime: Path
    journal: str = ""
    """The URL or path of the journal; empty if it is in the state folder."""

    @property
    def journal_url(self) -> str:
        return self.journal or str(self.state / JOURNAL_FILE)

    def has_state(self) -> bool:
        """Return whether a scheduler has left a journal here."""
        return (self.state / JOURNAL_FILE).exists()

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

    @property
    def batches(self) -> Path:
        """Batches of jobs that are being journalled."""
        return self.state / "batches"

    @property
    def server_log(self) -> Path:
        return self.state / "server.log"

    @property
    def lock(self) -> Path:
        return self.state / "server.lock"

    @property
    def socket(self) -> Path:
        return self.runtime / "weft.sock"

    @property
    def progress(self) -> Path:
        """The socket to which jobs report their progress."""
        return self.runtime / "progress.sock"

    def check_private(self) -> None:
        """Raise WeftError if another user could have created the folders or the socket."""
        for path in (self.runtime.parent, self.runtime, self.socket):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                return
            theirs = found.st_uid != os.getuid() or stat.S_ISLNK(found.st_mode)
            if theirs or (stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022):
                raise WeftError(
                    f"other users may write to {path}\n  remove it, or set XDG_RUNTIME_DIR to a private folder"
                )

    def answers(self) -> bool:
        """Return whether a scheduler accepts connections at the socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # a suspended scheduler's backlog may be full: do not wait for a place in it
            try:
                probe.connect(str(self.socket))
            except BlockingIOError:
                return True
            except OSError:
                return False
        return True

    def suspended_pid(self) -> int | None:
        """Return the scheduler's pid if a signal has suspended it: it would never answer."""
        text = self.lock_text()
        try:
            state = Path(f"/proc/{int(text)}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        return int(text) if state in ("T", "t") else None

    def lock_text(self) -> str:
        """Return the text in the lock file.

        The text is the pid of a scheduler that runs or died. A scheduler that was stopped leaves `stopped` if some jobs
        had not ended, and an empty file otherwise.
        """
        try:
            return self.lock.read_text().strip()
        except (OSError, ValueError):
            return ""

    def has_died(self) -> bool:
        """Return whether the last scheduler died: it holds no lock and did not record its end."""
        return self.lock_text().isdecimal() and not self.answers() and not self._is_locked()

    def _is_locked(self) -> bool:
        """Return whether a scheduler holds the lock. It releases the lock after recording its end."""
        from weft.inputs.locks import is_locked  # few commands need it

        return is_locked(self.lock)

    def make(self) -> None:
        for folder in (self.state, self.jobs, self.batches, self.runtime.parent, self.runtime):
            make_private(folder)


def user_paths(env: Mapping[str, str] = os.environ) -> Paths:
    """Return the paths of this user's local scheduler."""
    state = Path(env.get("XDG_STATE_HOME") or Path(home_folder(env), ".local", "state"), "weft").absolute()
    mark = _sha256(os.fsencode(state)).hexdigest()[:8]
    given = env.get("XDG_RUNTIME_DIR")
    runtime = Path(given, "weft", mark).absolute() if given else None
    if runtime is None or len(os.fsencode(runtime / "progress.sock")) > MAX_SOCKET_BYTES:
        import tempfile  # takes 5 ms to import

        runtime = Path(tempfile.gettempdir(), f"weft-{os.getuid()}", mark)
    if len(os.fsencode(runtime / "progress.sock")) > MAX_SOCKET_BYTES:
        raise InputError(
            f"{runtime} is too long for the path of a socket", hint="set XDG_RUNTIME_DIR or TMPDIR to a shorter path"
        )
    return Paths(state, runtime)


def server_folder(port: int, env: Mapping[str, str] = os.environ) -> Path:
    """Return the state folder of the cluster scheduler that this user runs at a port."""
    state = env.get("XDG_STATE_HOME") or Path(home_folder(env), ".local", "state")
    return Path(state, "weft", "servers", str(port)).absolute()


def home_folder(env: Mapping[str, str]) -> str:
    found = env.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(found):
        raise InputError("no home directory for the state", hint="set HOME or XDG_STATE_HOME")
    return found


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter, or make an existing one private."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise WeftError(
            f"{folder} is not a directory that you own\n  remove it, or set XDG_STATE_HOME and XDG_RUNTIME_DIR"
        )
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)
