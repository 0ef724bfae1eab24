"""Messages of servers and workers whose output is no terminal, and the end of a cluster of many nodes."""

from __future__ import annotations

from support.running.live_cluster import PLAIN, cluster
from support.running.local_scheduler import until


def test_a_server_prints_where_it_listens_and_where_its_log_is() -> None:
    with cluster() as here:
        until(lambda: "jobs" in here.out("server"))
        said = dict(line.split(None, 1) for line in here.out("server").splitlines())
        assert said["listens"] == f"127.0.0.1:{here.port}, this machine only"
        assert said["log"] == str(here.folder / "server.log")


def test_a_worker_prints_that_it_cannot_reach_the_scheduler_and_where_its_log_is() -> None:
    with cluster(options=PLAIN) as here:
        assert here.end("server") == 0
        here.start("n1", "worker", "--id", "n1", "--gpus", "0", "--log-stderr")
        until(lambda: "no answer  the scheduler cannot be reached; trying again" in here.out("n1"))
        assert f"log  {here.workers / 'n1' / 'worker.log'}" in here.out("n1")
        assert "INFO weft.worker: no answer: the scheduler cannot be reached" in here.out("n1")
        here.serve()
        until(lambda: f"joined  localhost:{here.port}" in here.out("n1"))


def test_a_worker_whose_name_is_taken_prints_why_it_waits_and_for_how_long() -> None:
    with cluster("n1") as here:
        here.start("twin", "worker", "--id", "n1", "--gpus", "0", "--folder", str(here.root / "twin"))
        until(lambda: "refused  a worker called n1 is connected" in here.out("twin"))
        assert "trying again for 30 s" in here.out("twin")
