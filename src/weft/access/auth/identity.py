"""The identity of a caller. It comes from the credential of the call, never from the content of a request."""

from __future__ import annotations

import getpass
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from weft.errors import NotPermitted
from weft.model import Job

Role = Literal["admin", "user", "worker"]
ROLES: Final[tuple[Role, ...]] = ("admin", "user", "worker")


@dataclass(frozen=True, slots=True)
class Caller:
    """The user and role behind a call."""

    user: str
    role: Role
    node: str = ""
    """The only node that a worker may register; `POOL-*`: the nodes of a pool."""
    key: str = ""
    """The id of the token; empty if none was needed."""

    def may_register(self, node: str) -> bool:
        """Return whether the caller may register this node: a worker its own, or any of its pool."""
        if self.role != "worker" or self.node == node:
            return True
        pool, star, _ = self.node.rpartition("-*")
        prefix, _, number = node.rpartition("-")
        return bool(star) and prefix == pool and number.isascii() and number.isdecimal()

    def owns(self, user: str) -> bool:
        """Return whether the caller may change what belongs to this user."""
        return self.role == "admin" or (self.role == "user" and self.user == user)


def check_owner(who: Caller, job: Job) -> None:
    """Raise unless the caller may change this job."""
    if not who.owns(job.user):
        raise NotPermitted(
            f"job {job.id} belongs to {job.user}, and you are {who.user}\n  only its owner and admins may do that"
        )


_CALLER: Final[ContextVar[Caller]] = ContextVar("caller")


def caller() -> Caller:
    """Return the caller of the current call. Raise if the call was not authenticated."""
    return _CALLER.get()


def set_caller(who: Caller) -> None:
    """Set the caller for the rest of this call."""
    _CALLER.set(who)


@cache
def owner() -> Caller:
    """Return the user who runs this server."""
    return Caller(getpass.getuser(), "admin")
