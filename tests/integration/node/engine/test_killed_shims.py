"""A killed shim, as by the OOM killer: the job runs again and spends no retry."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from support.running.live_cluster import PLAIN, cluster
from support.running.local_scheduler import is_alive, site, until
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


def test_nothing_is_left_when_worker_and_shim_are_killed_and_the_lease_has_ended() -> None:
    with cluster("n1", gpus=1, options=(*PLAIN, "--lease", "10")) as here:
        job = here.submit("sh", "-c", "setsid sleep 600 & echo $! up; trap '' TERM; sleep 601")
        here.until_status(job, "running")
        here.says("n1", job, "up")
        detached = int((here.run_folder("n1", job) / "output.log").read_text().split()[0])
        record = json.loads((here.run_folder("n1", job) / "started.json").read_bytes().rstrip(b"\0"))
        here.kill9("n1")
        os.kill(record["shim"][1], signal.SIGKILL)
        until(lambda: not is_alive(record["leader"][1]) and not is_alive(detached), 120.0)
        assert here.job(job)["run"] == 1, "the job ran elsewhere before its processes were gone"
