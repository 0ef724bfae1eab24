"""Names and values of teams. Errors say what is wrong and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from weft.errors import InputError, UnknownName
from weft.inputs.quantities import parse_whole
from weft.model import Team
from weft.scheduling.core.state.teams import Teams

MAX_GPUS: Final = 1_000_000
MAX_WEIGHT: Final = 1000.0
MAX_MEMBERS: Final = 10_000
MAX_DEPTH: Final = 8
NO_LIMIT: Final = "none"
KEYS: Final = ("guarantee", "max", "weight", "members")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def check_team_name(name: str) -> str:
    """Return the name of a team, or raise: parts of letters, digits, dots, - and _, with / between them."""
    parts = name.split("/")
    if len(parts) > MAX_DEPTH or not all(map(_NAME.fullmatch, parts)):
        hint = "such as vision, or vision/detection for a team of a department"
        raise InputError(f"{name[:80]!r} is no name of a team", hint=hint)
    return name


def changed_team(team: Team, values: Mapping[str, str]) -> Team:
    """Return the team with these values, as users write them."""
    found: dict[str, Any] = {}
    for key, text in values.items():
        if key not in KEYS:
            raise UnknownName("key of a team", key, KEYS)
        try:
            found["max_gpus" if key == "max" else key] = _READERS[key](text)
        except InputError as error:
            raise InputError(f"{key}: {error.what}", hint=error.hint) from None
    made = replace(team, **found)
    if made.max_gpus is not None and made.max_gpus < made.guarantee:
        what = f"team {made.name} is guaranteed {made.guarantee} GPUs and may hold {made.max_gpus} at most"
        raise InputError(what, hint="raise --max, or lower --guarantee")
    return made


def check_guarantees(teams: Iterable[Team]) -> None:
    """Raise unless each team may hold what it is guaranteed, with the teams below it."""
    known = Teams()
    for team in teams:
        known.put(team)
    name = known.overcommitted()
    if name is not None:
        sure, most = known.guarantees[name], known.by_name[name].max_gpus
        what = f"team {name} is guaranteed {sure} GPUs, with the teams below it, and may hold {most} at most"
        raise InputError(what, hint="raise its max, or lower a guarantee")


def _guarantee(text: str) -> int:
    return parse_whole(text, 0, MAX_GPUS)


def _max(text: str) -> int | None:
    return None if text == NO_LIMIT else parse_whole(text, 1, MAX_GPUS)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = 0.0
    if not 0 < weight <= MAX_WEIGHT:
        raise InputError(f"{text[:40]!r} is no weight", hint=f"a number above 0, up to {MAX_WEIGHT:g}")
    return weight


def _members(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if len(names) > MAX_MEMBERS or any(not name.isprintable() for name in names):
        raise InputError(f"{text[:80]!r} are no members", hint=f"up to {MAX_MEMBERS:,} users, such as ann,bob")
    return names


_READERS: Final = {"guarantee": _guarantee, "max": _max, "weight": _weight, "members": _members}
