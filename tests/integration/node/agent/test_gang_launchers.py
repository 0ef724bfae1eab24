"""Real programs of several processes on two nodes: torchrun, plain ranks and mpirun find each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from support.running.loopback_namespace import lines_of, need_mpirun, need_torch, nowhere_else

TESTS = Path(__file__).parents[3]
DRIVER = TESTS / "support" / "programs" / "gang_driver.py"
TRAINING = str(TESTS / "support" / "programs" / "ddp_training.py")
WITH_TORCH = os.path.join(os.path.dirname(sys.executable), "torchrun")


def gang(folder: Path, *argv: str, gpus: int = 1, per_gpu: bool = False) -> tuple[list[int | None], list[str]]:
    """Return how the parts ended, and the output of all of them."""
    path = os.pathsep.join([str(TESTS), *(each for each in sys.path if each)])
    with nowhere_else() as prefix:
        command = [*prefix, sys.executable, str(DRIVER), str(folder), str(gpus),
                   "yes" if per_gpu else "no", *argv]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env={**os.environ, "PYTHONPATH": path}, check=False
        )
    written = [line for rank in range(2) for line in lines_of(folder / str(rank) / "jobs" / "1" / "1" / "output.log")]
    assert done.returncode == 0, f"{done.stderr}\n{written}"
    return json.loads(done.stdout), sorted(line for line in written if line.startswith("rank"))


def agreed(written: list[str], ranks: int) -> bool:
    done = [line for line in written if "done, agree True" in line]
    return len(done) == ranks and all(any(line.startswith(f"rank {rank} of {ranks} ") for line in written)
                                      for rank in range(ranks))  # fmt: skip


def test_torchrun_on_two_nodes(tmp_path: Path) -> None:
    need_torch()
    codes, written = gang(tmp_path, WITH_TORCH, TRAINING, "20")
    assert codes == [0, 0]
    assert agreed(written, 2)


def test_plain_ranks_on_two_nodes_one_for_each_gpu(tmp_path: Path) -> None:
    need_torch()
    codes, written = gang(tmp_path, sys.executable, TRAINING, "20", gpus=2, per_gpu=True)
    assert codes == [0, 0]
    assert agreed(written, 4)


def test_mpirun_reads_its_hostfile(tmp_path: Path) -> None:
    need_mpirun()
    script = "echo rank $OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"
    root = ("--allow-run-as-root",) if os.getuid() == 0 else ()
    codes, written = gang(tmp_path, "mpirun", *root, "sh", "-c", script, gpus=2)
    assert codes == [0]
    assert written == [f"rank {rank} of 4" for rank in range(4)]
