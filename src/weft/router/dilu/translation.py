"""Dilu's task descriptions as services and jobs of Weft (pure).

A task has `service_name` (or `name`), `type` (`inference`, `llm-inference` or `training`), `command`, `sm_request` and
`sm_limit` (parts of a GPU), `memory` (GB: a number, or one for each worker), `gpu_num`, `throughput` (requests per
second of an instance), `port_variable` and `max_instances`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from weft.errors import InputError

INFERENCE: Final = ("inference", "llm-inference")
TYPES: Final = (*INFERENCE, "training")
DEFAULT_MAX_INSTANCES: Final = 8
MB_PER_GB: Final = 1024
Task = Mapping[str, Any]


def name_of(task: Task) -> str:
    name = task.get("service_name", task.get("name", ""))
    if not isinstance(name, str) or not name:
        raise InputError("service_name is missing", hint="the name of the service or of the training job")
    return name


def is_training(task: Task) -> bool:
    kind = task.get("type", "inference")
    if kind not in TYPES:
        raise InputError(f"unknown type {str(kind)[:40]!r}", hint=f"one of {', '.join(TYPES)}")
    return bool(kind == "training")


def service_of(task: Task, registered: Task, instances: int) -> dict[str, Any]:
    """Return the description of a service with at least this many instances; `registered` are its scaling figures."""
    throughput = registered.get("throughput", task.get("throughput"))
    scale: dict[str, Any] = {"by": "lazy"}
    scale |= {} if throughput is None else {"throughput": _number(throughput, "throughput")}
    for theirs, ours in (("window", "window"), ("scale_out", "out"), ("scale_in", "in")):
        if theirs in registered:
            scale[ours] = int(_number(registered[theirs], theirs))
    most = int(_number(task.get("max_instances", max(DEFAULT_MAX_INSTANCES, instances)), "max_instances"))
    return {
        "service": name_of(task), "run": _command(task), **_gpus(task),
        "replicas": {"min": instances, "max": max(most, instances)}, "scale": scale,
    }  # fmt: skip


def job_of(task: Task) -> dict[str, Any]:
    """Return the job of a training task."""
    return {"name": name_of(task), "command": _command(task), **_gpus(task)}


def _gpus(task: Task) -> dict[str, Any]:
    found: dict[str, Any] = {"gpus": int(_number(task.get("gpu_num", 1), "gpu_num"))}
    if "sm_request" in task:
        request = _number(task["sm_request"], "sm_request")
        found["share"] = f"{request:g}/{_number(task.get('sm_limit', request), 'sm_limit'):g}"
    memory = task.get("memory")
    if memory is not None:
        amounts = memory if isinstance(memory, list) else [memory]
        found["memory"] = f"{int(max(_number(each, 'memory') for each in amounts) * MB_PER_GB)}M"
    return found


def _command(task: Task) -> str | list[str]:
    command = task.get("command")
    if isinstance(command, str) and command:
        return command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return command
    raise InputError("command is missing", hint="a line for the shell, or a list of words")


def _number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise InputError(f"bad {key}: {str(value)[:40]!r}", hint="a number above 0")
    return float(value)
