"""The user's own output files: opened before the command starts, with a link to each in the run's directory.

Later runs append. `NAME.begin` says where the output of this run begins, so that readers leave out earlier runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from typing import Any, Final

from weft.node.engine.shim import run_files
from weft.node.engine.shim.launch import NOT_EXECUTABLE, LaunchError
from weft.node.engine.users.accounts import Account
from weft.node.engine.users.file_rights import rights_of
from weft.node.engine.users.run_folder import give_to

BAD_OUTPUT: Final = "bad-output"


def can_enter(folder: str, account: Account | None) -> bool:
    """Return whether this is a folder that the user of the run reaches."""
    with rights_of(account):
        return os.path.isdir(folder)


def open_outputs(spec: dict[str, Any], folder: str, log: int, account: Account | None = None) -> tuple[int, int]:
    """Return descriptors of standard output and standard error. Without files of the user both are `log`.

    Files of the user are opened with the rights of `account`; None: with those of this process.
    """
    output = _resolve(folder, spec["output"])
    error = _resolve(folder, spec["error"])
    out = err = log
    if output:
        out = err = _open_and_link(output, run_files.LOG, spec["umask"], account, append=spec["output_append"])
    if error and _is_same(error, out, account):
        _link(error, run_files.ERROR_LOG, run_files.read_begin(run_files.LOG), account)
    elif error:
        try:
            err = _open_and_link(error, run_files.ERROR_LOG, spec["umask"], account, append=spec["error_append"])
        except LaunchError:
            if out != log:
                os.close(out)
            raise
    return out, err


def _resolve(folder: str, name: str) -> str:
    return os.path.join(folder, name) if name else ""


def _is_same(path: str, handle: int, account: Account | None) -> bool:
    try:
        with rights_of(account):
            return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _open_and_link(path: str, link: str, umask: int, account: Account | None, *, append: bool) -> int:
    previous_umask = os.umask(umask)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
    try:
        # without O_NONBLOCK a named pipe that nothing reads would stop the shim here
        with rights_of(account):
            handle = os.open(path, flags | (0 if append else os.O_TRUNC), 0o666)
    except OSError as error:
        raise _launch_error(path, error, account) from None
    finally:
        os.umask(previous_umask)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) and not _is_null(found):
            raise LaunchError(NOT_EXECUTABLE, BAD_OUTPUT, f"cannot write output to {path!r}: it is not a regular file")
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) & ~os.O_NONBLOCK)
        _link(path, link, found.st_size, account)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _is_null(found: os.stat_result) -> bool:
    null = os.stat(os.devnull)
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == null.st_rdev


def _link(path: str, link: str, begin: int, account: Account | None) -> None:
    """Make `link`, in the run's directory, a link to the user's file, from `begin` on. The link belongs to the user:
    its owner says with which rights to follow it."""
    if begin:
        run_files.write_new(f"{link}{run_files.BEGIN_SUFFIX}", b"%d" % begin)
    temporary = f"{link}.new"
    os.symlink(path, temporary)
    give_to(temporary, account)
    os.rename(temporary, link)


def _launch_error(path: str, error: OSError, account: Account | None) -> LaunchError:
    folder = os.path.dirname(path)
    if error.errno in (errno.ENOENT, errno.ENOTDIR) and not can_enter(folder, account):
        detail = f"cannot write output to {path!r}: there is no directory {folder!r} on this node: create it first"
    else:
        detail = f"cannot write output to {path!r}: {error.strerror}"
    return LaunchError(NOT_EXECUTABLE, BAD_OUTPUT, detail)
