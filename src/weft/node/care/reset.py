"""Reset of this machine: ends Weft's MPS daemon, then resets single GPUs. Only on a node that is drained and empty."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from weft.access.endpoints.paths import user_paths
from weft.errors import InputError, Refused
from weft.node.care import nvidia_smi, programs
from weft.node.care.preparation import NO_DRIVER
from weft.node.care.runs_here import AgentFolder, agent_folders, recorded_runs
from weft.node.engine.gpu import mps
from weft.views.answers.steps import DONE, FAILED, OK, PLANNED, SKIPPED, StepView

QUIT_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.05
Blockers = Callable[[AgentFolder], str]
"""Returns why the scheduler of a running agent may start jobs here; empty: it starts none."""


def reset(
    gpus: Sequence[int], may_start: Blockers, *, dry_run: bool, sudo: bool = False, folders: Sequence[str] = ()
) -> list[StepView]:
    """End the MPS daemon and reset these GPUs; with `dry_run`, return what would be done. Refuse on a busy node.

    `sudo`: for what needs root.
    """
    if not nvidia_smi.has_driver():
        return [StepView("driver", SKIPPED, f"nothing to reset: {NO_DRIVER}")]
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "0") != "0":
        raise Refused(
            "root does not see the workers of the user who called sudo, nor whether they are drained\n"
            "  run it as the user of the workers: weft node reset --sudo"
        )
    _require_empty(agent_folders(folders), may_start)
    return list(_steps(gpus, dry_run, sudo))


def _require_empty(agents: Sequence[AgentFolder], may_start: Blockers) -> None:
    for agent in agents:
        running = next((run for run in recorded_runs(agent) if not run.has_ended and run.fate != "unclaimed"), None)
        if running is not None:
            raise Refused(
                f"job {running.job}, run {running.run} is on this node\n  weft drain --move lets its jobs run elsewhere"
            )
        reason = may_start(agent) if agent.is_running else ""
        if reason:
            raise Refused(f"{reason}\n  run weft drain first, and weft undrain after the reset")


def _steps(gpus: Sequence[int], dry_run: bool, sudo: bool) -> Iterator[StepView]:
    try:
        known = {gpu.number: gpu.uuid for gpu in nvidia_smi.read_gpus()}
    except nvidia_smi.DriverError as error:
        yield StepView("driver", FAILED, str(error), "install or load the driver; dmesg has the reason")
        return
    unknown = [gpu for gpu in gpus if gpu not in known]
    if unknown:
        raise InputError(
            f"there is no GPU {unknown[0]}", hint=f"the driver has {', '.join(map(str, known))}", key="--gpu"
        )
    step = _quit_mps(dry_run)
    yield step
    for gpu in gpus:
        yield (
            _reset_gpu(gpu, known[gpu], dry_run, sudo)
            if step.state != FAILED
            else StepView(f"gpu {gpu}", SKIPPED, "the MPS daemon still runs")
        )


def _quit_mps(dry_run: bool) -> StepView:
    env = mps.daemon_variables(str(user_paths().runtime.parent))
    pipe = env[mps.PIPE_VARIABLE]
    running = mps.find_daemon(pipe)
    if running is None:
        return StepView("mps", OK, "Weft's MPS daemon does not run")
    if dry_run:
        return StepView("mps", PLANNED, f"end the MPS daemon, pid {running.pid}")
    done = programs.call(mps.PROGRAM, env=env, stdin="quit\n")
    until = time.monotonic() + QUIT_TIMEOUT_S
    while done.code == 0 and mps.find_daemon(pipe) == running:
        if time.monotonic() > until:
            return StepView("mps", FAILED, f"the MPS daemon, pid {running.pid}, has not ended")
        time.sleep(POLL_S)
    if done.code:
        return StepView("mps", FAILED, done.error)
    return StepView("mps", DONE, "ended the MPS daemon", "weft node prepare --mps starts it again")


def _reset_gpu(gpu: int, uuid: str, dry_run: bool, sudo: bool) -> StepView:
    name = f"gpu {gpu}"
    if pids := nvidia_smi.read_processes().get(uuid):
        listed = ", ".join(map(str, pids))
        return StepView(name, FAILED, f"process {listed} uses it", "end it; weft node clean ends what ended jobs left")
    if dry_run:
        return StepView(name, PLANNED, f"reset GPU {gpu}")
    done = programs.call(*programs.elevated(nvidia_smi.PROGRAM, "--gpu-reset", "-i", str(gpu), sudo=sudo))
    if done.code:
        advice = "add --sudo if you may run nvidia-smi with sudo" if done.is_refused else "a reboot resets every GPU"
        return StepView(name, FAILED, done.error, advice)
    return StepView(name, DONE, f"reset GPU {gpu}")
