"""Nodes from a real Slurm: they come when jobs wait, run gangs, survive cancelled allocations, and go when idle."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.peers.slurm_pools import PoolSite, pool_site
from support.running.local_scheduler import until


@pytest.fixture(scope="module")
def site() -> Iterator[PoolSite]:
    with pool_site() as made:
        yield made


def test_nodes_come_for_a_gang_are_replaced_and_go_when_idle(site: PoolSite) -> None:
    weft = site.weft
    site.add("v100", "--idle", "2s", options=("-p", "gpu"))
    job = weft.submit("sleep", "600", flags=("--gpus", "4"))
    nodes = site.nodes_of(job)
    assert nodes == {"v100-0", "v100-1"}
    until(lambda: {row["phase"] for row in site.pool("v100")["allocations"]} == {"joined"})
    assert {node["labels"]["pool"] for node in weft.json("nodes")["nodes"]} == {"v100"}

    site.slurm.run("scancel", site.id_of("v100", "v100-0"))
    row = until(lambda: (found := weft.job(job))["status"] == "running" and found["run"] > 1 and found)
    assert row["failures"] == 0
    assert "v100-1" in site.nodes_of(job)

    weft.weft("cancel", job, "-y")
    site.until_gone("v100")
    assert weft.json("nodes")["nodes"] == [], "nodes of a pool that left are not listed"
    site.remove("v100")


def test_bad_pools_are_refused_with_the_reason_of_slurm(site: PoolSite) -> None:
    flags = ("--gpus-per-node", "2", "--time", "30m", "--max-nodes", "4")
    done = site.weft.call("pool", "add", "p", "--slurm", *flags, "--", "-p", "nowhere")
    assert done.returncode == 6
    assert "sbatch failed" in done.stderr
    assert "nowhere" in done.stderr or "partition" in done.stderr
    done = site.weft.call("pool", "add", "Bad_Name", "--slurm", *flags)
    assert (done.returncode, "invalid pool name" in done.stderr) == (2, True)
    done = site.weft.call("pool", "add", "p", "--slurm", "--gpus-per-node", "2", "--max-nodes", "4")
    assert (done.returncode, "--time is missing" in done.stderr) == (2, True)
    assert site.json("pool", "list")["pools"] == []


def test_a_script_that_fails_pauses_its_pool_and_says_why(site: PoolSite) -> None:
    weft = site.weft
    site.add("broken", "--setup", "echo no such module: cuda/99 >&2; exit 3", options=("-p", "gpu"))
    done = weft.call("pool", "try", "broken")
    assert done.returncode == 1
    assert "no such module: cuda/99" in done.stderr
    job = weft.submit("true", flags=("--gpus", "2"))
    until(lambda: site.pool("broken")["state"] == "paused")
    pool = site.pool("broken")
    assert (pool["why"], pool["failures"], "no such module" in pool["failure"]) == ("CrashLoop", 3, True)
    assert "no such module: cuda/99" in weft.weft("pool", "show", "broken")
    assert "Pool: broken: paused (CrashLoop)" in weft.weft("why", job)
    assert any(
        "pool broken is paused" in problem
        for problem in json.loads(weft.weft("doctor", "--json", code=None))["problems"]
    )
    long = weft.submit("true", flags=("--gpus", "2", "--time", "6h"))
    assert "LongerThanAllocations: it needs 6h, the nodes of pool broken last 30m" in weft.weft("why", long)
    site.remove("broken")


def test_the_token_of_a_pool_is_private_and_goes_with_it(site: PoolSite) -> None:
    weft = site.weft
    site.add("p100", options=("-p", "gpu"))
    token = weft.folder / "pools" / "p100" / "credentials" / "worker-token"
    assert token.stat().st_mode & 0o077 == 0
    assert token.read_text().strip() not in weft.weft("pool", "script", "p100")
    assert [row["state"] for row in site.json("auth", "list")["tokens"] if row["node"] == "p100-*"] == ["good"]
    site.remove("p100")
    assert [row["state"] for row in site.json("auth", "list")["tokens"] if row["node"] == "p100-*"] == ["revoked"]
    assert not token.exists()
