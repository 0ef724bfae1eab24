"""Real gangs on a real cluster of two workers: torch DDP through torchrun and through plain ranks, and mpirun.

torchrun and mpirun listen on all addresses, so the whole cluster is put where there is none but the loopback.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from support.running.loopback_namespace import need_mpirun, need_torch, nowhere_else

TRAINING = str(Path(__file__).parents[3] / "support" / "programs" / "ddp_training.py")
TORCHRUN = os.path.join(os.path.dirname(sys.executable), "torchrun")


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with nowhere_else() as prefix, cluster("n1", "n2", gpus=1, prefix=prefix) as made:
        made.env |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        yield made


def train(here: Cluster, *command: str, retries: int = 0) -> str:
    return here.submit(*command, flags=("--gpus", "2", "--retries", str(retries), "--env", "GLOO_SOCKET_IFNAME=lo"))


def written(here: Cluster, job: str, run: int = 1) -> list[str]:
    """Return the output of all ranks."""
    return [line for rank in ("0", "1") for line in here.logs(job, "--run", str(run), "--rank", rank).splitlines()]


def agreed(lines: list[str]) -> bool:
    return sum("done, agree True" in line for line in lines) == 2


def test_torchrun(here: Cluster) -> None:
    need_torch()
    job = train(here, TORCHRUN, TRAINING, "20")
    assert here.wait(job) == 0, written(here, job)
    assert agreed(written(here, job))
    assert here.where(job) == ["n1", "n2"]


def test_a_rank_that_is_killed_takes_the_gang_with_it_and_it_is_tried_again_as_one(here: Cluster) -> None:
    need_torch()
    job = train(here, sys.executable, TRAINING, "20", str(here.root / "never"), retries=1)
    until(lambda: len(_pids(here, job)) == 2, 120.0)
    os.kill(_pids(here, job)[1], signal.SIGKILL)
    assert here.wait(job) == 0, written(here, job, 2)
    found = here.job(job)
    assert (found["run"], found["failures"]) == (2, 1)
    assert agreed(written(here, job, 2))


def _pids(here: Cluster, job: str) -> dict[int, int]:
    """Return the pid of each rank of the first run."""
    found = {}
    for node in here.where(job):
        log = here.run_folder(node, job) / "output.log"
        for line in log.read_text(errors="replace").splitlines() if log.exists() else ():
            if line.startswith("rank ") and " pid " in line:
                words = line.split()
                found[int(words[1])] = int(words[5])
    return found


def test_mpirun(here: Cluster) -> None:
    need_mpirun()
    root = ("--allow-run-as-root",) if os.getuid() == 0 else ()
    # one write each: mpirun may interleave the pieces of a longer print
    script = (
        "import os; rank, size = (os.environ[f'OMPI_COMM_WORLD_{name}'] for name in ('RANK', 'SIZE')); "
        "os.write(1, f'rank {rank} of {size}\\n'.encode())"
    )
    job = train(here, "mpirun", *root, sys.executable, "-S", "-c", script)
    assert here.wait(job) == 0, here.logs(job)
    assert sorted(line for line in here.logs(job).splitlines() if line.startswith("rank")) == [
        "rank 0 of 2",
        "rank 1 of 2",
    ]
    assert len(here.where(job)) == 1
