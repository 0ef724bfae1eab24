"""Faults of a pool on a real Slurm: cancelled allocations, time limits, killed workers, and a scheduler that is killed
between a request and its answer."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import pytest

from support.peers.slurm_cluster import NODES
from support.peers.slurm_pools import PoolSite, pool_site
from support.running.live_cluster import Cluster
from support.running.local_scheduler import until
from weft.model import AllocationEnded, AllocationGranted, AllocationRequested, Exited, NodeEndChanged, NodeJoined
from weft.node.agent.state_dir import AgentDir

pytestmark = pytest.mark.soak
CANCELS = 12
ELSEWHERE_S = 60.0
"""Far less than the lease of 600 s; on a quiet machine it takes less than 2 s."""
KILLING_SBATCH = """\
#!/bin/sh
id=$({sbatch} "$@") || exit
case "$*" in *--test-only*) exit 0;; esac
if [ -e {root}/kill ]; then
  rm {root}/kill
  kill -9 $PPID
fi
echo "$id"
"""


@pytest.fixture(scope="module")
def site() -> Iterator[PoolSite]:
    with pool_site(kill_wait=40) as made:
        yield made


def is_running(site: PoolSite, job: str, run: int) -> bool:
    row = site.weft.job(job)
    return bool(row["status"] == "running" and row["run"] >= run)


def count_requests(weft: Cluster) -> int:
    return sum(isinstance(fact, AllocationRequested) for fact in weft.facts())


def test_a_gang_runs_elsewhere_after_each_of_twelve_cancelled_allocations(site: PoolSite) -> None:
    weft = site.weft
    site.add("v100", "--min-nodes", str(NODES), options=("-p", "gpu"))
    until(lambda: len(weft.connected()) == NODES)
    job = weft.submit("sleep", "6000", flags=("--gpus", "4"))
    took = []
    for _ in range(CANCELS):
        nodes, run = site.nodes_of(job), weft.job(job)["run"]
        until(lambda: len(weft.connected()) == NODES)
        since = time.time()
        site.slurm.run("scancel", site.id_of("v100", sorted(nodes)[0]))
        until(partial(is_running, site, job, run + 1))
        took.append(site.started_at(job, run + 1) - since)
    assert weft.job(job)["failures"] == 0
    assert not [fact for fact in weft.facts() if isinstance(fact, Exited) and fact.how == "failed"]
    assert median(took) < ELSEWHERE_S, took
    site.remove("v100")


def test_a_job_leaves_before_the_time_limit_and_runs_again(site: PoolSite) -> None:
    weft = site.weft
    site.add("short", "--leave-grace", "10s", options=("-p", "gpu"), time="1m", most=1)
    job = weft.submit("sh", "-c", "trap 'echo saved; exit 85' TERM; echo up; sleep 600 & wait")
    weft.until_status(job, "running")
    until(partial(is_running, site, job, 2), 240.0)
    row = weft.job(job)
    assert (row["failures"], row["preemptions"]) == (0, 0)
    first = next(fact for fact in weft.facts() if isinstance(fact, AllocationEnded))
    assert first.how in ("COMPLETED", "CANCELLED"), "the worker left before Slurm killed it"
    assert "saved" in weft.logs(job, "--run", "1")
    site.remove("short")


def test_an_extended_time_limit_keeps_a_node(site: PoolSite) -> None:
    weft = site.weft
    site.add("short", "--leave-grace", "10s", options=("-p", "gpu"), time="1m", most=1)
    job = weft.submit("sleep", "600")
    (node,) = site.nodes_of(job)
    joined = [fact for fact in weft.facts() if isinstance(fact, NodeJoined) and fact.node.id == node][-1]
    assert joined.node.until is not None
    site.slurm.run("scontrol", "update", f"jobid={site.id_of('short', node)}", "TimeLimit=30")
    (changed,) = until(lambda: [fact for fact in weft.facts() if isinstance(fact, NodeEndChanged)])
    assert changed.until - joined.node.until == pytest.approx(29 * 60, abs=5)
    left_s = joined.node.until - time.time()
    time.sleep(max(left_s, 0.0) + 5.0)  # the worker would have left by now
    row = weft.job(job)
    assert (row["status"], row["run"]) == ("running", 1)
    site.remove("short")


def test_a_killed_worker_comes_back_to_its_run(site: PoolSite) -> None:
    weft = site.weft
    site.add("v100", options=("-p", "gpu"), most=1)
    job = weft.submit("sleep", "600")
    (node,) = site.nodes_of(job)
    folder = AgentDir(weft.folder / "pools" / "v100" / "workers" / node, Path("/nowhere"))
    before, requests = folder.lock_holder_pid(), count_requests(weft)
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: folder.lock_holder_pid() not in (None, before) and node in weft.connected())
    row = weft.until_status(job, "running")
    assert (row["run"], row["failures"]) == (1, 0)
    assert count_requests(weft) == requests, "the allocation stays"
    site.remove("v100")


def test_jobs_of_a_removed_pool_end_first_unless_it_goes_now(site: PoolSite) -> None:
    weft = site.weft
    site.add("v100", options=("-p", "gpu"), most=2)
    job = weft.submit("sh", "-c", "until test -e go; do sleep 0.2; done")
    later = weft.submit("true", flags=("--gpus", "2", "--label", "pool=v100"))
    site.nodes_of(job)
    until(lambda: weft.job(later)["status"] in ("running", "done"))
    weft.weft("pool", "remove", "v100")
    third = weft.submit("true")
    until(lambda: len(site.pool("v100")["allocations"]) == 1)
    assert weft.job(third)["status"] == "waiting", "nothing starts on nodes of a removed pool"
    (weft.root / "go").touch()
    assert weft.wait(job) == 0
    until(lambda: not site.json("pool", "list")["pools"] and not site.slurm.jobs())
    weft.weft("cancel", third, "-y")


def test_a_scheduler_killed_between_request_and_answer_finds_the_allocation_again(tmp_path: Path) -> None:
    real = shutil.which("sbatch")
    (tmp_path / "sbatch").write_text(KILLING_SBATCH.format(sbatch=real, root=tmp_path))
    (tmp_path / "sbatch").chmod(0o755)
    with pool_site(path=str(tmp_path)) as site:
        weft = site.weft
        site.add("v100", options=("-p", "gpu"), most=1)
        (tmp_path / "kill").touch()
        weft.call("submit", "--", "sleep", "600")
        until(lambda: weft.processes["server"].poll() is not None)
        weft.processes.pop("server")
        (asked,) = [fact for fact in weft.facts() if isinstance(fact, AllocationRequested)]
        assert not [fact for fact in weft.facts() if isinstance(fact, AllocationGranted)]
        weft.serve()
        weft.until_status("1", "running")
        (granted,) = until(lambda: [fact for fact in weft.facts() if isinstance(fact, AllocationGranted)])
        assert (granted.key, [granted.id]) == (asked.key, site.slurm.jobs())
        site.remove("v100")


def test_a_request_that_was_never_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "sbatch").write_text(
        KILLING_SBATCH.format(sbatch=shutil.which("sbatch"), root=tmp_path)
        .replace('id=$(', f'[ -e {tmp_path}/kill ] && rm {tmp_path}/kill && kill -9 $PPID && exit 1\nid=$(', 1)
    )  # fmt: skip
    (tmp_path / "sbatch").chmod(0o755)
    with pool_site(path=str(tmp_path)) as site:
        weft = site.weft
        site.add("v100", options=("-p", "gpu"), most=1)
        (tmp_path / "kill").touch()
        weft.call("submit", "--", "sleep", "600")
        until(lambda: weft.processes["server"].poll() is not None)
        weft.processes.pop("server")
        weft.serve()
        weft.until_status("1", "running")
        first, second = [fact for fact in weft.facts() if isinstance(fact, AllocationRequested)]
        (ended,) = [fact for fact in weft.facts() if isinstance(fact, AllocationEnded)]
        assert (ended.key, ended.how, ended.failed) == (first.key, "never requested", False)
        assert second.slot == first.slot
        assert len(site.slurm.jobs()) == 1
        site.remove("v100")
