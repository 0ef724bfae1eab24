"""The folder of the shared GPU ledger: created for all users, and refused if one user can undo the locks of another."""

from __future__ import annotations

import os
import stat
from typing import Final

from weft.errors import InputError

OPEN_TO_ALL: Final = 0o1777
HINT: Final = "all users of this machine: chmod 1777 DIR; one group: chgrp GROUP DIR and chmod 3770 DIR"


def prepare_folder(folder: str) -> bool:
    """Create the folder if it is missing, and return whether it was. Raise InputError if it is not safe to share."""
    try:
        os.mkdir(folder)
    except FileExistsError:
        check_folder(folder)
        return False
    except OSError as error:
        raise InputError(
            f"--shared: cannot create {folder}: {error.strerror}",
            hint="create it as an administrator, then chmod 1777 DIR",
        ) from None
    os.chmod(folder, OPEN_TO_ALL)
    try:
        check_folder(folder)
    except InputError:
        os.rmdir(folder)
        raise
    return True


def check_folder(folder: str) -> None:
    """Raise InputError unless users can share the folder, and none can remove the locks of another."""
    try:
        found = os.stat(folder)
    except OSError as error:
        raise InputError(f"--shared: {folder}: {error.strerror}", hint="weft up --shared DIR creates it") from None
    mode = found.st_mode
    if not stat.S_ISDIR(mode):
        raise InputError(f"--shared: {folder} is not a folder", hint="name a folder for the locks of GPUs")
    if not mode & (stat.S_IWOTH | stat.S_IWGRP):
        raise InputError(f"--shared: no other user can write in {folder}", hint=HINT)
    if not mode & stat.S_ISVTX:
        raise InputError(f"--shared: users can remove each other's locks in {folder}", hint=f"chmod +t {folder}")
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise InputError(f"--shared: you may not write in {folder}", hint=HINT)
    above = os.path.realpath(folder)
    while above != "/":
        above = os.path.dirname(above)
        mode_above = os.stat(above).st_mode
        if mode_above & stat.S_IWOTH and not mode_above & stat.S_ISVTX:
            raise InputError(f"--shared: any user can replace {folder}, because {above} is open to all",
                             hint=f"chmod +t {above}, or use another folder")  # fmt: skip
        if mode & stat.S_IWOTH and not mode_above & stat.S_IXOTH:
            raise InputError(f"--shared: other users cannot reach {folder}, because {above} is closed to them",
                             hint="use another folder, for example below /var/lib")  # fmt: skip
