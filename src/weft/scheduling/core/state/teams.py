"""The teams as the facts so far define them. A department guarantees at least what its teams are guaranteed."""

from __future__ import annotations

from weft.model import JobId, Seconds, Team

Path = tuple[str, ...]
"""A team below its departments: the outermost department first, the team itself last."""


class Teams:
    def __init__(self) -> None:
        self.by_name: dict[str, Team] = {}
        self.version = 0
        """The number of changes so far."""
        self.guarantees: dict[str, int] = {}
        """The GPUs guaranteed to each team, the innermost first: its own figure, or the sum of the teams below it if
        that is more."""
        self.reclaimed: dict[JobId, Seconds] = {}
        """The jobs whose GPUs were taken back, and when; planners drop those that no longer count."""
        self._paths: dict[str, Path] = {}

    def put(self, team: Team) -> bool:
        """Add or replace a team; return whether that changes anything."""
        if self.by_name.get(team.name) == team:
            return False
        self.by_name[team.name] = team
        self._change()
        return True

    def remove(self, name: str) -> bool:
        if self.by_name.pop(name, None) is None:
            return False
        self._change()
        return True

    def path(self, name: str) -> Path:
        """Return the departments of a team and the team itself, as far as they exist; empty: it counts for none."""
        found = self._paths.get(name)
        if found is None:
            parts = name.split("/")
            outer = ("/".join(parts[: count + 1]) for count in range(len(parts)))
            found = self._paths[name] = tuple(each for each in outer if each in self.by_name)
        return found

    def team_of(self, user: str) -> str:
        """Return the team of a user's jobs that name none: the first that has the user; empty: none."""
        return next((team.name for team in self.by_name.values() if user in team.members), "")

    def weight(self, name: str) -> float:
        """Return the weight of a team, multiplied by those of its departments."""
        weight = 1.0
        for each in self.path(name):
            weight *= self.by_name[each].weight
        return weight

    def below(self, name: str) -> list[str]:
        """Return the teams directly below this one."""
        return [each for each in self.by_name if (path := self.path(each))[-2:-1] == (name,) and path[-1] == each]

    def overcommitted(self) -> str | None:
        """Return the first team that is guaranteed more GPUs, with the teams below it, than it may hold; None: none."""
        for name, team in self.by_name.items():
            if team.max_gpus is not None and self.guarantees[name] > team.max_gpus:
                return name
        return None

    def _change(self) -> None:
        self.version += 1
        self._paths = {}
        self.guarantees = {}
        for name in sorted(self.by_name, key=lambda name: -len(self.path(name))):  # the innermost first
            inner = sum(self.guarantees[each] for each in self.below(name))
            self.guarantees[name] = max(self.by_name[name].guarantee, inner)
