"""The environment of a run: the submitter's variables, and Weft's variables about the run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from weft.access.jobspec.placeholders import param_variable
from weft.model import NodeId
from weft.node.engine import weaves
from weft.node.engine.launch_spec import AUTO_STAGES, LaunchSpec
from weft.node.engine.rendezvous import Gang, GangMember, gang_variables
from weft.node.engine.shim import run_files
from weft.node.engine.slurm_variables import slurm_variables
from weft.node.engine.users.accounts import python_for
from weft.train import hooks

LOOPBACK: Final = "127.0.0.1"
HOOKS_PATH: Final = str(Path(hooks.__file__).with_name("site"))
"""The folder with the `sitecustomize` module that installs the hooks of `weft.train`."""


def gang_or_alone(spec: LaunchSpec, node: NodeId, port: int = 0) -> Gang:
    """Return the gang of a run; this node alone if the spec has none."""
    return spec.gang or Gang((GangMember(node, LOOPBACK, len(spec.gpus)),), port=port)


def run_environment(
    spec: LaunchSpec, node: NodeId, jobs_dir: str, token: str, now: float, gang: Gang | None = None
) -> dict[str, str]:
    """Return all variables of a run that starts now."""
    env = dict(spec.env)
    folder = run_files.run_dir(jobs_dir, spec.job, spec.run)
    env.update(
        WEFT_JOB_ID=spec.job,
        WEFT_JOB_NAME=spec.name,
        WEFT_PYTHON=python_for(spec.account),
        WEFT_RUN=str(spec.run),
        WEFT_RUN_TOKEN=token,
        WEFT_RESTART_COUNT=str(spec.restarts),
        WEFT_GPU_IDS=_comma_list(spec.gpus),
        WEFT_CKPT_DIR=f"{jobs_dir}/{spec.job}/{run_files.CHECKPOINTS}",
        WEFT_PREEMPT_FILE=f"{folder}/{run_files.PREEMPT}",
        WEFT_DONE_FILE=f"{work_folder(spec, folder)}/{run_files.DONE}",
    )
    gang, path = gang or gang_or_alone(spec, node), f"{folder}/{run_files.HOSTFILE}"
    env |= gang_variables(spec.argv, gang, spec.per_gpu, spec.preempt_grace_s, f"{spec.job}-{spec.run}", path)
    env |= slurm_variables(spec, gang)
    if spec.cpus:
        env["WEFT_CPUS"] = str(spec.cpus_here)
    if spec.memory_mb:
        env["WEFT_GPU_MEM_LIMIT_MB"] = str(spec.memory_mb)
    if spec.array_index is not None:
        env["WEFT_ARRAY_TASK_ID"] = str(spec.array_index)
    if spec.array_size is not None:
        env["WEFT_ARRAY_TASK_COUNT"] = str(spec.array_size)
    if spec.time_limit_s is not None:
        env["WEFT_DEADLINE_EPOCH"] = str(int(now + spec.time_limit_s))
    if spec.terminal:
        env["TERM"] = spec.terminal
    if spec.port:
        env |= {"WEFT_HOST": spec.host or LOOPBACK, "WEFT_PORT": str(spec.port)}
        env["WEFT_READY_FILE"] = f"{folder}/{run_files.READY}"
    if spec.socket:
        env["WEFT_SOCKET"] = spec.socket
    if spec.params:
        env["WEFT_PARAMS_FILE"] = f"{folder}/{run_files.PARAMS}"
        env.update((param_variable(name), value) for name, value in spec.params)
    if spec.gpus or spec.hide_gpus:
        env.update(visible_devices(spec))
    env |= weave_variables(spec, gang.rank, jobs_dir)
    return env | stage_variables(spec, env)


def work_folder(spec: LaunchSpec, run_dir: str) -> str:
    """Return the folder in which a run may write, and where it starts unless it names another."""
    return run_dir if spec.account is None else f"{run_dir}/{run_files.WORK}"


def weave_variables(spec: LaunchSpec, rank: int, jobs_dir: str) -> dict[str, str]:
    """Return the variables of a run that may be woven. Members take turns on their first node, for all their nodes."""
    if not (spec.gpus or spec.weave):
        return {}
    if rank:  # the processes here must know that they may have to follow rank 0 one day
        return {"WEFT_WEAVE_SIZE": str(spec.weave.size if spec.weave else 1)}
    found = {"WEFT_WEAVE_FILE": f"{run_files.run_dir(jobs_dir, spec.job, spec.run)}/{run_files.WEAVE}"}
    if spec.weave:
        found["WEFT_WEAVE_SIZE"] = str(spec.weave.size)
        found["WEFT_WEAVE_DIR"] = str(weaves.folder_of(os.path.dirname(jobs_dir), spec.account) / spec.weave.id)
        found["WEFT_WEAVE_PLACE"] = str(spec.weave.place)
    return found


def stage_variables(spec: LaunchSpec, env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that install the hooks of `--stages auto` in every Python of the run."""
    if AUTO_STAGES not in (spec.stages, env.get("WEFT_STAGES")):
        return {}
    path = env.get("PYTHONPATH", "")
    return {"WEFT_STAGES": AUTO_STAGES, "PYTHONPATH": f"{HOOKS_PATH}:{path}" if path else HOOKS_PATH}


def visible_devices(spec: LaunchSpec) -> dict[str, str]:
    """Return the variables that tell GPU libraries which devices to use; none for a run without GPUs."""
    visible = _comma_list(spec.gpu_uuids or spec.gpus)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        "NVIDIA_VISIBLE_DEVICES": visible or "void",
        "ROCR_VISIBLE_DEVICES": _comma_list(spec.gpus),
        # HIP numbers the devices that ROCR leaves visible
        "HIP_VISIBLE_DEVICES": _comma_list(range(len(spec.gpus))),
    }


def _comma_list(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)
