"""Checks of this machine: the driver, GPUs, disk, limits, shared memory, and the clock against the scheduler's."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from typing import Final

from weft.access.endpoints.paths import user_paths
from weft.node.care import nvidia_smi
from weft.node.care.nvidia_smi import GpuReport
from weft.node.care.preparation import NO_DRIVER
from weft.node.engine import cgroups
from weft.node.engine.gpu import mps
from weft.node.engine.users.accounts import may_switch_user
from weft.views.answers.steps import FAILED, OK, SKIPPED, WARNING, StepView

MIN_DISK_MB: Final = 512
LOW_DISK_MB: Final = 5 << 10
LOW_SHM_MB: Final = 1 << 10
LOW_FILES: Final = 4096
LOW_PROCESSES: Final = 4096
CLOCK_WARNING_S: Final = 2.0
CLOCK_FAILURE_S: Final = 30.0
SHM: Final = "/dev/shm"
CONTAINERS_WAIT: Final = "jobs or services with an image need one: install podman, or start docker's daemon"
SET_CLOCK: Final = "fix time synchronisation: chronyc tracking, or timedatectl"


def check(scheduler_offset: tuple[float, float] | None = None, *, wants_containers: bool = False) -> list[StepView]:
    """Return the result of every check.

    `scheduler_offset` says how far this clock is ahead of the scheduler's, and the uncertainty, in seconds; None: there
    is no scheduler. `wants_containers` says that jobs here have images.
    """
    steps = [*_check_gpus(), check_disk(), check_limits(), check_shm(), check_users()]
    steps.append(check_containers(wanted=wants_containers))
    if scheduler_offset is None:
        return [*steps, StepView("clock", SKIPPED, "no scheduler answers to compare with")]
    return [*steps, check_clock(*scheduler_offset, "the scheduler's")]


def _check_gpus() -> Iterator[StepView]:
    if not nvidia_smi.has_driver():
        yield StepView("driver", SKIPPED, NO_DRIVER)
        return
    try:
        gpus = nvidia_smi.read_gpus()
    except nvidia_smi.DriverError as error:
        yield StepView("driver", FAILED, str(error), "install or load the driver; dmesg has the reason")
        return
    if not gpus:
        yield StepView("driver", FAILED, "nvidia-smi lists no GPU", "lspci | grep -i nvidia; dmesg has the reason")
        return
    yield StepView("driver", OK, f"version {gpus[0].driver}, {len(gpus)} GPU{'' if len(gpus) == 1 else 's'}")
    yield _check_persistence(gpus)
    yield _check_ecc(gpus)
    yield _check_compute_mode(gpus)
    yield _check_mps()


def check_users() -> StepView:
    """Say as which user the jobs of a worker here run, and whether they are kept from GPUs of others."""
    if not may_switch_user():
        me = f"user {os.geteuid()}"
        detail = f"not root: a worker started as {me} runs the jobs of all users as {me}"
        return StepView("users", SKIPPED, detail, "start workers as root to keep users apart on a shared node")
    if not cgroups.can_limit_devices():
        detail = "root: a worker runs each job as its submitter, but the kernel does not keep jobs from GPUs of others"
        return StepView("users", WARNING, detail, "start the worker in a unit of systemd with Delegate=yes")
    return StepView("users", OK, "root: a worker runs each job as its submitter, with its own GPUs alone")


def _check_persistence(gpus: Sequence[GpuReport]) -> StepView:
    off = [gpu.number for gpu in gpus if not gpu.persistence]
    if not off:
        return StepView("persistence", OK, "persistence mode is on")
    return StepView("persistence", WARNING, f"persistence mode is off on GPU {_list(off)}", "run weft node prepare")


def _check_ecc(gpus: Sequence[GpuReport]) -> StepView:
    bad = [gpu.number for gpu in gpus if gpu.ecc_errors]
    if bad:
        advice = f"weft drain --move the node, then weft node reset --gpu {bad[0]}; replace it if they come back"
        return StepView("ecc", FAILED, f"uncorrected ECC errors on GPU {_list(bad)}", advice)
    if all(gpu.ecc_errors is None for gpu in gpus):
        return StepView("ecc", SKIPPED, "the GPUs have no ECC, or it is off")
    return StepView("ecc", OK, "no uncorrected ECC errors")


def _check_compute_mode(gpus: Sequence[GpuReport]) -> StepView:
    other = [gpu for gpu in gpus if gpu.compute_mode != "Default"]
    if not other:
        return StepView("compute mode", OK, "Default")
    where = ", ".join(f"{gpu.compute_mode} on GPU {gpu.number}" for gpu in other)
    state = FAILED if any(gpu.compute_mode == "Prohibited" for gpu in other) else WARNING
    return StepView("compute mode", state, f"{where}: jobs cannot share these GPUs", "as root: nvidia-smi -c 0")


def _check_mps() -> StepView:
    pipe = mps.daemon_variables(str(user_paths().runtime.parent))[mps.PIPE_VARIABLE]
    if mps.find_daemon(pipe) is not None:
        return StepView("mps", OK, "Weft's MPS daemon runs; a job that faults takes jobs on the same GPU with it")
    if others := mps.list_daemons():
        return StepView("mps", WARNING, f"an MPS daemon that is not Weft's runs, pid {others[0]}; jobs do not use it")
    return StepView("mps", OK, "off")


def check_containers(*, wanted: bool = False) -> StepView:
    """Ask each container runtime whether it works, and let podman start a container.

    A podman that cannot is a failure: runs take it first. `wanted` says that jobs here need some runtime.
    """
    from weft.node.engine.container.detection import RUNTIMES, ask, host_environment, try_podman

    env = host_environment(os.environ)
    working, problems = [], []
    for runtime in RUNTIMES:
        answer, problem = ask(runtime, env)
        if answer is not None and runtime.name == "podman" and (problem := try_podman(answer, env)):
            answer = None
        if answer is not None:
            working.append(answer)
        elif not problem.endswith("not installed"):
            problems.append(problem)
    said = "; ".join(problems)
    if said.startswith("podman"):
        return StepView("containers", FAILED, said, "mend or remove podman: runs with an image take it first")
    if not working:
        detail = f"no container runtime works{f': {said}' if said else ''}"
        return (
            StepView("containers", FAILED, detail, CONTAINERS_WAIT)
            if wanted
            else StepView("containers", SKIPPED, detail)
        )
    names = ", ".join(f"{each.name} {each.version}" for each in working)
    more = f" ({said})" if said else ""
    if working[0].name == "podman" and not working[0].has_init:
        advice = "install catatonit: without an init, a command that does not handle SIGTERM gets its whole grace"
        return StepView("containers", WARNING, f"{names}{more}", advice)
    return StepView("containers", OK, f"{names}{more}")


def check_disk() -> StepView:
    folder = user_paths().state
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    found = os.statvfs(folder)
    free_mb = found.f_bavail * found.f_frsize >> 20
    state = FAILED if free_mb < MIN_DISK_MB else WARNING if free_mb < LOW_DISK_MB else OK
    advice = "" if state == OK else "weft clean deletes ended jobs and their logs"
    return StepView("disk", state, f"{free_mb:,} MB free for state and logs", advice)


def check_limits() -> StepView:
    low = []
    for what, which, least in (
        ("open files (ulimit -n)", resource.RLIMIT_NOFILE, LOW_FILES),
        ("processes (ulimit -u)", resource.RLIMIT_NPROC, LOW_PROCESSES),
    ):
        soft, _ = resource.getrlimit(which)
        if soft != resource.RLIM_INFINITY and soft < least:
            low.append(f"{soft:,} {what}")
    if not low:
        return StepView("limits", OK, "open files and processes")
    return StepView(
        "limits", WARNING, f"only {' and '.join(low)}", f"raise them to {LOW_FILES:,} or more before weft worker starts"
    )


def check_shm() -> StepView:
    try:
        found = os.statvfs(SHM)
    except OSError as error:
        return StepView("shm", WARNING, f"{SHM}: {error.strerror}", "loaders with worker processes need it: mount it")
    size_mb, free_mb = (blocks * found.f_frsize >> 20 for blocks in (found.f_blocks, found.f_bavail))
    detail = f"{free_mb:,} of {size_mb:,} MB free in {SHM}"
    if free_mb >= LOW_SHM_MB:
        return StepView("shm", OK, detail)
    advice = "loaders with worker processes need more: enlarge it (docker run --shm-size=8g), or remove stale files"
    return StepView("shm", WARNING, detail, advice)


def check_clock(offset_s: float, uncertainty_s: float, whose: str) -> StepView:
    """Judge a clock that is this far ahead. Only a difference beyond the uncertainty of the measurement counts."""
    surely_s = max(abs(offset_s) - uncertainty_s, 0.0)
    way = "ahead of" if offset_s > 0 else "behind"
    if surely_s < CLOCK_WARNING_S:
        return StepView("clock", OK, f"within {max(CLOCK_WARNING_S, uncertainty_s):g} s of {whose}")
    state = FAILED if surely_s >= CLOCK_FAILURE_S else WARNING
    return StepView("clock", state, f"{surely_s:.1f} s {way} {whose}", SET_CLOCK)


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
