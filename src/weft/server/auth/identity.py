"""Who asks. It comes from the credential that was shown at the door, never from what a request says of itself."""

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
    user: str
    role: Role
    node: str = ""
    """Of a worker: the only node that it may be."""
    key: str = ""
    """Which token it was; empty: none was needed."""

    def owns(self, user: str) -> bool:
        """Whether it may change what belongs to this user."""
        return self.role == "admin" or (self.role == "user" and self.user == user)


def check_owner(who: Caller, job: Job) -> None:
    """Raises unless it may change this job."""
    if not who.owns(job.user):
        raise NotPermitted(f"job {job.id} is {job.user}'s, and you are {who.user}\n  only they and admins may do that")


_CALLER: Final[ContextVar[Caller]] = ContextVar("caller")


def caller() -> Caller:
    """Of the call that is being answered. Where no door was passed, there is none, and it raises."""
    return _CALLER.get()


def let_in(who: Caller) -> None:
    """For the rest of this call."""
    _CALLER.set(who)


@cache
def owner() -> Caller:
    """The user whose scheduler it is."""
    return Caller(getpass.getuser(), "admin")
