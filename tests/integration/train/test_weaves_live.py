"""Two jobs woven on a cluster of real processes: they take turns, and a killed member, agent or server loses none."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.programs import staged_job
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until

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


def test_a_gang_over_two_nodes_gets_a_partner_without_a_restart() -> None:
    """Only the first node has the directory: rank 0 takes the turns of the job."""
    with cluster("n1", "n2", gpus=1, options=OPTIONS) as made:
        first, second = PROFILES
        flags = ("--gpus", "2")
        jobs = [made.submit(*JOB, flags=(*flags, "--profile", first))]
        made.until_status(jobs[0], "running")
        made.says("n1", jobs[0], "pid")
        before = pid(made, jobs[0])
        jobs.append(made.submit(*JOB, flags=(*flags, "--profile", second)))
        until(lambda: members(made) == sorted(jobs) and all(turns(made).values()))
        assert (made.job(jobs[0])["run"], pid(made, jobs[0])) == (1, before)
        lead = made.job(jobs[0])["place"].partition("[")[0]
        assert [name for name in ("n1", "n2") if (made.workers / name / "weaves").exists()] == [lead]
        made.weft("cancel", *jobs)
        for job in jobs:
            made.until_status(job, "cancelled")
        until(lambda: not (made.workers / lead / "weaves").exists())


def test_killed_processes_lose_no_job_and_leave_no_directory(woven: tuple[Cluster, list[str]]) -> None:
    made, (first, second) = woven
    assert made.job(first)["weave"]["partners"] == [second]
    assert made.json("gpus")["gpus"][0]["weave"] == made.job(second)["weave"]["weave"]
    assert f"woven with {second}" in made.weft("why", first)
    assert (made.metric("weft_woven_jobs"), made.metric('weft_weaves{size="2"}')) == (2, 1)
    assert made.metric('weft_stage_seconds_sum{stage="gpu"}') >= 0.005
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


@pytest.mark.soak
def test_members_that_hang_or_take_no_turns_are_unwoven_and_keep_their_gpus() -> None:
    """It takes a minute until a job without turns is called silent."""
    with cluster("n1", gpus=1, options=OPTIONS) as made:
        times = ("data=0.1,gpu=0.02", "data=0.02,gpu=0.1", "data=0.02,gpu=0.02,net=0.1")
        commands = (JOB, (*JOB, "3"), ("sh", "-c", "echo pid $$; exec sleep 300"))
        jobs = [
            made.submit(*command, flags=("--gpus", "1", "--profile", each))
            for command, each in zip(commands, times, strict=True)
        ]
        _, hangs, silent = jobs
        until(lambda: members(made) == sorted(jobs))
        made.weft("operate", "interval", "1000")
        before = {job: (made.job(job)["run"], pid(made, job)) for job in jobs}
        found = {hangs: "hangs", silent: "silent"}
        until(lambda: {job: made.job(job).get("unwoven") for job in (hangs, silent)} == found, 240.0)
        assert {job: (made.job(job)["run"], pid(made, job)) for job in jobs} == before
        assert {made.job(job)["status"] for job in jobs} == {"running"}
        assert members(made) == [], "a job alone is no weave"
        assert "it held a stage for too long" in made.weft("why", hangs)
        assert "it takes no turns" in made.weft("why", silent)
