"""Starting, looking for, setting up and ending a scheduler; what is there, and what is kept from jobs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.running.local_scheduler import is_alive, until
from support.weft_cli import Weft
from weft.cli.main import build_parser


@pytest.fixture
def weft(weft: Weft) -> Weft:
    """With a scheduler that runs."""
    weft(
        "up", "--defaults", "--gpus", "0,1", "--models", "RTX3090,RTX3090", "--memories", "24G,24576", "--min-run", "0"
    )
    weft.site.started.add(weft.site.pid())
    return weft


def test_looking_starts_nothing(weft: Weft) -> None:
    assert weft("down").err == "weft: ended\n"
    head, *rest = weft("queue").out.splitlines()
    assert (head.split()[0], rest) == ("JOBID", [])
    assert weft("queue").err == "weft: no scheduler is running, and nothing is queued\n"
    assert weft.json("queue")["jobs"] == []
    assert "RTX3090" in weft("gpus").out
    assert weft("nodes", code=4).err.startswith("weft: error: no scheduler is running")
    assert weft("down").err == "weft: no scheduler is running\n"
    assert weft.json("doctor")["pid"] is None
    assert weft("doctor").out.count("not running") == 1
    assert not weft.site.paths.answers()


def test_rounds_of_the_scheduler_are_a_setting(weft: Weft) -> None:
    weft("up", "--schedule-interval", "90")
    assert json.loads((weft.site.paths.state / "settings.json").read_text())["interval_s"] == 90
    weft("up", "--schedule-interval", "0")
    assert json.loads((weft.site.paths.state / "settings.json").read_text())["interval_s"] == 0
    assert "--schedule-interval" in weft.fails("up", "--schedule-interval", "-1")


@pytest.mark.parametrize(("given", "seconds"), [("3", 3.0), ("90s", 90.0), ("2m", 120.0), ("0s", 0.0)])
def test_a_bare_number_of_min_run_is_seconds(weft: Weft, given: str, seconds: float) -> None:
    said = weft("up", "--min-run", given).out
    assert f"runs are not preempted in their first {seconds:g} s\n" in said
    assert json.loads((weft.site.paths.state / "settings.json").read_text())["min_run_s"] == seconds
    assert "expected seconds" in weft.fails("up", "--min-run", "-1")
    assert "give seconds, or a unit" in weft.fails("up", "--min-run", "soon")


def test_jobs_that_ask_for_no_cpu_all_run_at_once(weft: Weft) -> None:
    count = weft.json("doctor")["cpus"] + 2
    free = [weft.submit("--gpus", "0", "--cpus", "0", "--", "sleep", "60") for _ in range(count)]
    until(lambda: {job["status"] for job in weft.json("show", *free)["jobs"]} == {"running"})
    assert {job["cpus"] for job in weft.json("show", *free)["jobs"]} == {0}
    weft("submit", "--hold", "--gpus", "0", "--name", "usual", "--", "true")
    weft("submit", "--hold", "--gpus", "0", "--cpus", "0", "--name", "free", "--", "true")
    weft("set", "free", "priority=5")
    assert [job["cpus"] for job in weft.json("show", "usual", "free")["jobs"]] == [1, 0]
    weft("cancel", *free, "usual", "free")
    weft("wait", *free, code=None)


AGING = """
from dataclasses import dataclass
from weft.scheduling.core.ports import Policy
from weft.scheduling.placements.packed import Packed

@dataclass(frozen=True)
class Aging(Policy):
    def key(self, job, now):
        return job.submitted_at

@dataclass(frozen=True)
class Tight(Packed):
    pass
