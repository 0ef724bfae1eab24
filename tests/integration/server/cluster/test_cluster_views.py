"""Views of a real cluster of different nodes: GPUs by the driver's numbers, why jobs wait, where they ran, logs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.node.engine.output.logs import RUNS_KEPT


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster() as made:
        made.join("n10", "4,6", "A100", "--labels", "rack=3")
        made.join("n2", "0,1", "V100")
        yield made


def test_a_dump_numbers_gpus_as_everything_else_does(here: Cluster) -> None:
    job = here.submit("sleep", "60", flags=("--gpus", "1", "--node", "n10"))
    here.until_status(job, "running")
    here.weft("operate", "drain", "n10[6]")
    found = json.loads(here.weft("operate", "dump"))
    there = [(gpu["gpu"], bool(gpu["blocked"])) for gpu in found["gpus"] if gpu["node"] == "n10"]
    (row,) = [each for each in found["jobs"] if each["id"] == job]
    assert (there, row["place"], row["last_gpus"]) == ([(4, False), (6, True)], "n10[4]", [4])
    here.weft("operate", "undrain", "n10")
    here.weft("cancel", job)
    ended = here.until_status(job, "cancelled")
    assert (ended["place"], ended["last_place"]) == ("", "n10[4]")
    assert "was on" in here.weft("show", job)


def test_nodes_come_in_the_order_in_which_people_count(here: Cluster) -> None:
    names = [line.split()[0] for line in here.weft("gpus").splitlines()[1:]]
    assert names == ["n2", "n2", "n10", "n10"]


def test_a_gpu_that_is_drained_on_a_node_that_is_drained_says_so_once(here: Cluster) -> None:
    here.weft("drain", "n2[0]")
    here.weft("drain", "n2")
    lines = [line for line in here.weft("gpus").splitlines() if line.startswith("n2")]
    assert [line.count("Drained") for line in lines] == [1, 1]
    here.weft("undrain", "n2")


def test_the_queue_and_why_agree_on_jobs_that_fit_nowhere(here: Cluster) -> None:
    never = here.submit("true", flags=("--gpus", "40"))
    nowhere = here.submit("true", flags=("--label", "rack=9"))
    rows = {job["id"]: job["reason"] for job in here.json("queue")["jobs"]}
    assert (rows[never], rows[nowhere]) == ("ReqNodeNotAvail", "ReqNodeNotAvail")
    assert "needs 40 GPUs; the cluster has 4" in here.weft("why", never)
    assert "no node has rack=9" in here.weft("why", nowhere)
    assert here.wait(here.submit("true", flags=("--gpus", "4"))) == 0, "they hold up nobody"
    here.weft("cancel", never, nowhere)


def test_a_rank_that_a_run_does_not_have(here: Cluster) -> None:
    job = here.submit("sh", "-c", "echo rank $WEFT_NODE_RANK", flags=("--gpus", "3"))
    assert here.wait(job) == 0
    assert here.logs(job, "--rank", "1") == "rank 1\n"
    refused = here.call("logs", job, "--rank", "2")
    assert refused.returncode == 3
    assert "no rank 2" in refused.stderr
    assert "2 nodes, ranks 0 to 1" in refused.stderr


def test_which_policy_it_has_is_an_answer_that_can_be_piped(here: Cluster) -> None:
    assert here.weft("operate", "policy") == "fifo\n"
    here.weft("operate", "policy", "tiresias:thresholds=3600+36000")
    assert here.weft("operate", "policy") == "tiresias:thresholds=3600+36000\n"
    here.weft("operate", "policy", "fifo")


def test_of_a_job_that_runs_again_and_again_its_node_keeps_the_last_runs(here: Cluster) -> None:
    script = f"echo run $WEFT_RUN; [ $WEFT_RUN = {RUNS_KEPT + 3} ] || exit 1"
    job = here.submit("sh", "-c", script, flags=("--node", "n2", "--retries", str(RUNS_KEPT + 2)))
    assert here.wait(job) == 0
    kept = [str(run) for run in range(4, RUNS_KEPT + 4)]
    folder = here.workers / "n2" / "jobs" / job
    until(lambda: sorted((each.name for each in folder.glob("[0-9]*")), key=int) == kept)
    assert here.logs(job, "--run", "4") == "run 4\n"


def test_what_is_forgotten_while_a_worker_is_away_goes_when_it_is_back(here: Cluster) -> None:
    gone, stays = (here.submit("true", flags=("--node", "n2")) for _ in range(2))
    assert (here.wait(gone), here.wait(stays)) == (0, 0)
    here.end("n2")
    here.weft("clean", gone)
    assert (here.workers / "n2" / "jobs" / gone).exists()
    here.join("n2", "0,1", "V100")
    until(lambda: not (here.workers / "n2" / "jobs" / gone).exists())
    assert (here.workers / "n2" / "jobs" / stays).exists()
