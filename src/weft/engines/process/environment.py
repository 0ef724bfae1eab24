"""The environment of a run: the submitter's, and what the run is told about itself."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Final

from weft.engines.process.launch_spec import LaunchSpec
from weft.engines.process.rendezvous import Gang, GangMember, variables
from weft.engines.process.shim import run_files
from weft.model import NodeId

ALONE: Final = "127.0.0.1"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Z0-9_]")


def gang_of(order: LaunchSpec, node: NodeId, port: int = 0) -> Gang:
    """The nodes of a run: this one, unless its order says otherwise."""
    return order.gang or Gang((GangMember(node, ALONE, len(order.gpus)),), port=port)


def environment(
    order: LaunchSpec, node: NodeId, jobs_dir: str, token: str, now: float, gang: Gang | None = None
) -> dict[str, str]:
    """All variables of a run that starts now."""
    env = dict(order.env)
    folder = run_files.run_dir(jobs_dir, order.job, order.run)
    env.update(
        WEFT_JOB_ID=order.job,
        WEFT_JOB_NAME=order.name,
        WEFT_PYTHON=sys.executable,
        WEFT_RUN=str(order.run),
        WEFT_RUN_TOKEN=token,
        WEFT_RESTART_COUNT=str(order.restarts),
        WEFT_GPU_IDS=_list(order.gpus),
        WEFT_CKPT_DIR=f"{jobs_dir}/{order.job}/{run_files.CHECKPOINTS}",
        WEFT_PREEMPT_FILE=f"{folder}/{run_files.PREEMPT}",
        WEFT_DONE_FILE=f"{folder}/{run_files.DONE}",
    )
    gang, path = gang or gang_of(order, node), f"{folder}/{run_files.HOSTFILE}"
    env |= variables(order.argv, gang, order.per_gpu, order.preempt_grace_s, f"{order.job}-{order.run}", path)
    if order.memory_mb:
        env["WEFT_GPU_MEM_LIMIT_MB"] = str(order.memory_mb)
    if order.array_index is not None:
        env["WEFT_ARRAY_TASK_ID"] = str(order.array_index)
    if order.array_size is not None:
        env["WEFT_ARRAY_TASK_COUNT"] = str(order.array_size)
    if order.time_limit_s is not None:
        env["WEFT_DEADLINE_EPOCH"] = str(int(now + order.time_limit_s))
    if order.socket:
        env["WEFT_SOCKET"] = order.socket
    if order.params:
        env["WEFT_PARAMS_FILE"] = f"{folder}/{run_files.PARAMS}"
        env.update((param_variable(name), value) for name, value in order.params)
    if order.gpus or order.hide_gpus:
        env.update(visible_devices(order))
    return env


def visible_devices(order: LaunchSpec) -> dict[str, str]:
    """What the libraries of the GPUs' makers read. Without GPUs they see none."""
    shown = _list(order.gpu_uuids or order.gpus)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": shown,
        "NVIDIA_VISIBLE_DEVICES": shown or "void",
        "ROCR_VISIBLE_DEVICES": _list(order.gpus),
        # HIP counts among what ROCR leaves it
        "HIP_VISIBLE_DEVICES": _list(range(len(order.gpus))),
    }


def param_variable(name: str) -> str:
    """`WEFT_PARAM_LEARNING_RATE` for `learning-rate`."""
    return f"WEFT_PARAM_{_NOT_IN_NAMES.sub('_', name.upper())}"


def _list(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)
