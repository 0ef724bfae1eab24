"""The rights of an account on files, for one thread at a time: the kernel checks paths as it would for the user.

A worker that runs as root reads and writes in a user's folders only with these rights. A link that the user puts there
then leads no further than the user could go.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Final

from weft.node.engine.users.accounts import Account

_SETGROUPS: Final = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "ppc64le": 81, "s390x": 206}
"""The number of the system call: the function of the C library changes all threads of the process."""
_libc: Final = ctypes.CDLL(None, use_errno=True)


def is_supported() -> bool:
    """Return whether the rights of one thread can be changed on this kind of machine."""
    return os.uname().machine in _SETGROUPS


@contextlib.contextmanager
def rights_of(account: Account | None) -> Iterator[None]:
    """Open files with the rights of an account within; None: with those of this process."""
    if account is None:
        yield
        return
    before = os.getgroups()
    try:
        _set_groups(account.groups)
        _libc.setfsgid(account.gid)
        _libc.setfsuid(account.uid)
        if _libc.setfsuid(-1) != account.uid or _libc.setfsgid(-1) != account.gid:
            raise PermissionError(1, f"cannot take the rights of user {account.uid}")
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())
        _set_groups(before)


def _set_groups(groups: tuple[int, ...] | list[int]) -> None:
    number = _SETGROUPS.get(os.uname().machine)
    if number is None:
        raise PermissionError(1, f"cannot change the groups of a thread on {os.uname().machine}")
    if _libc.syscall(number, len(groups), (ctypes.c_uint * len(groups))(*groups)):
        failed = ctypes.get_errno()
        raise OSError(failed, os.strerror(failed))
