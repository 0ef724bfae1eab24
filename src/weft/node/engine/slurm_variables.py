"""Slurm's variables of a run, so that batch scripts written for Slurm work.

A batch script gets the variables about its job. The variables about tasks and nodes come only on request: libraries
that find SLURM_NTASKS, such as PyTorch Lightning, expect that srun has started one process for each task.
"""

from __future__ import annotations

from typing import Final

from weft.access.wire.messages import JobSpec
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.rendezvous import Gang, GangMember

ALL: Final = "slurm"
"""The value of `compat` for all variables; any other value that is not empty: those about the job."""


def variable_names(compat: str, **known: int) -> frozenset[str]:
    """Return the names of the variables of a job with this `compat`; `known` are fields of its launch spec."""
    spec = LaunchSpec("1", 1, (), compat=compat, **known)  # type: ignore[arg-type]
    return frozenset(slurm_variables(spec, Gang((GangMember("", "", 0),))))


def names_for(spec: JobSpec, compat: str) -> frozenset[str]:
    """Return the names of the variables that this job would get with this `compat`."""
    known = {"cpus": spec.cpus or int(spec.HasField("gpus") and not spec.gpus)}
    if spec.array:
        known |= dict.fromkeys(("array_index", "array_size", "array_first", "array_last"), 1)
    return variable_names(compat, **known)


def slurm_variables(spec: LaunchSpec, gang: Gang) -> dict[str, str]:
    """Return the variables that the job asks for."""
    if not spec.compat:
        return {}
    return _of_job(spec, gang) | (_of_tasks(spec, gang) if spec.compat == ALL else {})


def _of_job(spec: LaunchSpec, gang: Gang) -> dict[str, str]:
    array, _, _ = spec.job.partition("_")
    nodes = ",".join(member.node for member in gang.members)
    found = {
        "SLURM_JOB_ID": spec.job,
        "SLURM_JOBID": spec.job,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_PARTITION": spec.group,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(gang.members)),
        "SLURM_RESTART_COUNT": str(spec.restarts),
        "SLURM_SUBMIT_DIR": spec.chdir,
    }
    if spec.array_index is not None:
        found |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": str(spec.array_index)}
    if spec.array_size is not None:
        found["SLURM_ARRAY_TASK_COUNT"] = str(spec.array_size)
    if spec.array_first is not None and spec.array_last is not None:
        found |= {"SLURM_ARRAY_TASK_MIN": str(spec.array_first), "SLURM_ARRAY_TASK_MAX": str(spec.array_last)}
    if cpus := spec.cpus_here:
        found["SLURM_CPUS_PER_TASK"] = str(cpus)
    return found


def _of_tasks(spec: LaunchSpec, gang: Gang) -> dict[str, str]:
    tasks = gang.processes if spec.per_gpu else len(gang.members)
    here = max(gang.this_member.gpus, 1) if spec.per_gpu else 1
    first = gang.first_rank if spec.per_gpu else gang.rank
    found = {
        "SLURM_NTASKS": str(tasks),
        "SLURM_NPROCS": str(tasks),
        "SLURM_NTASKS_PER_NODE": str(here),
        "SLURM_NNODES": str(len(gang.members)),
        "SLURM_NODEID": str(gang.rank),
        "SLURMD_NODENAME": gang.this_member.node,
        "SLURM_PROCID": str(first),
        "SLURM_LOCALID": "0",
        "SLURM_JOB_GPUS": ",".join(map(str, spec.gpus)),
        "SLURM_GPUS_ON_NODE": str(len(spec.gpus)),
    }
    if cpus := spec.cpus_here:
        found["SLURM_CPUS_ON_NODE"] = str(cpus * here)
    return found
