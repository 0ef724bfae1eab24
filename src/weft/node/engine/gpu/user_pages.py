"""Device pages of runs that use the accounts of their submitters: one for each GPU and user.

Such a page belongs to its user, whose processes write to it. The user could shrink it, fill it with anything or hold
its lock for ever, so the engine neither maps nor locks it: it reads copies. Processes free the slots of dead ones, and
the engine removes the page after the user's last run on the GPU.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

from weft.node.engine.users.accounts import Account
from weft.node.engine.users.run_folder import give_to
from weft.train.device_page import layout

ENTER_ONLY: Final = 0o711


class UserPages:
    """The pages in a folder of root's, which users may enter and not list."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def make(self, gpu: int, account: Account, rule: str) -> str:
        """Create the page of a user on a GPU, unless there is one, and return its path."""
        path = self._path(gpu, account.uid)
        os.makedirs(self._folder, exist_ok=True)
        os.chmod(self._folder, ENTER_ONLY)
        if self._read(path, account.uid) is not None:
            return path
        partial = f"{path}.new"
        with suppress(FileNotFoundError):
            os.unlink(partial)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, layout.create(rule))
        finally:
            os.close(handle)
        give_to(partial, account)
        os.rename(partial, path)  # in place of a damaged one: processes that use that keep theirs
        return path

    def slots(self, gpu: int, uid: int) -> list[layout.Slot]:
        """Return the claimed slots of a page, as its user wrote them."""
        found = self._read(self._path(gpu, uid), uid)
        return [] if found is None else list(layout.slots(found))

    def remove(self, gpu: int, uid: int) -> None:
        """Remove the page of a user who has no run on the GPU any more."""
        with suppress(OSError):
            os.unlink(self._path(gpu, uid))

    def _path(self, gpu: int, uid: int) -> str:
        return f"{self._folder}/gpu-{gpu}.{uid}"

    def _read(self, path: str, uid: int) -> bytearray | None:
        """Return a copy of a page; None: there is no valid one of this user."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            if os.fstat(handle).st_uid != uid:
                return None
            found = bytearray(os.pread(handle, layout.SIZE, 0))
            layout.check(found)
        except (OSError, layout.BadPage):
            return None
        finally:
            os.close(handle)
        return found
