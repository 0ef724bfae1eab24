"""Reader of a file of teams (docs/howto/share-a-cluster-between-teams.md). Every error names its line."""

from __future__ import annotations

from typing import Final

from weft.access.teams.description import KEYS, changed_team, check_guarantees, check_team_name
from weft.inputs.files import read_text
from weft.inputs.yaml import YamlMapping, YamlValue, parse_yaml
from weft.model import Team

MAX_TEAMS: Final = 1000


def read_teams(path: str) -> tuple[Team, ...]:
    """Return the teams of a file; a department comes before its teams."""
    root = parse_yaml(read_text(path), path).mapping("a file of teams", ("teams",))
    found: list[Team] = []
    entries = root.require("teams")
    _add_teams(entries, "", found)
    if not found or len(found) > MAX_TEAMS:
        raise root.value.error(f"{len(found)} teams", f"expected from 1 to {MAX_TEAMS:,}")
    with entries.locating():
        check_guarantees(found)
    return tuple(found)


def _add_teams(value: YamlValue, above: str, found: list[Team]) -> None:
    for key, entry in value.mapping("teams by name").entries.items():
        with entry.locating():
            name = check_team_name(above + key)
        described = entry.mapping("a team", (*KEYS, "teams"))
        with entry.locating():
            found.append(changed_team(Team(name), _values(described)))
        inner = described.get("teams")
        if inner is not None:
            _add_teams(inner, f"{name}/", found)


def _values(entry: YamlMapping) -> dict[str, str]:
    values = {key: value.text() for key, value in entry.entries.items() if key not in ("members", "teams")}
    members = entry.get("members")
    if members is not None:
        names = members.items("a list of users") if members.is_list else (members,)
        values["members"] = ",".join(name.text() for name in names)
    return values
