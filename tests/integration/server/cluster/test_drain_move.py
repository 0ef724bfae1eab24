"""`weft drain --move`, drains that outlive their node, and the rank of a gang that failed."""

from __future__ import annotations

import signal

from support.running.live_cluster import cluster
from support.running.local_scheduler import until
from weft.model import Evicted, Exited, Stop
from weft.model.slots import parse_slots

SAVES = """
trap 'test -e "$WEFT_PREEMPT_FILE" && echo saved; exit 85' TERM
echo up
sleep 600 & wait
"""


def test_drain_with_move_lets_jobs_save_their_work_and_run_elsewhere() -> None:
    with cluster("n1", "n2", gpus=2) as here:
        moves = here.submit("sh", "-c", SAVES)
        ((node, _),) = parse_slots(here.until_status(moves, "running")["place"])
        here.says(node, moves, "up")
        stays = here.submit("sleep", "600", flags=("--gpus", "2"))
        here.until_status(stays, "running")
        done = here.json("drain", node, "--move")
        assert (done["places"], done["moved"]) == ([node], [moves])
        here.says(node, moves, "saved")
        here.weft("cancel", stays)
        row = until(lambda: (row := here.job(moves))["status"] == "running" and row)
        assert (row["run"], row["failures"], row["place"].startswith(node)) == (2, 0, False)
        facts = here.facts()
        assert [(fact.job, fact.run) for fact in facts if isinstance(fact, Evicted)] == [(moves, 1)]
        assert [fact.why for fact in facts if isinstance(fact, Stop) and fact.job == moves] == ["moved"]
        here.weft("undrain", node)


def test_a_drained_gpu_stays_drained_when_its_node_comes_back() -> None:
    with cluster("n1", gpus=2) as here:
        here.weft("drain", "n1[1]")
        assert here.end("n1", signal.SIGTERM) == 0
        until(lambda: here.node("n1")["state"] == "lost")
        here.work("n1", gpus=2)
        first, second = here.submit("sleep", "600"), here.submit("sleep", "600")
        assert here.until_status(first, "running")["place"] == "n1[0]"
        assert "Drained" in {each["code"] for each in here.json("why", second)["reasons"]}
        here.weft("undrain", "n1[1]")
        assert here.until_status(second, "running")["place"] == "n1[1]"


def test_the_rank_that_failed_is_recorded_and_shown() -> None:
    script = "[ $WEFT_NODE_RANK = 1 ] && exit 3; sleep 600"
    with cluster("n1", "n2", gpus=1) as here:
        job = here.submit("sh", "-c", script, flags=("--gpus", "2"))
        row = here.until_status(job, "failed")
        (fact,) = (fact for fact in here.facts() if isinstance(fact, Exited))
        (_, (node, _)) = parse_slots(row["last_place"])
        assert (fact.rank, fact.node, fact.code) == (1, node, 3)
        assert (row["failed_rank"], row["failed_node"], row["exit_code"]) == (1, node, 3)
        assert f"1 on {node}" in here.weft("show", job)
        assert f"with code 3 of rank 1 on {node}" in here.weft("why", job)
