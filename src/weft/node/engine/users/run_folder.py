"""The folder of a run: its files, and which of them belong to the run's user.

On a node that runs jobs as their submitters, root owns the folders of jobs and runs. The user's group may enter them,
and find there what belongs to the user alone: `work`, the checkpoints, the log and the parameters.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from weft.errors import InputError
from weft.node.engine.shim import run_files
from weft.node.engine.users.accounts import Account, account_of

ENTER_ONLY: Final = 0o710
MAX_ENTRIES: Final = 10_000
"""The files and folders of checkpoints whose time is read."""
TICK_S: Final = 0.01
"""The kernel stamps files with a clock that is this much behind at most."""


def fill(spec: Mapping[str, Any], raw: bytes, account: Account | None) -> int:
    """Write the files of a run into the current directory, and return the descriptor of its log."""
    run_files.write_new(run_files.SPEC, raw)
    if spec["params"]:
        _write(run_files.PARAMS, run_files.to_json(spec["params"]), account)
    if spec["hostfile"]:
        _write(run_files.HOSTFILE, spec["hostfile"].encode(), account)
    make_user_folder(f"../{run_files.CHECKPOINTS}", account)
    log = os.open(run_files.LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if account is not None:
        os.fchown(log, account.uid, account.gid)
        make_user_folder(run_files.WORK, account)
        for folder in ("..", "."):
            admit(folder, account)
    return log


def prepare(run_dir: str, account: Account) -> str:
    """Create the folders of a run before its shim does, and return the one that belongs to the user."""
    run_files.make_run_dir(run_dir)
    work = f"{run_dir}/{run_files.WORK}"
    make_user_folder(work, account)
    for folder in (os.path.dirname(run_dir), run_dir):
        admit(folder, account)
    return work


def admit(folder: str, account: Account) -> None:
    """Let the user's group enter a folder of root's."""
    os.chown(folder, -1, account.gid)
    os.chmod(folder, ENTER_ONLY)


def make_user_folder(path: str, account: Account | None) -> None:
    """Create a folder that only the user can enter. Its parent is root's, so that nothing can take its place."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    give_to(path, account)


def give_to(path: str, account: Account | None) -> None:
    """Make the user the owner of a file or folder in a folder of root's."""
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def owner(run_dir: str) -> Account | None:
    """Return the account of a run by the owner of its folder; None: that of this process."""
    return account_of_file(f"{run_dir}/{run_files.WORK}")


def account_of_file(path: str) -> Account | None:
    """Return the account that owns a file, to open it with no more than its rights; None: that of this process.

    An account that was removed has the rights of its number alone.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if found.st_uid == os.geteuid():
        return None
    try:
        return account_of(found.st_uid)
    except InputError:
        return Account(found.st_uid, found.st_gid, ())


def owner_uid(run_dir: str) -> int:
    """Return the number of the user that a run's processes have."""
    try:
        return os.lstat(f"{run_dir}/{run_files.WORK}").st_uid
    except OSError:
        return os.geteuid()


def is_done(account: Account | None) -> bool:
    """Return whether the run in the current directory has reported that its job is done."""
    name = run_files.DONE if account is None else f"{run_files.WORK}/{run_files.DONE}"
    return os.path.lexists(name)


def has_checkpoint(since: float) -> bool:
    """Return whether the run in the current directory has written among the checkpoints of its job since then."""
    walk = os.walk(f"../{run_files.CHECKPOINTS}")
    entries = ((path, name) for path, folders, files in walk for name in (*folders, *files))
    for path, name in islice(entries, MAX_ENTRIES):
        with contextlib.suppress(OSError):
            if name != run_files.UNSENT and os.lstat(f"{path}/{name}").st_mtime >= since - TICK_S:
                return True
    return False


def _write(path: str, content: bytes, account: Account | None) -> None:
    run_files.write_new(path, content)
    give_to(path, account)
