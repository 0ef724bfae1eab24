"""`weft node check --nodes`: short jobs on the nodes of a real cluster measure the network between them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import is_alive, until


@pytest.fixture(scope="module")
def nodes() -> Iterator[Cluster]:
    with cluster("n1", "n2", "n3", gpus=1) as made:
        yield made


def check(nodes: Cluster, names: str) -> dict[str, Any]:
    """Return the answer. Its exit code says whether a step failed: on some machines, podman's."""
    done = nodes.call("node", "check", "--nodes", names, "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    steps = [step for node in found["nodes"] for step in node["steps"]]
    assert done.returncode == any(step["state"] == "failed" for step in steps)
    return found


def network(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["node"]: next(step for step in each["steps"] if step["name"] == "network") for each in found["nodes"]}


def test_all_links_are_measured_while_the_gpus_are_busy(nodes: Cluster) -> None:
    busy = nodes.submit("sleep", "600", flags=("--gpus", "3"))
    nodes.until_status(busy, "running")
    found = check(nodes, "all")
    pairs = {(each["source"], each["target"]) for each in found["links"]}
    assert pairs == {(a, b) for a in ("n1", "n2", "n3") for b in ("n1", "n2", "n3") if a != b}
    assert all(each["problem"] == "" and each["mb_per_s"] > 0 for each in found["links"])
    assert {step["state"] for step in network(found).values()} <= {"ok", "warning"}
    assert [job["id"] for job in nodes.json("queue", "-a")["jobs"]] == [busy], "its jobs are gone"
    nodes.weft("cancel", busy)
    nodes.until_status(busy, "cancelled")


def test_a_drained_and_a_lost_node_are_reported_and_the_rest_is_measured(nodes: Cluster) -> None:
    nodes.weft("drain", "n3")
    found = network(check(nodes, "all"))
    assert (found["n3"]["state"], found["n1"]["state"]) == ("skipped", found["n2"]["state"])
    assert "Drained" in found["n3"]["detail"]
    nodes.weft("undrain", "n3")
    nodes.kill9("n3")
    until(lambda: nodes.node("n3")["state"] != "connected")
    found = network(check(nodes, "n2,n3"))
    assert (found["n3"]["state"], found["n2"]["state"]) == ("failed", "skipped")
    assert nodes.weft("node", "check", "--nodes", "n1", code=None).splitlines()[-1].split()[:2] == ["n1", "network"]


def test_a_node_that_does_not_exist_is_an_error(nodes: Cluster) -> None:
    done = nodes.call("node", "check", "--nodes", "n9")
    assert done.returncode == 2
    assert "unknown node 'n9'" in done.stderr
    alone = nodes.call("node", "check", "--nodes", "all", "--hosts", "x")
    assert "one or the other" in alone.stderr


def test_clean_kills_the_processes_of_a_run_whose_worker_and_shim_were_killed(nodes: Cluster) -> None:
    job = nodes.submit("sh", "-c", "setsid sleep 600 & echo $! up; sleep 601", flags=("--node", "n1"))
    kept = nodes.submit("sleep", "602", flags=("--node", "n2"))
    nodes.says("n1", job, "up")
    nodes.until_status(kept, "running")
    detached = int((nodes.run_folder("n1", job) / "output.log").read_text().split()[0])
    record = json.loads((nodes.run_folder("n1", job) / "started.json").read_bytes().rstrip(b"\0"))
    nodes.kill9("n1")
    os.kill(record["shim"][1], signal.SIGKILL)
    until(lambda: not is_alive(record["shim"][1]))
    assert is_alive(detached)
    (step,) = [
        each for each in json.loads(nodes.weft("node", "clean", "--json"))["steps"] if each["name"] == "processes"
    ]
    assert step["state"] == "done"
    assert all(f"pid {pid} of job {job}, run 1" in step["detail"] for pid in (detached, record["leader"][1]))
    assert not is_alive(detached)
    assert not is_alive(record["leader"][1])
    assert nodes.job(kept)["status"] == "running"
