"""The seam between Weft and the scheduler of a site: three verbs, and a check that it could work.

Providers block. The server calls them in threads.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from weft.errors import Refused
from weft.model import NodeId
from weft.model.pool import Pool

ProviderPhase = Literal["pending", "running", "ended"]
CALL_TIMEOUT_S: Final = 30.0
LOG_LINES: Final = 20
MAX_LOG_CHARS: Final = 2000


class ProviderError(Refused):
    """The provider of a pool did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class Site:
    """The settings that all pools of one scheduler have in common."""

    cluster: str
    """The name of the journal. Names of allocations begin with it, so that two schedulers do not meet."""
    address: str
    """Where workers find the scheduler."""
    is_loopback: bool
    weft: tuple[str, ...]
    """The command that starts Weft on a node."""
    is_shared: bool = False
    """True: other servers may take over. The folder of one server is not that of another."""

    def name_of(self, key: str) -> str:
        """Return the name of an allocation for the provider."""
        return f"weft:{self.cluster}:{key}"

    def key_of(self, name: str) -> str:
        """Return the key in the name of an allocation; empty if it is not one of this scheduler."""
        prefix = self.name_of("")
        return name.removeprefix(prefix) if name.startswith(prefix) else ""


@dataclass(frozen=True, slots=True)
class AllocationSpec:
    """A request for one node."""

    key: str
    slot: NodeId
    pool: Pool
    site: Site
    folder: str
    """The folder of the pool, on a file system that the server and its nodes share."""

    @property
    def name(self) -> str:
        return self.site.name_of(self.key)

    @property
    def log(self) -> str:
        return os.path.join(self.folder, "logs", f"{self.key}.log")


@dataclass(frozen=True, slots=True)
class AllocationStatus:
    key: str
    id: str
    phase: ProviderPhase
    how: str = ""
    """The provider's word for its state."""
    reason: str = ""
    """Why it waits."""
    ends_at: float | None = None
    """When its time is over, in seconds since 1970; None: unknown."""


class Provider(Protocol):
    title: str
    """Its name in messages."""

    def request(self, allocation: AllocationSpec) -> str:
        """Ask for a node and return the provider's id. The name of the request is that of the spec."""

    def release(self, id: str) -> None:
        """Give an allocation back. One that has ended is no error."""

    def observe(self) -> Sequence[AllocationStatus]:
        """Return all allocations of this scheduler that the provider knows, those that ended lately included."""

    def check(self, allocation: AllocationSpec) -> None:
        """Raise if requests could not work: a program is missing, the site refuses the options, ..."""

    def script(self, allocation: AllocationSpec) -> str:
        """Return what an allocation runs, for a reader."""

    def log(self, allocation: AllocationSpec, id: str) -> str:
        """Return the last lines that an allocation wrote; empty if there are none."""


def run(command: Sequence[str], *, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
    """Run a command of the provider and return its output. Raise ProviderError with its message."""
    shown = command[0]
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, errors="replace", timeout=CALL_TIMEOUT_S, check=False,
            env=env,
        )  # fmt: skip
    except FileNotFoundError:
        raise ProviderError(
            f"{shown} is not installed here\n  the pool needs it on the machine of the scheduler"
        ) from None
    except subprocess.TimeoutExpired:
        raise ProviderError(f"{shown} did not answer within {CALL_TIMEOUT_S:.0f} s") from None
    except OSError as error:
        raise ProviderError(f"cannot run {shown}: {error.strerror or error}") from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split())[:500]
        raise ProviderError(f"{shown} failed with code {done.returncode}: {words}")
    return done.stdout


def last_lines(path: str) -> str:
    """Return the last lines of a file; empty if there is none."""
    try:
        with open(path, "rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - MAX_LOG_CHARS, 0))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return cut(text)


def cut(text: str) -> str:
    """Return the last lines of a log."""
    return "\n".join(text[-MAX_LOG_CHARS:].rstrip().splitlines()[-LOG_LINES:])
