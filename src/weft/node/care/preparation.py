"""Preparation of this machine for jobs: persistence mode, the MPS daemon, DCGM. Each step is skipped if it is done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from weft.access.endpoints.paths import make_private, user_paths
from weft.errors import WeftError
from weft.node.care import nvidia_smi, programs
from weft.node.care.programs import Result
from weft.node.engine.gpu import mps
from weft.views.answers.steps import DONE, FAILED, OK, PLANNED, SKIPPED, StepView

DAEMON_TIMEOUT_S: Final = 10.0
POLL_S: Final = 0.05
NO_DRIVER: Final = "no NVIDIA driver: nvidia-smi is not on PATH"
AS_ROOT: Final = "add --sudo if you may run nvidia-smi with sudo, or ask the administrator"


def prepare(*, with_mps: bool, dry_run: bool, sudo: bool = False) -> list[StepView]:
    """Prepare the machine; with `dry_run`, return what would be done. `sudo`: for what needs root."""
    if not nvidia_smi.has_driver():
        return [StepView("driver", SKIPPED, f"nothing to prepare: {NO_DRIVER}")]
    return list(_steps(with_mps, dry_run, sudo))


def _steps(with_mps: bool, dry_run: bool, sudo: bool) -> Iterator[StepView]:
    try:
        yield _enable_persistence(dry_run, sudo)
    except nvidia_smi.DriverError as error:
        yield StepView("driver", FAILED, str(error), "install or load the driver; dmesg has the reason")
        return
    if with_mps:
        yield _start_mps(dry_run)
    yield _start_dcgm(dry_run, sudo)


def _enable_persistence(dry_run: bool, sudo: bool) -> StepView:
    """Keep the driver loaded between jobs: otherwise the first process on an idle GPU waits for seconds."""
    name, off = "persistence", [str(gpu.number) for gpu in nvidia_smi.read_gpus() if not gpu.persistence]
    if not off:
        return StepView(name, OK, "persistence mode is on")
    if dry_run:
        return StepView(name, PLANNED, f"turn persistence mode on for GPU {', '.join(off)}")
    done = programs.call(*programs.elevated(nvidia_smi.PROGRAM, "-pm", "1", sudo=sudo))
    if done.code:
        return _not_done(name, done)
    return StepView(name, DONE, f"turned persistence mode on for GPU {', '.join(off)}")


def _start_mps(dry_run: bool) -> StepView:
    """Start the daemon with pipes in Weft's runtime folder, which only this user can enter."""
    name, folder = "mps", user_paths().runtime.parent
    env = mps.daemon_variables(str(folder))
    pipe = env[mps.PIPE_VARIABLE]
    if (running := mps.find_daemon(pipe)) is not None:
        return StepView(name, OK, f"the MPS daemon was running, pid {running.pid}")
    if others := mps.list_daemons():
        advice = f"to let Weft start its daemon, end that one: echo quit | {mps.PROGRAM}"
        return StepView(name, FAILED, f"another MPS daemon runs, pid {others[0]}; Weft leaves it alone", advice)
    if dry_run:
        return StepView(name, PLANNED, f"start the MPS daemon with its pipes in {pipe}")
    try:
        for path in (folder, folder / "mps", folder / "mps" / "pipe", folder / "mps" / "log"):
            make_private(path)
    except (WeftError, OSError) as error:
        return StepView(name, FAILED, str(error).partition("\n")[0])
    done = programs.call(mps.PROGRAM, "-d", env=env)
    if done.code:
        return _not_done(name, done)
    until = time.monotonic() + DAEMON_TIMEOUT_S
    while (running := mps.find_daemon(pipe)) is None:
        if time.monotonic() > until:
            return StepView(name, FAILED, "the MPS daemon ended at once", f"see its log in {env[mps.LOG_VARIABLE]}")
        time.sleep(POLL_S)
    return StepView(name, DONE, f"started the MPS daemon, pid {running.pid}; jobs on shared GPUs use it from now on")


def _start_dcgm(dry_run: bool, sudo: bool) -> StepView:
    """Start the service of NVIDIA's Data Center GPU Manager, if that is installed."""
    name = "dcgm"
    if not programs.is_installed("dcgmi"):
        return StepView(name, SKIPPED, "dcgmi is not installed")
    if programs.call("dcgmi", "discovery", "-l").code == 0:
        return StepView(name, OK, "DCGM answers")
    if not programs.is_installed("nv-hostengine"):
        return StepView(name, SKIPPED, "DCGM does not answer, and nv-hostengine is not installed")
    if dry_run:
        return StepView(name, PLANNED, "start nv-hostengine")
    done = programs.call(*programs.elevated("nv-hostengine", sudo=sudo))
    if done.code:
        return _not_done(name, done)
    done = programs.call("dcgmi", "discovery", "-l")
    if done.code:
        return StepView(name, FAILED, f"nv-hostengine was started, but DCGM does not answer: {done.error}")
    return StepView(name, DONE, "started nv-hostengine")


def _not_done(name: str, done: Result) -> StepView:
    """Return the step of a program that failed. A missing right does not fail the preparation: the rest is useful."""
    if done.is_refused:
        return StepView(name, SKIPPED, done.error, AS_ROOT)
    return StepView(name, FAILED, done.error)
