"""Forecasts of real schedulers: of one machine and of a cluster, made by another process and kept for a while."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.running.live_cluster import cluster
from support.running.local_scheduler import Site, is_alive, site, until

GPUS = {"gpus": "0,1", "models": "A100,A100", "memories": "40960,40960", "min_run_s": 0.0}
FOREVER = ("--", "sleep", "600")


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    """Two GPUs, two finished jobs of one name, a run of an hour, and two jobs that wait for both GPUs."""
    with site(GPUS) as made:
        for name in ("warm-1", "warm-2"):
            made.weft("submit", "--name", name, "--gpus", "1", "--", "sleep", "0.1", check=True)
        until(lambda: len(ask(made, "history")["jobs"]) == 2)
        made.weft("submit", "--name", "long", "--gpus", "1", "--duration", "1h", *FOREVER, check=True)
        made.weft("submit", "--name", "pair", "--gpus", "2", "--duration", "30m", *FOREVER, check=True)
        made.weft("submit", "--name", "pair-2", "--gpus", "2", "--duration", "10m", "--priority", "0", *FOREVER)
        yield made


def ask(where: Site, *words: str, code: int = 0) -> dict[str, Any]:
    said = where.weft(*words, "--json")
    assert said.returncode == code, said.stderr
    return dict(json.loads(said.stdout if not code else said.stderr))


def forecast_processes(server: int) -> list[int]:
    """The children of the server that make forecasts."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
            except OSError:
                continue
            if b"weft.server.forecasts" in command and int(status.rpartition(")")[2].split()[1]) == server:
                found.append(int(folder.name))
    return found


def test_why_tells_when_a_job_starts_and_ends(here: Site) -> None:
    found = until(lambda: ask(here, "why", "pair")["forecast"].get("start_p50") and ask(here, "why", "pair"))[
        "forecast"
    ]
    assert (found["samples"], found["basis"], found["note"]) == (30, "declared", "")
    assert found["start_p50"] <= found["start_p90"] < found["end_p50"] <= found["end_p90"]
    text = here.weft("why", "pair", check=True).stdout
    assert "(P50)" in text
    assert "samples: 30 as of " in text
    assert "; duration: as the job declares or reports" in text
    (expected,) = (line for line in text.splitlines() if "expected start" in line)
    assert expected == "  expected start: when 3 has ended", "the forecast has the time"
    assert "forecast" not in ask(here, "why", "pair", "--no-forecast")
    assert "forecast" not in ask(here, "why", "1"), "an ended job has no future"


def test_a_forecast_is_kept_and_one_process_makes_it(here: Site) -> None:
    first = ask(here, "why", "pair")["forecast"]["at"]
    until(lambda: ask(here, "queue", "--start")["jobs"][0]["forecast"]["at"] >= first)
    assert len(forecast_processes(here.pid())) == 1


def test_a_new_job_makes_a_new_forecast_and_its_name_tells_its_duration(here: Site) -> None:
    job = here.weft("submit", "--quiet", "--name", "warm-3", "--gpus", "2", *FOREVER, check=True).stdout.strip()
    found = until(lambda: (each := ask(here, "why", job)["forecast"])["samples"] and each)
    assert (found["basis"], found["similar"]) == ("similar", 2)
    here.weft("cancel", job, "-y", check=True)


def test_the_queue_shows_starts_and_ends(here: Site) -> None:
    until(lambda: ask(here, "queue", "--start")["jobs"][0].get("forecast", {}).get("samples"))
    jobs = {each["name"]: each for each in ask(here, "queue", "--start")["jobs"]}
    assert jobs["long"]["forecast"]["start_p50"] is None
    assert jobs["long"]["forecast"]["end_p50"] <= jobs["pair"]["forecast"]["start_p50"]
    assert "forecast" not in ask(here, "queue")["jobs"][0]
    table = here.weft("queue", "--start", check=True).stdout
    assert "START(P50)" in table
    assert "END(P90)" in here.weft("queue", "-o", "id,end-p90", check=True).stdout


def test_submit_says_that_the_queue_makes_a_deadline_impossible(here: Site) -> None:
    """Both GPUs are taken for an hour: a job of ten minutes cannot end within twenty, though it would alone."""
    words = ("submit", "--name", "due", "--gpus", "2", "--duration", "10m", "--deadline")
    late = here.weft(*words, "20m", *FOREVER, check=True)
    assert late.stdout.startswith("submitted job ")
    assert "it cannot make its deadline, " in late.stderr
    assert "at P90" in late.stderr
    (note,) = json.loads(here.weft(*words, "now+20m", "--json", *FOREVER, check=True).stdout)["notes"]
    assert "it cannot make its deadline, " in note
    assert here.weft(*words, "20m", "--quiet", *FOREVER, check=True).stderr == ""
    assert here.weft(*words, "3d", *FOREVER, check=True).stderr == "weft: duration: 10m\n"
    assert here.weft(*words, "20m", "--dry-run", *FOREVER, check=True).stderr == "weft: duration: 10m\n", "it would"
    here.weft("cancel", "-y", *_named(here, "due"), check=True)


