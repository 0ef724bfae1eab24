"""The account that a run uses on this node: the user's name, as the scheduler vouches for it, in the user database."""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from weft.errors import InputError

SUBMITTER: Final = "submitter"
WORKER: Final = "worker"
RUN_AS: Final = (SUBMITTER, WORKER)
"""The account of runs: that of their submitter, or that of the worker."""
RUN_AS_VARIABLE: Final = "WEFT_RUN_AS"
BAD_USER: Final = "bad-user"
"""The exit reason of a run whose submitter has no account here that may run jobs."""
OTHER_PYTHONS: Final = ("/usr/bin/python3", "/usr/local/bin/python3")
"""Used for runs of users that cannot execute the Python of this process, for example because it is in root's home."""
_MAX_NAME_CHARS: Final = 80
MIN_UID: Final = 1000
"""The least number of an account that runs jobs: smaller ones are those of the system's own services."""


class Account(NamedTuple):
    """The rights of a run: user, group and further groups."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str = ""
    home: str = "/"
    shell: str = "/bin/sh"

    def to_spec(self) -> list[object]:
        """Return the rights as a shim reads them."""
        return [self.uid, self.gid, list(self.groups)]

    @classmethod
    def from_spec(cls, found: object) -> Self | None:
        """Return the rights in the arguments of a shim; None: the run has the rights of the worker."""
        match found:
            case [int(uid), int(gid), list(groups)] if uid > 0:
                return cls(uid, gid, tuple(int(group) for group in groups))
        return None

    def variables(self) -> dict[str, str]:
        """Return the variables that describe the account."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell}


def may_switch_user() -> bool:
    """Return whether this process may start others as any user."""
    return os.geteuid() == 0


def separates_users(given: str | None, env: Mapping[str, str], *, is_pilot: bool = False) -> bool:
    """Return whether runs use the accounts of their submitters: by default if this process may switch users.

    A pilot runs with the rights of the user whose allocation it is.
    """
    if given is None and env.get(RUN_AS_VARIABLE):
        given = env[RUN_AS_VARIABLE]
        if given not in RUN_AS:
            raise InputError(f"{RUN_AS_VARIABLE}: {given[:40]!r} is neither {' nor '.join(RUN_AS)}")
    if given is None:
        return may_switch_user() and not is_pilot
    if given == SUBMITTER and not may_switch_user():
        raise InputError("only root can run jobs as their submitters", hint="start the worker as root, or leave out "
                         f"--run-as {SUBMITTER}", key="--run-as")  # fmt: skip
    return given == SUBMITTER


def find_account(name: str, min_uid: int = MIN_UID) -> Account:
    """Return the account of a user. Raise InputError if there is none, or if it is root's or the system's."""
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        shown = repr(name[:_MAX_NAME_CHARS])
        hint = "create the account there, or submit with the token of a user that has one"
        raise InputError(f"user {shown} has no account on this node", hint=hint) from None
    account = _account(found)
    if account.uid < min_uid:
        what = f"jobs of {account.name} do not run here: the account has the number {account.uid}, below {min_uid}"
        raise InputError(what, hint=f"submit as another user, or start the worker with --min-uid {account.uid}")
    return account


def account_of(uid: int) -> Account:
    """Return the account with this number. Raise InputError if there is none, or if it is root's."""
    try:
        return _account(pwd.getpwuid(uid))
    except (KeyError, OverflowError):
        raise InputError(f"no account has the number {uid} on this node") from None


def python_for(account: Account | None) -> str:
    """Return a Python that an account can execute: the one of this process if possible."""
    if account is None:
        return sys.executable
    from weft.node.engine.users.file_rights import rights_of  # shims need no interpreter

    for path in (sys.executable, *OTHER_PYTHONS):
        with contextlib.suppress(OSError), rights_of(account):
            if os.stat(path).st_mode & 0o005 == 0o005:
                return path
    return sys.executable


def _account(found: pwd.struct_passwd) -> Account:
    if found.pw_uid == 0:
        hint = "submit as another user, or start the worker with --run-as worker"
        raise InputError(f"jobs of {found.pw_name} do not run here: the account has root's rights", hint=hint)
    groups = tuple(os.getgrouplist(found.pw_name, found.pw_gid))
    return Account(found.pw_uid, found.pw_gid, groups, found.pw_name, found.pw_dir or "/", found.pw_shell or "/bin/sh")
