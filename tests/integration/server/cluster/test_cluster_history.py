"""The history of a cluster: its figures over the wire, from a journal with preemptions, an array and a lost node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.history.journal.sqlite.compaction import compact
from weft.sim.traces.trace import read_trace

LASTS = ("sleep", "0.3")
FOREVER = ("sleep", "600")


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    options = ("--policy", "priority:preempts=on", "--min-run", "0", "--lease", "5")
    with cluster("n1", "n2", options=options) as made:
        live(made)
        yield made


def live(here: Cluster) -> None:
    """An array, a preemption, a node that is lost with a run on it, and a cancelled job."""
    here.weft("submit", "--array", "0-3", "--name", "sweep", "--", *LASTS)
    low = here.submit("sh", "-c", "test $WEFT_RUN = 1 && exec sleep 600; sleep 0.2", flags=("--gpus", "2"))
    here.until_status(low, "running")
    here.weft("submit", "--array", "0-1", "--gpus", "2", "--priority", "5", "--", *LASTS)
    until(lambda: here.job(low)["run"] == 2)
    moved = here.submit("sh", "-c", "test $WEFT_RUN = 1 && exec sleep 600; sleep 0.2", flags=("--gpus", "2"))
    (node,) = until(lambda: here.where(moved))
    here.until_status(moved, "running")
    here.kill9(node)
    here.until_status(moved, "done")
    gone = here.submit(*FOREVER)
    here.until_status(gone, "running")
    here.weft("cancel", gone, "-y")
    here.until_status(gone, "cancelled")
    until(lambda: not [job for job in here.json("queue")["jobs"] if not job["ended"]])


def test_the_figures_come_over_the_wire(here: Cluster) -> None:
    found = here.json("metrics")
    assert found["scheduler"] == f"localhost:{here.port}"
    assert (found["jobs"], found["finished"], found["failed"], found["unfinished"]) == (9, 8, 0, 0)
    assert found["preemptions"] == 1
    assert found["restarts"] == 2, "one run was preempted, one was lost"
    assert 0 < found["gpu_utilisation"] <= 1
    assert found["p99_jct_s"] >= found["p50_jct_s"] > 0
    direct = here.json("metrics", str(here.folder / "state.db"))
    figures = {key: value for key, value in direct.items() if key != "file"}
    assert {key: found[key] for key in figures} == pytest.approx(figures)
    assert here.json("metrics", "--since", "1h")["jobs"] == 9
    assert here.json("metrics", "--user", "nemo")["jobs"] == 0


def test_the_history_becomes_a_trace(here: Cluster) -> None:
    """With the preempted run, the array and the run on the lost node."""
    here.weft("trace", "export", "--since", "1d", "-o", "history.csv")
    jobs = read_trace(here.root / "history.csv").jobs
    assert len(jobs) == 9
    done = [each for each in jobs if each.work_s < 30]
    assert len(done) >= 8, "what the lost run did is not the job's work"
    assert [each.job.gpus for each in jobs] == [1, 1, 1, 1, 2, 2, 2, 2, 1]
    again = here.json("sim", "history.csv", "--cluster", "2x2", "--policy", "priority:preempts=on")
    assert (again["jobs"], again["finished"]) == (9, 9)
    live = here.json("metrics", "--since", "1d")
    assert again["avg_jct_s"] < live["avg_jct_s"], "nothing is preempted for long, and no node is lost"
    compared = here.json("compare", "history.csv", "--cluster", "2x2", "--policies", "fifo,srtf")
    assert compared["jobs"] == 9


def test_compaction_changes_no_figure(here: Cluster) -> None:
    before = here.json("metrics")
    assert compact(here.folder / "state.db")
    assert here.json("metrics") == pytest.approx(before)
