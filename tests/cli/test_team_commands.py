"""Teams on the command line: add, list, change, apply; jobs that borrow GPUs, give them back and survive a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft

SLEEP = ("--", "sleep", "60")
FILE = "teams:\n  lab: {guarantee: 1, teams: {a: {guarantee: 1}, b: {max: 1, weight: 2, members: [ann]}}}\n"


def listed(weft: Weft) -> list[dict[str, Any]]:
    return list(json.loads(weft("team", "list", "--json").out)["teams"])


@pytest.fixture(autouse=True)
def without_teams(weft: Weft) -> Iterator[None]:
    """Remove the teams again: other tests use the same scheduler."""
    yield
    for team in reversed(listed(weft)):
        weft("team", "remove", team["team"])


def test_a_team_takes_back_the_gpu_that_another_borrowed(weft: Weft) -> None:
    assert weft("team", "add", "a", "--guarantee", "1").err == "weft: team a is added\n"
    borrower = weft.submit("--gpus", "2", *SLEEP)
    until(lambda: weft.show(borrower)["status"] == "running")
    owner = weft.submit("-A", "a", "--gpus", "1", *SLEEP)
    until(lambda: weft.show(owner)["status"] == "running")
    assert weft.show(owner)["team"] == "a"
    until(lambda: weft.show(borrower)["reason"] == "Reclaimed")
    told = weft("why", borrower).out
    assert "Reclaimed: a team took back 2 GPUs, guaranteed to it" in told
    assert "the job may borrow again in" in told
    weft.site.kill9()
    assert weft("team", "list").out.splitlines()[1].split() == ["a", "1", "-", "1", "1", "0", "1", "0", "-"]
    assert weft.show(borrower)["reason"] == "Reclaimed"


def test_teams_come_from_a_file_and_wrong_ones_are_refused(weft: Weft, tmp_path: Path) -> None:
    file = tmp_path / "teams.yaml"
    file.write_text(FILE)
    assert weft("team", "apply", str(file)).err == "weft: 3 teams added or changed\n"
    assert weft("team", "apply", str(file)).err == "weft: all teams are as the file says\n"
    (lab, _, b) = listed(weft)
    assert (lab["team"], lab["guaranteed"], b["max"], b["members"]) == ("lab", 1, 1, ["ann"])
    weft("team", "set", "lab/b", "max=none", "members=")
    assert weft("team", "remove", "lab", code=6).err.startswith(
        "weft: error: team lab has teams below it: lab/a, lab/b"
    )
    weft("team", "remove", "lab/b")
    assert "2,001 GPUs are guaranteed in all" in weft("team", "add", "huge", "--guarantee", "2000").err
    for words, error in (
        (("team", "add", "x y"), "'x y' is no name of a team"),
        (("team", "add", "lab/a"), "team lab/a exists already"),
        (("team", "add", "c", "--weight", "0"), "weight: '0' is no weight"),
        (("team", "add", "c", "--guarantee", "4", "--max", "2"), "is guaranteed 4 GPUs and may hold 2 at most"),
        (("team", "set", "lab/a", "size=2"), "unknown key of a team 'size'"),
        (("submit", "--team", "lba", *SLEEP), "unknown team 'lba'"),
    ):
        assert error in weft(*words, code=2).err
    file.write_text("teams:\n  lab:\n    guarantee: many\n")
    assert f"{file}:3" in weft("team", "apply", str(file), code=2).err
