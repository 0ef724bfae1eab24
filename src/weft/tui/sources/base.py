"""The interface between the screen and where its changes come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from weft.views.answers.changes import ChangesView
from weft.views.answers.explain import ExplainView
from weft.views.answers.jobs import JobDetailView


@dataclass(frozen=True)
class Link:
    """The state of the connection, for people."""

    text: str
    is_live: bool


News = ChangesView | Link
Receive = Callable[[News], None]
"""Called from another thread."""


@dataclass(frozen=True)
class Outcome:
    """The result of a change."""

    changed: Sequence[str] = ()
    refused: Sequence[tuple[str, str]] = ()
    """Jobs, each with the reason."""


class Source(Protocol):
    """Calls other than `start` and `stop` may take a while and raise WeftErrors: make them in a thread."""

    @property
    def title(self) -> str: ...

    @property
    def simulated(self) -> bool:
        """True if jobs cannot be changed and have no logs, and time can be paused."""

    def start(self, receive: Receive) -> None: ...

    def stop(self) -> None: ...

    def job(self, job: str) -> JobDetailView: ...

    def explain(self, job: str, *, forecast: bool = False) -> ExplainView:
        """Return why a job waits; with `forecast`, also when it will start and end, which may take seconds."""

    def change(self, verb: str, jobs: Sequence[str], settings: dict[str, str]) -> Outcome: ...

    def follow_log(self, job: str, receive: Callable[[bytes], None]) -> Callable[[], None]:
        """Read the log of a job in a thread, and go on as it grows. Return what stops it."""


class Playback(Protocol):
    """The speed of a simulation."""

    def pause(self) -> None:
        """Pause, or play on."""

    def faster(self, by: float) -> None:
        """Multiply the speed."""
