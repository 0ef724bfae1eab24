"""A killed shim, as by the OOM killer: the job runs again and spends no retry."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from support.live_cluster import cluster
from support.local_scheduler import site, until
from weft.model import Exited


def shim_of(run: Path) -> int:
    path = run / "started.json"
    until(path.exists)
    return int(json.loads(path.read_bytes().rstrip(b"\0"))["shim"][1])


def test_a_job_of_this_machine_runs_again_and_keeps_its_retry() -> None:
    with site({"gpus": "0", "min_run_s": 0}) as here, here.client() as client:
        job = here.submit(client, "sleep", "600", gpus="1", retries="1")
        until(lambda: client.jobs([job]).jobs[0].status == "running")
        os.kill(shim_of(here.paths.jobs / job / "1"), signal.SIGKILL)
        until(lambda: (row := client.jobs([job]).jobs[0]).run == 2 and row.status == "running")
        assert client.jobs([job]).jobs[0].failures == 0


def test_a_gang_of_a_cluster_runs_again_without_retries() -> None:
    with cluster("n1", "n2", gpus=1) as here:
        job = here.submit("sleep", "600", flags=("--gpus", "2"))
        here.until_status(job, "running")
        os.kill(shim_of(here.run_folder("n2", job)), signal.SIGKILL)
        until(lambda: (row := here.job(job))["run"] == 2 and row["status"] == "running")
        assert here.job(job)["failures"] == 0
        assert [(fact.how, fact.why) for fact in here.facts() if isinstance(fact, Exited)] == [("lost", "lost")]
