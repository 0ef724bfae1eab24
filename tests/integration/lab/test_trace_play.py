"""A trace played on a live scheduler: on this machine and on a cluster, preempted, interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import cluster
from support.running.local_scheduler import Site, site, until
from weft.history.journal import open_journal
from weft.history.metrics.figures import figures
from weft.history.metrics.history import Selection, in_trace_time, read_history

TRACE = """job_id,submit_s,gpus,duration_s,priority
long,0,2,6000,0
first,600,1,600,5
second,660,1,1200,5
wide,700,2,300,5
"""


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    settings = {"gpus": "0,1", "min_run_s": 0.0, "policy": "priority:preempts=on"}
    with site(settings, XDG_CONFIG_HOME=os.devnull) as made:
        (made.root / "trace.csv").write_text(TRACE)
        yield made


def play(here: Site, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = here.weft("trace", "play", *words, timeout_s=240.0)
    assert done.returncode == code, done.stderr
    return done


def test_jobs_take_their_scaled_time_and_preempted_ones_resume(here: Site) -> None:
    found = json.loads(play(here, "trace.csv", "--speed", "1200", "--folder", ".", "--json").stdout)
    assert (found["jobs"], found["finished"], found["failed"]) == (4, 4, 0)
    assert found["preemptions"] >= 1
    assert found["makespan_s"] >= 6000, "the stand-ins take the whole time"
    assert 0 < found["gpu_utilisation"] <= 1
    with open_journal(here.paths.journal_url, readonly=True) as journal:
        history = read_history(journal.read())
    record = Selection(group=found["group"]).of(history.record)
    assert figures(in_trace_time(record, 1200.0)).avg_jct_s == found["avg_jct_s"]
    work = {history.jobs[job.id].name.partition(f"{found['group']}-")[2]: history.work[job.id] for job in record.jobs}
    assert work["long"].kept_s > 2.5, "the time of a stand-in begins before its start is reported"
    long = next(job.id for job in record.jobs if history.jobs[job.id].name.endswith("-long"))
    log = here.weft("logs", long).stdout
    assert "stand-in for 5.000 s" in log
    assert "from 0.000 s" not in log, "a run that was preempted does not begin again"
    assert work["first"].kept_s > 0.25
    assert not list(Path(here.root).glob("weft-play-*")), "the folder of saved times is gone"


def test_the_protection_of_runs_scales_with_the_speed(here: Site) -> None:
    here.weft("up", "--min-run", "600")
    try:
        found = json.loads(play(here, "trace.csv", "--speed", "1200", "--json").stdout)
    finally:
        here.weft("up", "--min-run", "0")
    assert found["preemptions"] >= 1, "the protection is half a second, not longer than the whole trace"


def test_only_some_jobs_and_jobs_that_do_not_fit(here: Site) -> None:
    (here.root / "wide.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,1,60\nb,1,4,60\nc,2,1,60\n")
    refused = play(here, "wide.csv", "--speed", "600", code=2)
    assert "1 of 3 jobs need more GPUs than the 2 there are" in refused.stderr
    assert "left out 1 of 3 jobs" in play(here, "wide.csv", "--speed", "600", "--skip-infeasible").stderr
    shown = play(here, "wide.csv", "--speed", "600", "--jobs", "1").stdout
    assert "finished\t1\n" in shown
    assert "--speed" in play(here, "wide.csv", "--speed", "0", code=2).stderr
    assert "no such directory" in play(here, "wide.csv", "--speed", "1", "--folder", "gone", code=2).stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_it_leaves_nothing_behind(here: Site, number: int, code: int) -> None:
    (here.root / "long.csv").write_text(
        "job_id,submit_s,gpus,duration_s\n" + "".join(f"j{n},{n},1,100000\n" for n in range(6))
    )
    command = [sys.executable, "-m", "weft", "trace", "play", "long.csv", "--speed", "10"]
    process = subprocess.Popen(
        command, env=here.env, cwd=here.root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    with here.client() as client:
        until(lambda: len([job for job in client.queue().jobs if job.status == "running"]) == 2)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        assert process.returncode == code
        assert "interrupted: cancelling" in err
        assert client.queue().jobs == []
        assert "cancelled" in {job.status for job in client.history(limit=6).jobs}


def test_on_a_cluster_gangs_span_nodes_and_move() -> None:
    with cluster("n1", "n2", options=("--policy", "srtf", "--min-run", "0")) as here:
        (here.root / "t.csv").write_text(
            "job_id,submit_s,gpus,duration_s\ngang,0,4,3600\nshort,600,2,60\nother,700,2,120\n"
        )
        found = json.loads(here.weft("trace", "play", "t.csv", "--speed", "1200", "--json"))
        assert (found["jobs"], found["finished"]) == (3, 3)
        assert found["scheduler"] == f"localhost:{here.port}"
        assert found["preemptions"] >= 1
        assert here.json("metrics", "--group", found["group"])["jobs"] == 3
