"""NVIDIA MPS: the daemon that Weft starts on a node, and the variables of the runs that use it.

One daemon serves all runs of a user on a node. It is Weft's if its pipe directory is the one below Weft's runtime
folder; runs never use another daemon. Processes that share a GPU through MPS also share its faults: a process that
faults takes the others with it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from weft.node.engine.shim.process_id import Identity, identify

PROGRAM: Final = "nvidia-cuda-mps-control"
PIPE_VARIABLE: Final = "CUDA_MPS_PIPE_DIRECTORY"
LOG_VARIABLE: Final = "CUDA_MPS_LOG_DIRECTORY"
PERCENTAGE_VARIABLE: Final = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY_VARIABLE: Final = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
PRIORITY_VARIABLE: Final = "CUDA_MPS_CLIENT_PRIORITY"
BELOW_NORMAL: Final = "1"
WEAVE_VARIABLE: Final = "WEFT_WEAVE_SIZE"
_NAME: Final = PROGRAM[:15].encode()
"""The name of the process: the kernel truncates it."""


def daemon_variables(runtime_root: str) -> dict[str, str]:
    """Return the variables of the daemon below a folder, which is the parent of all runtime folders of a user."""
    return {PIPE_VARIABLE: f"{runtime_root}/mps/pipe", LOG_VARIABLE: f"{runtime_root}/mps/log"}


def run_variables(
    runtime_root: str, gpu_share: float | None, env: Mapping[str, str], *,
    memory_mb: int = 0, gpus: int = 0, is_training: bool = False,
) -> dict[str, str]:  # fmt: skip
    """Return the variables of a run that shares its GPUs, if Weft's daemon runs.

    `gpu_share` is the most of each GPU that the run may use; None: it shares them only if it is woven. A job that names
    a pipe directory keeps it. MPS fixes all of them at the start of a process.
    """
    is_shared = gpu_share is not None or WEAVE_VARIABLE in env
    if not is_shared or PIPE_VARIABLE in env:
        return {}
    pipe = daemon_variables(runtime_root)[PIPE_VARIABLE]
    if not os.path.isdir(pipe) or find_daemon(pipe) is None:
        return {}
    found = {PIPE_VARIABLE: pipe}
    if gpu_share is not None and gpu_share < 1:
        found[PERCENTAGE_VARIABLE] = str(max(round(gpu_share * 100), 1))
    if gpu_share is not None and memory_mb:
        found[MEMORY_VARIABLE] = ",".join(f"{gpu}={memory_mb}M" for gpu in range(gpus))
    if gpu_share is not None and is_training:
        found[PRIORITY_VARIABLE] = BELOW_NORMAL
    return found


def find_daemon(pipe: str) -> Identity | None:
    """Return the daemon with this pipe directory, if it runs."""
    proof = os.fsencode(f"{PIPE_VARIABLE}={pipe}")
    for pid in list_daemons():
        if proof in _read(f"/proc/{pid}/environ").split(b"\0"):
            return identify(pid)
    return None


def list_daemons() -> list[int]:
    """Return the pids of all MPS control daemons, of every user."""
    pids = (int(entry) for entry in os.listdir("/proc") if entry.isdecimal())
    return [pid for pid in pids if _read(f"/proc/{pid}/comm").strip() == _NAME and not _is_server(pid)]


def _is_server(pid: int) -> bool:
    """Return whether this is a server that a control daemon started: the kernel truncates both names alike."""
    return b"nvidia-cuda-mps-server" in _read(f"/proc/{pid}/cmdline")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
