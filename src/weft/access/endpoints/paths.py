"""Paths of a user's scheduler: its state, its sockets and its lock, in private XDG folders.

Paths are text until a caller asks for a `Path`: commands need few of them, and importing pathlib takes 3 ms.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from weft.errors import InputError, WeftError
from weft.inputs.atomic import StrPath, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

try:  # hashlib loads OpenSSL, which is slow to import
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256 as _sha256

JOURNAL_FILE: Final = "state.db"
RUNTIME_FILE: Final = "runtime"
SOCKET_FILE: Final = "weft.sock"
JOBS_FOLDER: Final = "jobs"
MAX_SOCKET_BYTES: Final = 100
"""The kernel limits the path of a socket to 107 bytes."""


class Paths:
    """The files of one scheduler."""

    def __init__(self, state: StrPath, runtime: StrPath, journal: str = "", blobs: str = "") -> None:
        self._blobs = blobs
        self._state, self._runtime = os.fspath(state), os.fspath(runtime)
        self.journal = journal
        """The URL or path of the journal; empty if it is in the state folder."""
        self.socket_name = os.path.join(self._runtime, SOCKET_FILE)
        """The same as `socket`, as text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paths) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return f"Paths{self._parts()!r}"

    def _parts(self) -> tuple[str, str, str]:
        return self._state, self._runtime, self.journal

    @property
    def state(self) -> Path:
        return _path(self._state)

    @property
    def runtime(self) -> Path:
        return _path(self._runtime)

    @property
    def journal_url(self) -> str:
        return self.journal or os.path.join(self._state, JOURNAL_FILE)

    def has_journal(self) -> bool:
        """Return whether a scheduler has left a journal here."""
        return os.path.exists(os.path.join(self._state, JOURNAL_FILE))

    def has_state(self) -> bool:
        """Return whether a scheduler has left a journal here, or runs whose journal is lost."""
        if self.has_journal():
            return True
        try:
            with os.scandir(os.path.join(self._state, JOBS_FOLDER)) as entries:
                return any(True for _ in entries)
        except OSError:
            return False

    @property
    def jobs(self) -> Path:
        return self.state / JOBS_FOLDER

    @property
    def blobs(self) -> Path:
        """Files that submitters have uploaded."""
        return _path(self._blobs) if self._blobs else self.state / "blobs"

    @property
    def batches(self) -> Path:
        """Batches of jobs that are being journalled."""
        return self.state / "batches"

    @property
    def server_log(self) -> Path:
        return self.state / "server.log"

    @property
    def lock(self) -> Path:
        return _path(self._lock)

    @property
    def _lock(self) -> str:
        return os.path.join(self._state, "server.lock")

    @property
    def socket(self) -> Path:
        return _path(self.socket_name)

    @property
    def progress(self) -> Path:
        """The socket to which jobs report their progress."""
        return self.runtime / "progress.sock"

    def check_private(self) -> None:
        """Raise WeftError if another user could have created the folders or the socket."""
        for path in (os.path.dirname(self._runtime), self._runtime, self.socket_name):
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
                probe.connect(self.socket_name)
            except BlockingIOError:
                return True
            except OSError:
                return False
        return True

    def suspended_pid(self) -> int | None:
        """Return the scheduler's pid if a signal has suspended it: it would never answer."""
        text = self.lock_text()
        try:
            state = _read_text(f"/proc/{int(text)}/stat").rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        return int(text) if state in ("T", "t") else None

    def lock_text(self) -> str:
        """Return the text in the lock file.

        The text is the pid of a scheduler that runs or died. A scheduler that was stopped leaves `stopped` if some jobs
        had not ended, and an empty file otherwise.
        """
        try:
            return _read_text(self._lock).strip()
        except (OSError, ValueError):
            return ""

    def has_died(self) -> bool:
        """Return whether the last scheduler died: it holds no lock and did not record its end."""
        return self.lock_text().isdecimal() and not self.answers() and not self._is_locked()

    def _is_locked(self) -> bool:
        """Return whether a scheduler holds the lock. It releases the lock after recording its end."""
        from weft.inputs.locks import is_locked  # few commands need it

        return is_locked(self._lock)

    def record_runtime(self) -> None:
        """Record where the sockets are, for commands with another XDG_RUNTIME_DIR, or none: cron, sudo, ssh."""
        write_atomic(os.path.join(self._state, RUNTIME_FILE), os.fsencode(self._runtime))

    def make(self) -> None:
        for folder in (self.state, self.jobs, self.batches, self.runtime.parent, self.runtime):
            make_private(folder)


