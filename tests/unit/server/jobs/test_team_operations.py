"""Operations on teams: the events they make, who may submit for a team, and what a team has."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.builders import Rig, grid
from weft.access.teams.file import read_teams
from weft.errors import InputError, NotPermitted, Refused, UnknownName
from weft.model import Exited, Job, Task, Team, TeamRemoved, TeamSet
from weft.server.admin.teams import events_of, team_views
from weft.server.http.team_counters import TeamGpuSeconds
from weft.server.jobs.admission import check_team

LAB = Team("lab", 4, members=("ann",))
INNER = Team("lab/a", 2, 8, 2.0, ("bob",))


def rig() -> Rig:
    made = Rig("fifo", grid(1, 8))
    made.tell(TeamSet(0.0, LAB), TeamSet(0.0, INNER))
    return made


def test_requests_become_events() -> None:
    state = rig().state
    add = {"team": "x", "guarantee": "2", "members": "cy, di"}
    assert events_of(state, "team-add", add, 1.0) == [TeamSet(1.0, Team("x", 2, members=("cy", "di")))]
    changed = TeamSet(1.0, Team("lab/a", 2, None, 2.0, ("bob",)))
    assert events_of(state, "team-set", {"team": "lab/a", "max": "none"}, 1.0) == [changed]
    assert events_of(state, "team-remove", {"team": "lab/a"}, 1.0) == [TeamRemoved(1.0, "lab/a")]
    kept = {"lab": '{"guarantee": "4", "members": "ann"}', "y": "{}"}
    assert events_of(state, "team-apply", kept, 1.0) == [TeamRemoved(1.0, "lab/a"), TeamSet(1.0, Team("y"))]
    with pytest.raises(Refused):
        events_of(state, "team-remove", {"team": "lab"}, 1.0)
    with pytest.raises(InputError):
        events_of(state, "team-apply", {"y": "[]"}, 1.0)


def test_members_of_a_team_and_its_department_submit_for_it() -> None:
    teams = rig().state.teams
    for user in ("ann", "bob"):
        check_team(teams, "lab/a", user)
    check_team(teams, "lab/a", "eve", is_admin=True)
    with pytest.raises(NotPermitted):
        check_team(teams, "lab/a", "eve")
    with pytest.raises(NotPermitted):
        check_team(teams, "lab", "bob")
    with pytest.raises(UnknownName):
        check_team(teams, "lba", "ann")


def test_a_team_shows_what_it_holds_and_borrows() -> None:
    made = rig()
    made.submit(Job("1", 2, task=Task(team="lab/a")), Job("2", 4, task=Task(team="lab/a")), Job("3", 4))
    lab, inner = team_views(made.state)
    assert (lab.team, lab.guaranteed, lab.held, lab.borrowed) == ("lab", 4, 6.0, 4.0)
    assert (inner.team, inner.held, inner.borrowed, inner.running, inner.waiting) == ("lab/a", 6.0, 4.0, 2, 0)


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("team-set", {"team": "lab", "max": "5", "guarantee": "5"}),
        ("team-add", {"team": "lab/b", "guarantee": "7"}),
        ("team-apply", {"lab": '{"max": "4"}', "lab/a": '{"guarantee": "2"}', "lab/b": '{"guarantee": "3"}'}),
    ],
)
def test_no_team_is_guaranteed_more_than_its_department_may_hold(verb: str, options: dict[str, str]) -> None:
    made = rig()
    made.tell(TeamSet(0.0, Team("lab", 4, 8)), TeamSet(0.0, Team("lab/c", 4)))
    with pytest.raises(
        InputError, match=r"team lab is guaranteed \d+ GPUs, with the teams below it, and may hold \d at"
    ):
        events_of(made.state, verb, options, 1.0)
    assert events_of(made.state, "team-set", {"team": "lab", "max": "6"}, 1.0) == [TeamSet(1.0, Team("lab", 4, 6))]


def test_a_file_of_such_teams_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "teams.yaml"
    file.write_text("teams:\n  lab: {max: 4, teams: {a: {guarantee: 3}, b: {guarantee: 3}}}\n")
    with pytest.raises(InputError, match="team lab is guaranteed 6 GPUs") as refused:
        read_teams(str(file))
    assert "teams.yaml:2" in str(refused.value)


def test_gpu_seconds_of_teams_and_departments() -> None:
    made = rig()
    counter = TeamGpuSeconds(made.state)
    facts = made.submit(Job("1", 2, task=Task(team="lab/a")), Job("2", 4, task=Task(team="lab/a")), Job("3", 2))
    counter.record(made.state, facts)
    made.now = 100.0
    counter.record(made.state, [*made.exit("2"), Exited(100.0, "2", 1, "done")])
    assert dict(counter.totals(150.0)) == {
        ("lab", "held"): 700.0, ("lab", "borrowed"): 400.0, ("lab/a", "held"): 700.0, ("lab/a", "borrowed"): 400.0,
    }  # fmt: skip
