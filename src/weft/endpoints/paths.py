"""Where a user's scheduler keeps its state, and where it listens: XDG, for its owner alone."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from weft.errors import InputError, WeftError

try:  # hashlib loads OpenSSL, which takes longer than all that is done with it here
    from _sha2 import sha256 as _sha256  # type: ignore[import-not-found]
except ImportError:
    try:
        from _sha256 import sha256 as _sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256 as _sha256

JOURNAL: Final = "state.db"
LONGEST_SOCKET: Final = 100
"""The kernel takes no more than 107 bytes as the path of a socket."""


class Paths(NamedTuple):
    state: Path
    runtime: Path
    journal: str = ""
    """The URL or path of the journal where it is not kept with the state."""

    @property
    def journal_url(self) -> str:
        return self.journal or str(self.state / JOURNAL)

    def has_state(self) -> bool:
        """Whether a scheduler has kept its journal here."""
        return (self.state / JOURNAL).exists()

    @property
    def jobs(self) -> Path:
        return self.state / "jobs"

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
        """Where jobs report their progress."""
        return self.runtime / "progress.sock"

    def check(self) -> None:
        """Refuses folders and a socket that others could have put there: whoever listens there is told everything."""
        for path in (self.runtime.parent, self.runtime, self.socket):
            try:
                found = os.lstat(path)
            except FileNotFoundError:
                return
            theirs = found.st_uid != os.getuid() or stat.S_ISLNK(found.st_mode)
            if theirs or (stat.S_ISDIR(found.st_mode) and found.st_mode & 0o022):
                raise WeftError(
                    f"{path} is not yours alone\n  remove it, or set XDG_RUNTIME_DIR to a folder of your own"
                )

    def answers(self) -> bool:
        """Whether somebody listens at the socket."""
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
            except OSError:
                return False
        return True

    def stopped(self) -> int | None:
        """The scheduler's pid, if it is there but stopped: it would never answer."""
        words = self.last_words()
        try:
            state = Path(f"/proc/{int(words)}/stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):
            return None
        return int(words) if state in ("T", "t") else None

    def last_words(self) -> str:
        """What a scheduler left in its lock: its pid while it lives or where it died; `stopped` where it was told to
        end before its jobs had; nothing where all was done."""
        try:
            return self.lock.read_text().strip()
        except (OSError, ValueError):
            return ""

    def has_died(self) -> bool:
        """Return whether the last scheduler died: it holds no lock, and left no word of its end."""
        return self.last_words().isdecimal() and not self.answers() and not self._is_locked()

    def _is_locked(self) -> bool:
        """Return whether a scheduler holds the lock; one that ends holds it until it has said so."""
        import fcntl

        try:
            with open(self.lock) as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def make(self) -> None:
        for folder in (self.state, self.jobs, self.runtime.parent, self.runtime):
            make_private(folder)


def user_paths(env: Mapping[str, str] = os.environ) -> Paths:
    """Of this user, as the environment says."""
    state = Path(env.get("XDG_STATE_HOME") or Path(home(env), ".local", "state"), "weft").absolute()
    mark = _sha256(os.fsencode(state)).hexdigest()[:8]
    given = env.get("XDG_RUNTIME_DIR")
    runtime = Path(given, "weft", mark).absolute() if given else None
    if runtime is None or len(os.fsencode(runtime / "progress.sock")) > LONGEST_SOCKET:
        import tempfile  # with all that it can compress by: 5 ms

        runtime = Path(tempfile.gettempdir(), f"weft-{os.getuid()}", mark)
    if len(os.fsencode(runtime / "progress.sock")) > LONGEST_SOCKET:
        raise InputError(
            f"{runtime} is too long a path for a socket", hint="set XDG_RUNTIME_DIR or TMPDIR to a shorter one"
        )
    return Paths(state, runtime)


def server_folder(port: int, env: Mapping[str, str] = os.environ) -> Path:
    """Where the scheduler of a cluster that this user runs at a port keeps its things."""
    state = env.get("XDG_STATE_HOME") or Path(home(env), ".local", "state")
    return Path(state, "weft", "servers", str(port)).absolute()


def home(env: Mapping[str, str]) -> str:
    home = env.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise InputError("no home directory to keep the state in", hint="set HOME or XDG_STATE_HOME")
    return home


def make_private(folder: Path) -> None:
    """A folder that only its owner can enter. The directory is the lock of what is in it."""
    for missing in reversed([each for each in (folder, *folder.parents) if not each.exists()]):
        missing.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise WeftError(f"{folder} is not a directory of yours\n  remove it, or set XDG_STATE_HOME and XDG_RUNTIME_DIR")
    if found.st_mode & 0o077:
        os.chmod(folder, 0o700)