def user_paths(env: Mapping[str, str] = os.environ) -> Paths:
    """Return the paths of this user's local scheduler, whatever the environment in which it was started."""
    return recorded_paths(absolute(_state_home(env), "weft")) or paths_of(env)


def recorded_paths(state: StrPath) -> Paths | None:
    """Return the paths of the last scheduler with this state if its socket is there, and is this user's."""
    with suppress(OSError, ValueError):
        paths = Paths(state, _read_text(os.path.join(state, RUNTIME_FILE)))
        found = os.lstat(paths.socket_name)
        if os.path.isabs(paths.socket_name) and stat.S_ISSOCK(found.st_mode) and found.st_uid == os.getuid():
            return paths
    return None


def paths_of(env: Mapping[str, str]) -> Paths:
    """Return the paths that this environment gives to the next scheduler."""
    state = absolute(_state_home(env), "weft")
    mark = _sha256(os.fsencode(state)).hexdigest()[:8]
    given = env.get("XDG_RUNTIME_DIR")
    runtime = absolute(given, "weft", mark) if given else ""
    if not runtime or not _fits_socket(runtime):
        runtime = os.path.join(_temporary_folder(), f"weft-{os.getuid()}", mark)
    if not _fits_socket(runtime):
        raise InputError(
            f"{runtime} is too long for the path of a socket", hint="set XDG_RUNTIME_DIR or TMPDIR to a shorter path"
        )
    return Paths(state, runtime)


def server_folder(port: int, env: Mapping[str, str] = os.environ) -> Path:
    """Return the state folder of the cluster scheduler that this user runs at a port."""
    return _path(server_folder_name(port, env))


def server_folder_name(port: int, env: Mapping[str, str] = os.environ) -> str:
    """Return the same as `server_folder`, as text."""
    return absolute(_state_home(env), "weft", "servers", str(port))


def _state_home(env: Mapping[str, str]) -> str:
    return env.get("XDG_STATE_HOME") or os.path.join(home_folder(env), ".local", "state")


def absolute(*parts: str) -> str:
    """Join parts to an absolute path as `Path(*parts).absolute()` does: `..` stays, because of links."""
    path = os.path.join(*parts)
    path = path if path.startswith("/") else os.path.join(os.getcwd(), path)
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))


def _temporary_folder() -> str:
    """Return the folder that `tempfile.gettempdir` chooses: importing tempfile takes longer than a call."""
    given = [os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")]
    for folder in (*given, "/tmp", "/var/tmp", "/usr/tmp"):
        if folder and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return os.path.abspath(folder)
    return os.getcwd()


def _path(name: str) -> Path:
    from pathlib import Path

    return Path(name)


def _read_text(name: str) -> str:
    with open(name) as file:
        return file.read()


def _fits_socket(runtime: str) -> bool:
    return len(os.fsencode(os.path.join(runtime, "progress.sock"))) <= MAX_SOCKET_BYTES


def home_folder(env: Mapping[str, str]) -> str:
    found = env.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(found):
        raise InputError("no home directory for the state", hint="set HOME or XDG_STATE_HOME")
    return found


def make_parents(folder: Path, mode: int) -> None:
    """Create the missing parents of a folder with this mode, whatever the umask."""
    for parent in reversed([parent for parent in folder.parents if not parent.exists()]):
        parent.mkdir(exist_ok=True)
        parent.chmod(mode)


def make_private(folder: Path) -> None:
    """Create a folder that only its owner can enter, or make an existing one private."""
    make_parents(folder, 0o700)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise WeftError(
            f"{folder} is not a directory that you own\n  remove it, or set XDG_STATE_HOME and XDG_RUNTIME_DIR"
        )
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)
