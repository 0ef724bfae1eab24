"""A cluster as a user has it: `weft server`, workers, and commands that talk to it."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator

import pytest

from support.running.live_cluster import Cluster
from support.running.live_cluster import cluster as new_cluster
from support.running.local_scheduler import until
from weft.model import AdminAction, Cordoned, Paused, Uncordoned


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with new_cluster(options=()) as made:
        made.join("n1", "0,1", "A")
        made.join("n2", "2,3", "B", "--labels", "zone=b")
        yield made


def test_jobs_run_where_they_are_told_and_their_places_are_numbered_as_the_driver_does(cluster: Cluster) -> None:
    rows = cluster.json("gpus")["gpus"]
    assert sorted((row["node"], row["gpu"], row["model"]) for row in rows) == [
        ("n1", 0, "A"), ("n1", 1, "A"), ("n2", 2, "B"), ("n2", 3, "B"),
    ]  # fmt: skip
    jobs = {
        "pinned": cluster.submit("sleep", "60", flags=("--node", "n2", "--gpu-ids", "3")),
        "labelled": cluster.submit("sleep", "60", flags=("--label", "zone=b")),
        "on-node": cluster.submit("sleep", "60", flags=("--node", "n1", "--gpus", "0")),
    }
    places = {name: cluster.until_status(job, "running")["place"] for name, job in jobs.items()}
    assert places == {"pinned": "n2[3]", "labelled": "n2[2]", "on-node": "n1"}
    cluster.weft("cancel", *jobs.values())
    for job in jobs.values():
        cluster.until_status(job, "cancelled")


def test_a_gang_over_two_nodes_and_its_logs(cluster: Cluster) -> None:
    script = 'echo "I am $WEFT_NODE_RANK of $WEFT_NUM_NODES"'
    job = cluster.submit("sh", "-c", script, flags=("--gpus", "4", "--name", "gang"))
    assert cluster.until_status(job, "done", "failed")["status"] == "done"
    assert cluster.logs(job) == "I am 0 of 2\n"
    assert cluster.logs(job, "--rank", "1") == "I am 1 of 2\n"


def test_a_job_that_fits_nowhere_waits_and_says_why_and_holds_up_nobody(cluster: Cluster) -> None:
    big = cluster.submit("true", flags=("--gpus", "64"))
    elsewhere = cluster.submit("true", flags=("--node", "n99"))
    small = cluster.submit("true")
    assert cluster.until_status(small, "done", "failed")["status"] == "done"
    reasons = [cluster.json("why", job)["reasons"][0]["code"] for job in (big, elsewhere)]
    assert reasons == ["ReqNodeNotAvail", "ReqNodeNotAvail"]
    cluster.weft("cancel", big, elsewhere)


def test_a_drained_node_takes_nothing_new_and_who_asked_is_journalled(cluster: Cluster) -> None:
    cluster.weft("drain", "n1")
    cluster.weft("operate", "cordon", "n2[2]")
    assert cluster.node("n1")["closed"] == ["Drained"]
    first, second = cluster.submit("sleep", "60"), cluster.submit("sleep", "60")
    assert cluster.until_status(first, "running")["place"] == "n2[3]"
    assert {each["code"] for each in cluster.json("why", second)["reasons"]} >= {"Resources", "Drained"}
    cluster.weft("operate", "undrain", "n1", "n2")
    assert cluster.until_status(second, "running")
    cluster.weft("cancel", first, second)
    facts = cluster.facts()
    asked = [(fact.verb, dict(fact.options)["gpus"]) for fact in facts if isinstance(fact, AdminAction)]
    assert asked[-3:] == [("drain", "n1"), ("cordon", "n2[2]"), ("undrain", "n1 n2")]
    assert [type(fact) for fact in facts if isinstance(fact, Cordoned | Uncordoned) and fact.why == "Drained"] == [
        Cordoned, Uncordoned,
    ]  # fmt: skip


def test_pause_policy_interval_pass_and_set(cluster: Cluster) -> None:
    cluster.weft("operate", "pause")
    low, high = cluster.submit("true", flags=("--gpus", "4")), cluster.submit("true", flags=("--gpus", "4"))
    assert cluster.json("operate", "policy", "priority")["policy"] == "priority"
    cluster.weft("operate", "set", high, "priority=10")
    assert [job["id"] for job in cluster.json("queue")["jobs"]] == [high, low]
    assert cluster.json("operate", "interval", "3600")["interval_s"] == 3600
    cluster.weft("operate", "resume")
    assert cluster.until_status(high, "done")
    assert cluster.job(low)["status"] == "waiting"
    assert cluster.json("operate", "pass")["started"] == [low]
    assert cluster.until_status(low, "done")
    assert cluster.json("operate", "interval", "30s")["interval_s"] == 30
    assert "interval: 'soon'" in cluster.call("operate", "interval", "soon").stderr
    cluster.weft("operate", "interval", "0")
    dump = cluster.json("operate", "dump", "all")
    assert {job["id"] for job in dump["jobs"]} >= {low, high}
    assert (dump["policy"], dump["settings"]["interval_s"]) == ("priority", 0)
    cluster.weft("operate", "policy", "muri-l")  # it weaves, and may run live
    assert cluster.json("operate", "dump", "all")["policy"] == "muri-l"
    cluster.weft("operate", "policy", "balanced")
    assert any(isinstance(fact, Paused) for fact in cluster.facts())


def test_what_watches_it_can_read(cluster: Cluster) -> None:
    assert [cluster.page(path)[0] for path in ("/healthz", "/readyz", "/metrics", "/other")] == [200, 200, 200, 404]
    assert cluster.metric('weft_agents{state="connected"}') == 2
    assert cluster.metric('weft_gpus{node="n2"}') == 2
    assert cluster.metric("weft_decision_seconds_count") > 0
    assert cluster.metric('weft_rpc_total{method="Scheduler/Submit"}') > 0


def test_a_second_server_is_refused_with_one_clear_error(cluster: Cluster) -> None:
    again = cluster.call("server", "--port", str(cluster.port))
    assert (again.returncode, again.stdout, again.stderr.count("error:")) == (6, "", 1)
    other = cluster.call("server", "--policy", "nothing-like-it", "--port", "1")
    assert (other.returncode, "balanced" in other.stderr) == (2, True)


def test_jobs_outlive_the_server_and_their_last_words_the_worker(cluster: Cluster) -> None:
    job = cluster.submit("sh", "-c", "echo before; sleep 4; echo after; sleep 2; exit 7", flags=("--node", "n1"))
    cluster.until_status(job, "running")
    assert cluster.end("server") == 0
    cluster.serve()
    ended = cluster.until_status(job, "done", "failed")
    assert (ended["exit_code"], ended["run"]) == (7, 1)
    assert cluster.logs(job) == "before\nafter\n"
    cluster.kill9("n1")
    until(lambda: cluster.node("n1")["state"] == "silent")
    left = cluster.call("logs", job)
    assert left.stdout.endswith("after\n")
    assert "not connected" in left.stderr
    waiting = cluster.submit("true", flags=("--node", "n1"))
    assert "ReqNodeNotAvail" in {each["code"] for each in cluster.json("why", waiting)["reasons"]}
    cluster.join("n1", "0,1", "A")
    assert cluster.until_status(waiting, "done")


def test_shutdown_stops_the_jobs_if_it_is_to(cluster: Cluster) -> None:
    job = cluster.submit("sleep", "600")
    cluster.until_status(job, "running")
    cluster.weft("operate", "shutdown", "--jobs", "stop")
    assert cluster.processes.pop("server").wait(60) == 0
    cluster.serve()
    assert cluster.until_status(job, "cancelled")
    assert cluster.end("server", signal.SIGINT) == 0


def test_a_port_that_somebody_else_has_is_said_in_one_error(cluster: Cluster) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        refused = cluster.call("server", "--port", str(port))
    assert refused.returncode == 1
    assert refused.stderr.splitlines() == [
        f"weft: error: cannot listen on 127.0.0.1:{port}",
        "  check that the port is free and the address is one of this machine",
    ]
