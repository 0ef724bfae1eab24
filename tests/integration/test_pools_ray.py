"""Nodes from a real Ray cluster, over its Jobs API: its autoscaler adds them, they run a gang, and go when idle."""

from __future__ import annotations

import json
import time

import pytest

from support.live_cluster import cluster
from support.local_scheduler import until
from support.ray_cluster import ray

pytestmark = pytest.mark.soak
RAY_PATIENCE_S = 240.0
"""Ray starts a process with all its modules for each job: seconds on a quiet machine."""


def test_nodes_come_from_ray_run_a_gang_and_go() -> None:
    with ray(nodes=2, gpus=2) as head, cluster(prefix=head.prefix) as here:
        assert head.nodes() == 1
        shape = ("--gpus-per-node", "2", "--model", "V100", "--time", "30m", "--max-nodes", "2", "--idle", "5s")
        done = here.call("pool", "add", "burst", "--ray", head.url, *shape)
        assert done.returncode == 6
        assert "--token-file" in done.stderr, "without a token Ray refuses, and the message says what to do"
        here.weft("pool", "add", "burst", "--ray", head.url, "--token-file", str(head.token_file), *shape)
        began = time.time()
        job = here.submit(
            "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; until test -e go; do sleep 0.2; done", flags=("--gpus", "4")
        )
        until(lambda: here.job(job)["status"] == "running", RAY_PATIENCE_S)
        assert here.connected() == {"burst-0", "burst-1"}
        print(f"two nodes of Ray joined and ran a gang after {time.time() - began:.1f} s")

        pool = json.loads(here.weft("pool", "show", "burst", "--json"))
        first = next(each for each in pool["allocations"] if each["node"] == "burst-0")
        assert first["id"].startswith("weft-")
        (here.root / "go").touch()
        assert here.wait(job) == 0
        until(lambda: not here.connected() and not _pool(here)["allocations"], RAY_PATIENCE_S)
        assert _pool(here)["state"] == "open"
        until(lambda: head.nodes() == 1, RAY_PATIENCE_S)  # Ray gives its idle nodes back, too
        here.weft("pool", "remove", "burst")


def _pool(here: object) -> dict[str, object]:
    found: dict[str, object] = json.loads(here.weft("pool", "show", "burst", "--json"))  # type: ignore[attr-defined]
    return found
