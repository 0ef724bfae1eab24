"""Pools on a real Slurm of four nodes on loopback, and on a real Ray whose autoscaler adds nodes: how soon nodes come
and go, and a gang that lost one runs elsewhere."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.figure import Figure

if TYPE_CHECKING:
    from support.peers.slurm_pools import PoolSite

CANCELS = 5
SHORT_RUNS = 200


def figures() -> Iterator[Figure]:
    """Measure wall time, because most of it is Slurm's: on a busy machine the figures are too high."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from support.peers.slurm_pools import pool_site

    with pool_site() as site:
        yield from _from_nothing(site)
        yield from _cancels(site)
        yield from _crash_loop(site)
    yield from _ray()


def _from_nothing(site: PoolSite) -> Iterator[Figure]:
    from support.running.local_scheduler import until

    weft = site.weft
    site.add("v100", "--idle", "5s", options=("-p", "gpu"))
    began = time.time()
    weft.weft("submit", "--array", "1-12", "-q", "--", "sleep", "5")
    weft.submit("sleep", "5", flags=("--gpus", "4"))
    until(lambda: not json.loads(weft.weft("queue", "--json"))["jobs"], 600.0)
    yield Figure("0 to 4 nodes, 12 jobs of 5 s and a gang done", time.time() - began, "s", 40.0)
    yield Figure("request to joined node, median", median(site.joined_after_s()), "s", 5.0)
    yield Figure("request to joined node, most", max(site.joined_after_s()), "s")
    site.until_gone("v100")
    site.remove("v100")


def _cancels(site: PoolSite) -> Iterator[Figure]:
    from support.running.local_scheduler import until

    weft = site.weft
    site.add("v100", "--min-nodes", "4", options=("-p", "gpu"))
    until(lambda: len(weft.connected()) == 4, 600.0)
    began = time.time()
    weft.weft("submit", "--array", f"1-{SHORT_RUNS}", "-q", "--", "/bin/true")
    until(lambda: weft.metric('weft_jobs{state="running"}') + weft.metric('weft_jobs{state="waiting"}') == 0, 600.0)
    yield Figure("short runs over 4 pilots", SHORT_RUNS / (time.time() - began), "runs/s", 40.0, more_is_better=True)
    job = weft.submit("sleep", "6000", flags=("--gpus", "4"))
    took = []
    for _ in range(CANCELS):
        nodes, run = site.nodes_of(job), weft.job(job)["run"]
        until(lambda: len(weft.connected()) == 4, 600.0)
        since = time.time()
        site.slurm.run("scancel", site.id_of("v100", sorted(nodes)[0]))
        until(partial(_runs_again, site, job, run), 600.0)
        took.append(site.started_at(job, run + 1) - since)
    yield Figure("scancel to the gang elsewhere, median", median(took), "s", 2.0)
    site.remove("v100")


def _runs_again(site: PoolSite, job: str, run: int) -> bool:
    row = site.weft.job(job)
    return bool(row["run"] > run and row["status"] == "running")


def _crash_loop(site: PoolSite) -> Iterator[Figure]:
    from support.running.local_scheduler import until

    site.add("broken", "--setup", "exit 3", options=("-p", "gpu"))
    began = time.time()
    site.weft.submit("true", flags=("--gpus", "2"))
    until(lambda: site.pool("broken")["state"] == "paused", 600.0)
    yield Figure("crash loop to paused, after 3 failures", time.time() - began, "s", 20.0)
    site.remove("broken")


def _ray() -> Iterator[Figure]:
    """Measure a Ray of which only the head runs at first: a job that waits makes its autoscaler start nodes."""
    from support.peers.ray_cluster import ray
    from support.running.live_cluster import cluster
    from support.running.local_scheduler import until
    from weft.model import AllocationReleased, AllocationRequested, Exited, NodeJoined, NodeLost

    with ray(nodes=2, gpus=2) as head, cluster(prefix=head.prefix) as weft:
        shape = ("--gpus-per-node", "2", "--model", "V100", "--time", "30m", "--max-nodes", "2", "--idle", "10m")
        weft.weft("pool", "add", "burst", "--ray", head.url, "--token-file", str(head.token_file), *shape)
        job = weft.submit("true", flags=("--gpus", "4"))
        until(lambda: weft.job(job)["status"] == "done", 600.0)
        at = {type(fact): fact.at for fact in reversed(weft.facts())}  # the first of each
        last = max(fact.at for fact in weft.facts() if isinstance(fact, NodeJoined))
        yield Figure("Ray, cold: request to joined node, both of 2", last - at[AllocationRequested], "s", 60.0)
        before = len(weft.facts())
        weft.weft("submit", "--array", f"1-{SHORT_RUNS}", "-q", "--", "/bin/true")
        until(lambda: not json.loads(weft.weft("queue", "--json"))["jobs"], 600.0)
        done = weft.facts()[before:]
        took_s = max(fact.at for fact in done if isinstance(fact, Exited)) - done[0].at  # from the first submit
        yield Figure("Ray: short runs over 2 pilots", SHORT_RUNS / took_s, "runs/s", 40.0, more_is_better=True)
        weft.weft("pool", "remove", "burst", "--now")
        until(lambda: not weft.connected(), 600.0)
        since = time.time()
        found = weft.facts()
        told = max(fact.at for fact in found if isinstance(fact, AllocationReleased))
        gone = max(fact.at for fact in found if isinstance(fact, NodeLost))
        yield Figure("Ray: stop to gone", gone - told, "s", 3.0)
        until(lambda: head.nodes() == 1, 600.0)
        yield Figure("Ray: back to the head alone", time.time() - since, "s", 40.0)
