"""`--teams FILE` of `weft sim` and `weft compare`: the figures of each team, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.model import Job, Team
from weft.sim.teams import assign_teams
from weft.sim.traces.trace import TraceJob

Capture = pytest.CaptureFixture[str]
TRACE = "job_id,submit_s,gpus,duration_s,user\n1,0,8,600,ann\n2,0,8,600,bob\n3,60,4,60,ann\n4,60,2,60,eve\n"
TEAMS = "teams: {a: {guarantee: 4, members: [ann]}, b: {max: 8, members: [bob]}}\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("trace.csv").write_text(TRACE)
    Path("teams.yaml").write_text(TEAMS)
    return tmp_path


def test_sim_shows_the_figures_of_each_team(capsys: Capture) -> None:
    assert main(["sim", "trace.csv", "--cluster", "1x8", "--policy", "fifo", "--teams", "teams.yaml", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["teams"]
    assert {name: (team["jobs"], team["violations"]) for name, team in found.items()} == {
        "a": (2, 0), "b": (1, 0), "": (1, 0),
    }  # fmt: skip
    assert found["b"]["borrowed_gpu_hours"] == pytest.approx(found["b"]["gpu_hours"], rel=0.01) != 0
    assert found["a"]["gpu_hours"] == pytest.approx(8 * 600 / 3600 + 4 * 60 / 3600, rel=0.1)


def test_compare_has_a_row_for_each_policy_and_team(capsys: Capture) -> None:
    words = ["compare", "trace.csv", "--cluster", "1x8", "--policies", "fifo,srtf", "--teams", "teams.yaml"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    header, *rows = out.strip().split("\n\n")[-1].splitlines()
    assert header.split()[:3] == ["policy", "team", "jobs"]
    assert [row.split()[:3] for row in rows if len(row.split()) == len(header.split())] == [
        [policy, team, jobs] for policy in ("fifo", "srtf") for team, jobs in (("a", "2"), ("b", "1"))
    ]
    assert len(rows) == 6, "and one for jobs without a team"
    assert "1 of 4 jobs belong to no team" in err


def test_jobs_without_users_take_turns_over_the_innermost_teams() -> None:
    teams = [Team("d", 4), Team("d/x"), Team("e")]
    jobs = [TraceJob(0.0, Job(str(number)), 60.0) for number in range(3)]
    assert [each.job.team for each in assign_teams(jobs, teams)] == ["d/x", "e", "d/x"]
