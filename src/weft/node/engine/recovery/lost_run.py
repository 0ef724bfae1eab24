"""The end of a run whose shim was killed: its processes and its container go, so that its GPUs are free."""

from __future__ import annotations

from weft.model import JobId
from weft.node.engine.recovery.orphans import kill_orphans
from weft.node.engine.shim import run_files
from weft.node.engine.shim.process_id import Identity


def end_lost_run(jobs_dir: str, job: JobId, run: int, token: str, leader: Identity | None) -> int:
    """Kill the processes of a run, and remove its container; return how many processes there were."""
    from weft.node.engine.container.removal import remove_leftover  # rare

    folder = f"WEFT_CKPT_DIR={jobs_dir}/{job}/{run_files.CHECKPOINTS}"
    proof = f"WEFT_RUN_TOKEN={token}" if token else folder
    killed = kill_orphans((f"WEFT_JOB_ID={job}", f"WEFT_RUN={run}", proof), leader)
    remove_leftover(run_files.run_dir(jobs_dir, job, run))
    return killed
