"""Workers that end in order: their jobs run elsewhere at once, save their work first, and spend no retry."""

from __future__ import annotations

import signal
import time
from collections.abc import Collection
from functools import partial

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from support.running.node_signals import terminate_node
from weft.model import Cordoned, Exited, NodeLost, Started
from weft.model.slots import parse_slots

SAVES = """
trap 'test -e "$WEFT_PREEMPT_FILE" && echo saved; exit 85' TERM
echo up
sleep 600 & wait
"""
AT_ONCE_S = 60.0
"""Far less than the lease of 600 s, after which the jobs of a node that said nothing run elsewhere."""


def nodes_of(here: Cluster, job: str) -> set[str]:
    return {node for node, _ in parse_slots(here.until_status(job, "running")["place"])}


def runs_elsewhere(here: Cluster, job: str, left: Collection[str]) -> bool:
    row = here.job(job)
    return row["status"] == "running" and row["run"] > 1 and not {n for n, _ in parse_slots(row["place"])} & set(left)


def test_a_gang_runs_elsewhere_soon_after_its_nodes_are_terminated() -> None:
    with cluster("n1", "n2", "n3", "n4", gpus=1) as here:
        job = here.submit("sleep", "600", flags=("--gpus", "2"))
        left = nodes_of(here, job)
        since = time.time()
        for name in left:
            here.processes[name].send_signal(signal.SIGTERM)
        until(partial(runs_elsewhere, here, job, left))
        row, facts = here.job(job), here.facts()
        again = next(fact for fact in facts if isinstance(fact, Started) and fact.run == row["run"])
        assert again.at - since < AT_ONCE_S
        assert row["failures"] == 0
        assert {fact.why for fact in facts if isinstance(fact, Exited)} <= {"node-stopped", "never-started"}
        assert all(here.processes.pop(name).wait(60) == 0 for name in left)
        assert {fact.node for fact in facts if isinstance(fact, Cordoned) and fact.why == "NodeLeaving"} == left
        until(lambda: {fact.node for fact in here.facts() if isinstance(fact, NodeLost)} == left)
        assert here.weft("nodes").count("LEFT") == 2


def test_a_job_saves_its_work_before_its_node_leaves() -> None:
    with cluster("n1", gpus=1) as here:
        job = here.submit("sh", "-c", SAVES)
        here.until_status(job, "running")
        here.says("n1", job, "up")
        assert here.end("n1", signal.SIGINT) == 0
        here.says("n1", job, "saved")
        assert here.until_status(job, "waiting")["failures"] == 0
        here.work("n1", gpus=1)
        assert here.until_status(job, "running")["run"] == 2


def test_a_worker_that_is_terminated_while_the_scheduler_restarts_leaves_all_the_same() -> None:
    with cluster(gpus=1) as here:
        here.join("n1", "0", "A", "--leave-grace", "120")
        job = here.submit("sleep", "600")
        here.until_status(job, "running")
        here.join("n2", "0", "A")
        here.kill9("server")
        until(lambda: "cut off" in here.out("n1"))
        here.processes["n1"].send_signal(signal.SIGTERM)
        until(lambda: "waiting for the scheduler" in here.out("n1"))
        here.serve()
        until(partial(runs_elsewhere, here, job, ["n1"]))
        assert here.processes.pop("n1").wait(60) == 0
        assert here.job(job)["failures"] == 0


def test_a_worker_that_keeps_its_jobs_leaves_them_to_the_next() -> None:
    with cluster(gpus=1) as here:
        here.join("n1", "0", "A")
        job = here.submit("sleep", "600")
        here.until_status(job, "running")
        here.weft("worker", "--id", "n1", "--stop", "--keep-jobs")
        assert here.processes.pop("n1").wait(60) == 0
        here.join("n1", "0", "A")
        assert here.until_status(job, "running")["run"] == 1


def storm_of_terminations(jobs: int, rounds: int) -> int:
    """Terminate all processes of two of four nodes, again and again. Return how many jobs did not run again."""
    names, gpus = ("n1", "n2", "n3", "n4"), jobs // 2
    with cluster(*names, gpus=gpus) as here:
        here.weft("submit", "--array", f"1-{jobs}", "-q", "--", "sleep", "600")
        running = partial(here.metric, 'weft_jobs{state="running"}')
        until(lambda: running() == jobs)
        for turn in range(rounds):
            pair = names[:2] if turn % 2 == 0 else names[2:]
            for name in pair:
                terminate_node(here.processes[name].pid, here.workers / name / "jobs")
            assert [here.processes.pop(name).wait(90) for name in pair] == [0, 0]
            here.work(*pair, gpus=gpus)
            until(lambda: running() == jobs)
        failed = [fact for fact in here.facts() if isinstance(fact, Exited) and fact.how == "failed"]
        here.weft("cancel", "--all", "-y")
        return len(failed)


def test_no_job_fails_when_its_nodes_are_terminated() -> None:
    assert storm_of_terminations(12, 2) == 0


@pytest.mark.soak
def test_none_of_240_jobs_fails_when_its_nodes_are_terminated() -> None:
    assert storm_of_terminations(120, 2) == 0
