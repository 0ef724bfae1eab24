"""Nodes from a real Ray cluster, over its Jobs API: they run a gang, come again after a stop, and go when idle."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from support.peers.ray_cluster import ray
from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until

RAY_PATIENCE_S = 240.0
"""Ray starts a process with all its modules for each job: seconds on a quiet machine."""
WAITS = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES; until test -e go; do sleep 0.2; done")


def test_nodes_land_on_ray_come_again_after_a_stop_and_go() -> None:
    with ray(nodes=0, head_gpus=2) as head, cluster(prefix=head.prefix) as here:
        shape = ("--gpus-per-node", "1", "--model", "V100", "--time", "30m", "--max-nodes", "2", "--idle", "5s")
        here.weft("pool", "add", "burst", "--ray", head.url, "--token-file", str(head.token_file), *shape)
        job = here.submit(*WAITS, flags=("--gpus", "2"))
        until(lambda: here.job(job)["status"] == "running", RAY_PATIENCE_S)
        assert here.connected() == {"burst-0", "burst-1"}

        before = allocations(here)
        head.stop_job(before["burst-1"])
        until(lambda: allocations(here).get("burst-1", "") not in ("", before["burst-1"]), RAY_PATIENCE_S)
        until(lambda: here.job(job)["status"] == "running" and here.job(job)["runs"][-1]["run"] > 1, RAY_PATIENCE_S)
        assert allocations(here)["burst-0"] == before["burst-0"]
        (here.root / "go").touch()
        assert here.wait(job) == 0
        until(lambda: not here.connected() and not allocations(here), RAY_PATIENCE_S)
        assert pool(here)["state"] == "open"


@pytest.mark.soak
def test_nodes_come_from_ray_run_a_gang_and_go() -> None:
    with ray(nodes=2, gpus=2) as head, cluster(prefix=head.prefix) as here:
        assert head.nodes() == 1
        shape = ("--gpus-per-node", "2", "--model", "V100", "--time", "30m", "--max-nodes", "2", "--idle", "5s")
        done = here.call("pool", "add", "burst", "--ray", head.url, *shape)
        assert done.returncode == 6
        assert "--token-file" in done.stderr, "without a token Ray refuses, and the message says what to do"
        here.weft("pool", "add", "burst", "--ray", head.url, "--token-file", str(head.token_file), *shape)
        began = time.time()
        job = here.submit(*WAITS, flags=("--gpus", "4"))
        until(lambda: here.job(job)["status"] == "running", RAY_PATIENCE_S)
        assert here.connected() == {"burst-0", "burst-1"}
        print(f"two nodes of Ray joined and ran a gang after {time.time() - began:.1f} s")

        assert allocations(here)["burst-0"].startswith("weft-")
        (here.root / "go").touch()
        assert here.wait(job) == 0
        until(lambda: not here.connected() and not allocations(here), RAY_PATIENCE_S)
        assert pool(here)["state"] == "open"
        until(lambda: head.nodes() == 1, RAY_PATIENCE_S)  # Ray gives its idle nodes back, too
        here.weft("pool", "remove", "burst")


def allocations(here: Cluster) -> dict[str, str]:
    """Return the nodes of the pool, each with the id of its job at Ray."""
    return {each["node"]: each["id"] for each in pool(here)["allocations"]}


def pool(here: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(here.weft("pool", "show", "burst", "--json"))
    return found
