"""Quotas of users in a cluster: GPUs that their jobs hold, and jobs that wait or run.

Exceptions for single users are in `limits.json`, next to the settings: {"ada": {"gpus": 16, "queued": 500}}; 0 means
no limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from weft.access.server.settings import Settings
from weft.errors import InputError, Refused
from weft.model import Event, Job, Limited, Seconds
from weft.scheduling.core.state.state import State

FILE: Final = "limits.json"
KEYS: Final = ("gpus", "queued")
MAX_VALUE: Final = 1_000_000_000
UNLIMITED_GPUS: Final = MAX_VALUE
"""Sentinel for "unlimited"; overrides the default quota."""
HINT: Final = 'such as {"ada": {"gpus": 16, "queued": 500}}; 0: no limit'


class Quotas:
    """The default quotas and the exceptions."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self._gpus, self._queued = settings.max_gpus_per_user, settings.max_queued_per_user
        self._exceptions = _load(folder / FILE)

    def gpus_of(self, user: str) -> int:
        """Return the GPUs that the jobs of a user may hold; 0: no limit."""
        return self._exceptions.get(user, {}).get("gpus", self._gpus)

    def queued_of(self, user: str) -> int:
        return self._exceptions.get(user, {}).get("queued", self._queued)

    def check(self, user: str, jobs: Iterable[Job], there: Iterable[str], more: int = 0) -> None:
        """Raise if these jobs exceed the quotas of their user.

        `there` yields the user of each job that has not ended. `more` jobs of the same batch follow.
        """
        jobs = list(jobs)
        gpus, queued = self.gpus_of(user), self.queued_of(user)
        largest = max((job.gpus for job in jobs), default=0)
        if gpus and largest > gpus:
            raise Refused(
                f"quota: {largest} GPUs, and the jobs of {user} may hold {gpus}\n  ask an admin for more, or use fewer"
            )
        if queued and (have := sum(each == user for each in there)) + len(jobs) + more > queued:
            raise Refused(
                f"quota: {user} has {have} jobs that wait or run, and may have {queued}\n"
                "  wait until some have ended, or put several into one"
            )

    def facts(self, state: State, now: Seconds) -> list[Event]:
        """Return the facts that set these quotas in the state."""
        wanted = {"": self._gpus} if self._gpus else {}
        wanted |= {
            user: own["gpus"] or UNLIMITED_GPUS
            for user, own in self._exceptions.items()
            if "gpus" in own and (own["gpus"] or wanted)
        }
        known = state.eligibility.limits
        return [
            *(Limited(now, user, None) for user in known if user not in wanted),
            *(Limited(now, user, gpus) for user, gpus in wanted.items() if known.get(user) != gpus),
        ]


def _load(path: Path) -> Mapping[str, Mapping[str, int]]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"cannot be read: {error}", where=str(path), hint=HINT) from None
    if not isinstance(found, dict) or not all(_fits(own) for own in found.values()):
        raise InputError("not quotas by user", where=str(path), hint=HINT)
    return found


def _fits(own: Any) -> bool:
    return isinstance(own, dict) and all(
        key in KEYS and isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_VALUE
        for key, value in own.items()
    )
