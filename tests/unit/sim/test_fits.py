from __future__ import annotations

import pytest

from weft.model import Gpu, Job, Node, PerRank, Where
from weft.scheduling.placements.packed import Packed
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.traces.trace import TraceJob

NODES = (
    Node("n0", (Gpu("A100", 40000),) * 2),
    Node("n1", (Gpu("T4", 16000),) * 2),
)

CASES: dict[str, tuple[Job, str]] = {
    "all of it": (Job("a", gpus=4), ""),
    "one too many": (Job("a", gpus=5), "needs 5 GPUs; the cluster has 4"),
    "all of a model": (Job("a", gpus=2, where=Where(gpu_model="T4")), ""),
    "too many of a model": (
        Job("a", gpus=3, where=Where(gpu_model="T4")),
        "needs 3 GPUs of model T4; the cluster has 2",
    ),
    "absent model": (Job("a", where=Where(gpu_model="H100")), "needs 1 GPU of model H100; the cluster has 0"),
    "pinned": (Job("a", gpus=2, where=Where(pinned=(("n0", (1,)), ("n1", (0,))))), ""),
    "pinned to a GPU that is not there": (
        Job("a", gpus=2, where=Where(pinned=(("n0", (1, 2)),))),
        "is pinned to n0[1,2]; the cluster cannot give it these",
    ),
    "pinned to the wrong model": (
        Job("a", where=Where("T4", pinned=(("n0", (0,)),))),
        "is pinned to n0[0]; the cluster cannot give it these",
    ),
    "memory everywhere": (Job("a", gpus=4, memory_mb=PerRank(16000)), ""),
    "memory too large": (Job("a", gpus=3, memory_mb=PerRank(16001)), "needs 3 GPUs with 16,001 MB; the cluster has 2"),
    "memory by rank, in any order": (Job("a", gpus=4, memory_mb=PerRank(16000, 40000, 1, 40000)), ""),
    "memory of one rank too large": (
        Job("a", gpus=2, memory_mb=PerRank(1, 40001)),
        "needs 1 GPU with 40,001 MB; the largest of the cluster has 40,000 MB",
    ),
    "memory of a model": (
        Job("a", gpus=1, memory_mb=PerRank(20000), where=Where(gpu_model="T4")),
        "needs 1 GPU of model T4 with 20,000 MB; the largest of the cluster has 16,000 MB",
    ),
}


@pytest.mark.parametrize(("job", "reason"), CASES.values(), ids=CASES)
def test_a_job_fits_or_says_why_not(job: Job, reason: str) -> None:
    each = TraceJob(0.0, job, 60.0)
    assert split_feasible([each], NODES) == (([], [(each, reason)]) if reason else ([each], []))


def test_both_sides_keep_their_order() -> None:
    jobs = [TraceJob(float(n), Job(str(n), gpus=n), 60.0) for n in (5, 1, 6, 2)]
    feasible, infeasible = split_feasible(jobs, NODES)
    assert feasible == [jobs[1], jobs[3]]
    assert [each for each, _ in infeasible] == [jobs[0], jobs[2]]


def test_a_gang_is_judged_by_how_the_placement_would_seat_it() -> None:
    """Over two nodes it is not known which rank goes where, so each GPU must suit the neediest."""
    gang = TraceJob(0.0, Job("a", gpus=4, memory_mb=PerRank(16000, 40000, 1, 40000)), 60.0)
    reason = "needs 4 GPUs, which placement Packed cannot seat even on the empty cluster"
    assert split_feasible([gang], NODES) == ([gang], [])
    assert split_feasible([gang], NODES, [Packed()]) == ([], [(gang, reason)])