"""


def test_a_policy_in_a_file_of_this_folder(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aging.py").write_text(AGING)
    monkeypatch.chdir(tmp_path)
    weft("up", "--policy", "aging.py:Aging", "--placement", "./aging.py:Tight")
    assert weft("operate", "policy").out == f"{tmp_path}/aging.py:Aging\n"
    weft("operate", "policy", "fifo")
    weft("operate", "policy", "./aging.py:Aging", "--placement", "aging.py:Tight")
    assert weft("operate", "policy").out == f"{tmp_path}/aging.py:Aging\n"
    weft("wait", weft.submit("--", "true"))
    for name, *words in (["up"], ["server"], ["cluster", "up"], ["whatif"]):
        args, _ = build_parser(name).parse_known_args([*words, "--policy", "sub/aging.py:Aging:limit=3"])
        assert args.policy == f"{tmp_path}/sub/aging.py:Aging:limit=3"


@pytest.mark.parametrize(("host", "listens"), [("10.0.0.1", "10.0.0.1"), ("gpu-head", "0.0.0.0")])
def test_a_certificate_for_an_address_names_that_address_for_the_server(weft: Weft, host: str, listens: str) -> None:
    assert f"next: weft server --host {listens} --port 50051," in weft("auth", "init", "--host", host).err


def test_a_user_without_any_state(weft: Weft, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        assert weft().out.startswith("usage: weft COMMAND")
        for verb in ("show", "wait", "cancel", "why", "restart", "hold", "release", "clean"):
            error = json.loads(weft(verb, "1", "--json", code=4).err)["error"]
            assert (error["code"], error["message"]) == ("unreachable", "no scheduler is running")
        assert weft("logs", "1", code=4).out == ""
        assert weft("history").out.split()[0] == "JOBID"
        assert weft("queue", "-a").out.count("\n") == 1
        assert weft.json("doctor")["problems"] == []
        assert not list(tmp_path.iterdir()), "looking leaves nothing behind"


def test_what_a_scheduler_left_behind(weft: Weft) -> None:
    job, waiting = weft.submit("--gpus", "2", "--", "sleep", "60"), weft.submit("--", "true")
    until(lambda: weft.show(job)["status"] == "running")
    pid = weft.site.pid()
    assert "1 job still running" in weft("down").err
    assert not is_alive(pid)
    assert "weft up continues them" in weft("queue").err
    assert not weft.site.paths.answers()
    weft("up")
    assert weft.show(job)["run"] == 1
    weft.site.kill9()
    assert "the last scheduler died" in weft("doctor", code=1).out
    assert job in weft("queue").out, "looking takes care of jobs whose scheduler died"
    weft("down", "--kill")
    weft("up")
    assert weft("wait", job, code=None).err.startswith(f"weft: job {job} is cancelled, exit code 1")
    weft("wait", waiting)


def test_up_changes_how_it_is_set_up_and_jobs_go_on(weft: Weft) -> None:
    job = weft.submit("--", "sleep", "60")
    until(lambda: weft.show(job)["status"] == "running")
    pid = weft.site.pid()
    assert weft("up").err == "", "nothing to change"
    assert weft.site.pid() == pid
    out, err = weft(
        "up", "--policy", "fifo", "--idle", "0", "--foreign", "share", "--max-preemptions", "3", "--keep", "7d"
    )
    assert (err, out.split()[-1]) == ("weft: restarted with new settings; running jobs continue\n", "fifo")
    assert weft.site.pid() != pid
    found = weft.json("doctor")
    assert (found["policy"], found["idle_s"], found["jobs"]["running"]) == ("fifo", 0, 1)
    assert weft.show(job)["run"] == 1
    kept = json.loads((weft.site.paths.state / "settings.json").read_text())
    assert (kept["max_preemptions"], kept["keep_s"], kept["idle_s"]) == (3, 7 * 86400.0, 0.0)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--policy", "fifi"], "unknown policy 'fifi'\n  the nearest is fifo; known: antman, balanced, "),
        (["--policy", "priority:aging=x"], "priority"),
        (["--placement", "nosuch"], "unknown placement 'nosuch'"),
        (["--gpus", "0,0"], "--gpus: a GPU is named twice"),
        (["--gpus", "two"], "--gpus: 'two' is not a whole number"),
        (["--gpus", "0,1", "--models", "A"], "--models: 1 value for 2 GPUs"),
        (["--gpus", "0", "--memories", "0"], "--memories: a GPU has 0 MB"),
        (["--gpus", "0", "--models", "\x1b[31m"], "--models: '\\x1b[31m' is not a list of models"),
        (["--gpus", "driver", "--models", "A"], "--models needs --gpus"),
        (["--idle", "never"], "--idle: 'never' is not a duration"),
        (["--keep", "0"], "--keep: '0' is not a duration"),
        (["--max-preemptions", "-1"], "--max-preemptions: '-1' is not a whole number"),
        (["--foreign", "kill"], "argument --foreign: invalid choice"),
    ],
)
def test_a_wrong_setup_changes_nothing(weft: Weft, words: list[str], expected: str) -> None:
    before, pid = (weft.site.paths.state / "settings.json").read_text(), weft.site.pid()
    assert expected in weft("up", *words, code=2).err
    assert (weft.site.paths.state / "settings.json").read_text() == before
    assert weft.site.pid() == pid


def test_settings_that_cannot_be_read(weft: Weft) -> None:
    weft("down")
    path = weft.site.paths.state / "settings.json"
    path.write_text("{")
    assert "settings.json: cannot be read" in weft("submit", "--", "true", code=4).err
    assert "settings.json: cannot be read" in weft("doctor", code=1).out
    assert "writing a new file" in weft("up", "--gpus", "0,1").err


def test_gpus_and_nodes(weft: Weft) -> None:
    head, first, _ = weft("gpus").out.splitlines()
    assert head.split()[:4] == ["NODE", "GPU", "MODEL", "MEMORY"]
    assert first.split()[1:5] == ["0", "RTX3090", "24576", "MB"]
    (node,) = weft.json("nodes")["nodes"]
    assert (node["gpus"], node["busy"], node["alive"]) == (2, 0, True)
    assert weft("nodes").out.splitlines()[1].split()[1:4] == ["UP", "0", "0/2"]


def test_drain_and_undrain(weft: Weft) -> None:
    assert "no new jobs start on" in weft("drain", "0").err
    gpus = weft.json("gpus")["gpus"]
    assert [[each["reason"] for each in gpu["blocked"]] for gpu in gpus] == [["Drained"], []]
    assert "BLOCKED" in weft("gpus").out
    job, other = weft.submit("--", "sleep", "60"), weft.submit("--", "sleep", "60")
    until(lambda: weft.show(job)["status"] == "running")
    assert weft.show(job)["place"].endswith("[1]")
    assert "Drained" in weft("why", other).out
    assert "there is no GPU 7" in weft("drain", "7", code=2).err
    assert weft.json("undrain")["drained"] is False
    until(lambda: weft.show(other)["status"] == "running")


def test_pause_and_resume(weft: Weft) -> None:
    assert weft.json("pause") == {"schema": 1, "paused": True}
    job = weft.submit("--", "true")
    assert "weft: paused: no new jobs start" in weft("queue").err
    assert weft.show(job)["reason"] == "Paused"
    weft("resume")
    weft("wait", job)


def test_doctor_can_be_pasted(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "geheim")
    weft.submit("--name", "verborgen", "--env-all", "--param", "x=geheim", "--", "sleep", "60")
    found = weft.json("doctor")
    assert {
        "pid",
        "version",
        "python",
        "gpus",
        "state_dir",
        "enforced",
        "advisory",
        "policy",
        "problems",
    } <= found.keys()
    assert found["pid"] == weft.site.pid()
    assert found["state_dir"] == "~/s/weft"
    text = json.dumps(found) + weft("doctor").out
    assert not [word for word in ("geheim", "verborgen", "sleep", os.environ["HOME"]) if word in text]


def test_doctor_looks_at_the_journal_with_and_without_a_scheduler(weft: Weft) -> None:
    weft("run", "--", "true")
    journal = weft.json("doctor")["journal"]
    assert journal["check"] == "ok"
    assert (journal["facts"] > 0, journal["bytes"] > 0, journal["wal_bytes"] > 0) == (True, True, True)
    weft("down")
    found = weft.json("doctor")
    assert found["journal"]["check"] == "ok"
    assert (found["pid"], len(found["gpus"]), found["gpus_from"]) == (None, 2, "declared")
    assert found["enforced"]
    assert found["advisory"]


def test_doctor_names_a_damaged_journal(weft: Weft) -> None:
    weft("run", "--", "true")
    weft("down")
    database = Path(weft.site.paths.journal_url)
    body = bytearray(database.read_bytes())
    body[4096:8192] = bytes(4096)
    database.write_bytes(body)
    found = weft.json("doctor", code=1)
    (problem,) = found["problems"]
    assert "is damaged: " in problem
    assert found["journal"]["check"] != "ok"