def _named(where: Site, name: str) -> list[str]:
    return [each["id"] for each in ask(where, "queue")["jobs"] if each["name"] == name]


def test_whatif_does_not_count_held_jobs(here: Site) -> None:
    job = here.weft("submit", "--quiet", "--hold", "--gpus", "2", *FOREVER, check=True).stdout.strip()
    found = ask(here, "whatif", "--add-node", "2")
    assert (found["waiting"], found["before"]["unknown"]) == (2, 0)
    here.weft("cancel", job, "-y", check=True)


def test_whatif_compares_and_changes_nothing(here: Site) -> None:
    found = ask(here, "whatif", "--add-node", "2")
    assert found["waiting"] == 2
    assert found["after"]["average_s"] < found["before"]["average_s"]
    assert found["gain"][0]["what"] == "start"
    found = ask(here, "whatif", "--priority", "pair-2=5", "--policy", "priority")
    assert [each["name"] for each in found["gain"]] == ["pair-2"]
    assert [each["name"] for each in found["lose"]] == ["pair"]
    assert "jobs that gain most" in here.weft("whatif", "--cancel", "long", check=True).stdout
    assert {each["name"] for each in ask(here, "queue")["jobs"]} == {"long", "pair", "pair-2"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "nothing changes"),
        (("--policy", "nonsense"), "nonsense"),
        (("--policy", "fifo:colour=red"), "colour"),
        (("--add-node", "0"), "such as 8"),
        (("--priority", "pair"), "JOB=PRIORITY"),
    ],
)
def test_whatif_explains_bad_input(here: Site, words: tuple[str, ...], says: str) -> None:
    error = ask(here, "whatif", *words, code=2)["error"]
    assert says in error["message"] + error["hint"]


def test_whatif_knows_the_jobs(here: Site) -> None:
    assert ask(here, "whatif", "--cancel", "4711", code=3)["error"]["code"] == "not-found"


def test_the_history_is_a_trace_and_the_state_a_start(here: Site) -> None:
    found = ask(here, "compare", "--from-live", "--policies", "fifo,srtf")
    assert (found["jobs"], found["gpus"]) == (2, 2)
    assert [each["policy"] for each in found["policies"]] == ["priority:preempts=on", "fifo", "srtf"]
    assert found["baseline"] == "priority:preempts=on", "the scheduler's policy"
    assert [each["finished"] for each in found["policies"]] == [2, 2, 2]
    assert ask(here, "compare", "--from-live", "--policies", "fifo", "--baseline", "fifo")["baseline"] == "fifo"
    assert ask(here, "compare", "--from-live", "--since", "0.000001h", code=2)["error"]["message"].startswith(
        "no ended job"
    )
    found = ask(here, "sim", "--from-live")
    assert (found["jobs"], found["finished"], found["policy"]) == (3, 3, "priority:preempts=on")
    assert found["makespan_s"] == pytest.approx(3600 + 1800 + 600, rel=0.05)
    assert "a trace and --from-live" in ask(here, "sim", "demo", "--from-live", code=2)["error"]["message"]


def test_the_process_ends_with_its_server(here: Site) -> None:
    until(lambda: ask(here, "why", "pair")["forecast"]["samples"])
    (process,) = forecast_processes(here.pid())
    os.kill(process, 9)
    until(lambda: not is_alive(process))
    here.weft("submit", "--name", "other", "--gpus", "2", "--duration", "1m", *FOREVER, check=True)
    until(lambda: ask(here, "why", "other")["forecast"]["samples"])
    (process,) = forecast_processes(here.pid())
    here.weft("down", check=True)
    until(lambda: not is_alive(process))


def test_a_cluster_forecasts_and_simulates_from_its_state() -> None:
    with cluster("n1") as made:
        made.submit("sleep", "600", flags=("--gpus", "2", "--duration", "1h"))
        job = made.submit("sleep", "600", flags=("--gpus", "2", "--duration", "1h"))
        found = until(lambda: (each := made.json("why", job)["forecast"])["samples"] and each)
        assert found["start_p50"] is not None
        assert made.json("whatif", "--add-node", "2")["after"]["average_s"] == 0.0
        assert made.json("sim", "--from-live")["finished"] == 2
