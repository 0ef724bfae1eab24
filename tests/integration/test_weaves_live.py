"""Two jobs woven on a cluster of real processes: they take turns, and a killed member, agent or server loses none."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import staged_job
from support.live_cluster import Cluster, cluster
from support.local_scheduler import until

JOB = (sys.executable, str(Path(staged_job.__file__)))
OPTIONS = ("--policy", "muri-l:autopack=off", "--min-run", "0", "--schedule-interval", "0.2")
PROFILES = ("data=0.3,gpu=0.02,net=0.01", "data=0.02,gpu=0.02,net=0.3")


@pytest.fixture
def woven() -> Iterator[tuple[Cluster, list[str]]]:
    with cluster("n1", gpus=1, options=OPTIONS) as made:
        flags = [("--gpus", "1", "--profile", each) for each in PROFILES]
        jobs = [made.submit(*JOB, flags=each) for each in flags]
        until(lambda: members(made) == sorted(jobs) and all(turns(made).values()))
        yield made, jobs


def members(made: Cluster) -> list[str]:
    return sorted(each["job"] for weave in made.json("weaves")["weaves"] for each in weave["members"])


def turns(made: Cluster) -> dict[str, int]:
    found = [each for weave in made.json("weaves")["weaves"] for each in weave["members"]]
    return {each["job"]: sum(stage["grants"] for stage in each["stages"]) for each in found}


def pid(made: Cluster, job: str) -> int:
    return int(made.logs(job).split()[-1])


def test_killed_processes_lose_no_job_and_leave_no_directory(woven: tuple[Cluster, list[str]]) -> None:
    made, (first, second) = woven
    before = {job: (made.job(job)["run"], pid(made, job)) for job in (first, second)}
    made.kill9("server")
    made.serve()
    made.kill9("n1")
    made.work("n1", gpus=1)
    until(lambda: members(made) == sorted((first, second)) and all(turns(made).values()))
    assert {job: (made.job(job)["run"], pid(made, job)) for job in (first, second)} == before, "none was started again"
    os.kill(before[first][1], signal.SIGKILL)
    made.until_status(first, "failed")
    other = made.job(second)
    assert (other["status"], other["run"], pid(made, second)) == ("running", *before[second]), "its partner goes on"
    made.weft("cancel", second)
    made.until_status(second, "cancelled")
    until(lambda: not (made.workers / "n1" / "weaves").exists())
