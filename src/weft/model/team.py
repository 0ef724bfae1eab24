"""Teams, people who own a part of the GPUs; and the events about them."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model.ids import Seconds


def departments(name: str) -> list[str]:
    """Return the departments of a team by name, the outermost first, and the team itself; of no team, none."""
    parts = name.split("/") if name else []
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


@dataclass(frozen=True, slots=True)
class Team:
    """A team. `department/team` is a team of a department; the department is a team, too."""

    name: str
    guarantee: int = 0
    """The GPUs that its jobs get when they ask for them, also if other teams borrowed them."""
    max_gpus: int | None = None
    """The most GPUs that its jobs hold, borrowed ones included; None: no limit."""
    weight: float = 1.0
    """Its part of the GPUs that teams borrow, next to the weights of others."""
    members: tuple[str, ...] = ()
    """Users whose jobs belong to the team unless they name another."""


@dataclass(frozen=True, slots=True)
class TeamSet:
    """A user added a team, or changed one."""

    at: Seconds
    team: Team


@dataclass(frozen=True, slots=True)
class TeamRemoved:
    """A user removed a team. Its jobs count for its department, or for no team."""

    at: Seconds
    team: str


TeamEvent = TeamSet | TeamRemoved
