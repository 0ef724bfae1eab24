"""Operations on teams: the events they make, who may submit for a team, and what a team has."""

from __future__ import annotations

import pytest

from support.builders import Rig, grid
from weft.errors import InputError, NotPermitted, Refused, UnknownName
from weft.model import Job, Task, Team, TeamRemoved, TeamSet
from weft.server.admin.teams import events_of, team_views
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
