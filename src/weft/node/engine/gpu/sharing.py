"""Sharing of GPUs on this node: the device pages of its runs, and the actuators that act at the start of a process.

A run that shares its GPUs gets the pages of these GPUs. `weft.train.device_page` has what processes do with them.
Where runs use the accounts of their submitters, each user has other pages: training paces next to the user's services.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from weft.node.engine.gpu import mps
from weft.node.engine.gpu.user_pages import UserPages
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim import run_files
from weft.node.engine.users import run_folder
from weft.node.engine.users.accounts import Account
from weft.node.engine.users.launcher import IDLE
from weft.train.device_page import layout
from weft.train.device_page.page import LIMIT_VARIABLE, REQUEST_VARIABLE, Page, make
from weft.train.device_page.process import PAGES_VARIABLE

FOLDER: Final = "devices"
DEFAULT_RULE: Final = "prio"


class StartActuator(Protocol):
    """Limits the processes of a run when they start."""

    def variables(self, spec: LaunchSpec, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables that set the limits."""

    def shim_arguments(self, spec: LaunchSpec) -> dict[str, Any]:
        """Return what the shim does to the run."""

    def describe(self, env: Mapping[str, str], arguments: Mapping[str, Any]) -> list[str]:
        """Say which limits these variables and arguments set."""


class MpsActuator:
    """NVIDIA MPS: the percentage of SMs, the memory and the priority of a process. Not run on hardware."""

    def __init__(self, runtime_root: str) -> None:
        self._runtime_root = runtime_root

    def variables(self, spec: LaunchSpec, env: Mapping[str, str]) -> dict[str, str]:
        if spec.account is not None:  # a daemon serves one user
            return {}
        return mps.run_variables(
            self._runtime_root, spec.gpu_share, env, memory_mb=spec.memory_mb, gpus=len(spec.gpus),
            is_training=spec.health is None,
        )  # fmt: skip

    def shim_arguments(self, _spec: LaunchSpec) -> dict[str, Any]:
        return {}

    def describe(self, env: Mapping[str, str], _arguments: Mapping[str, Any]) -> list[str]:
        found = []
        if percentage := env.get(mps.PERCENTAGE_VARIABLE):
            found.append(f"{percentage} % of the SMs (MPS)")
        if memory := env.get(mps.MEMORY_VARIABLE):
            found.append(f"{memory.partition('=')[2].partition(',')[0]}B of memory (MPS)")
        return found


class CpuActuator:
    """On a node without a GPU driver the device is the CPU: weights of control groups, and SCHED_IDLE if wanted."""

    def __init__(self, *, is_idle: bool, has_groups: Callable[[], bool]) -> None:
        self._is_idle, self._has_groups = is_idle, has_groups

    def variables(self, _spec: LaunchSpec, _env: Mapping[str, str]) -> dict[str, str]:
        return {}

    def shim_arguments(self, spec: LaunchSpec) -> dict[str, Any]:
        if spec.gpu_request is None:
            return {}
        scheduler = IDLE if self._is_idle and spec.health is None else ""
        return {"cpu_weight": max(round(spec.gpu_request * 100), 1), "scheduler": scheduler}

    def describe(self, _env: Mapping[str, str], arguments: Mapping[str, Any]) -> list[str]:
        found = []
        if arguments.get("cpu_weight") and self._has_groups():
            found.append(f"CPU weight {arguments['cpu_weight']} (control group)")
        return found + ["SCHED_IDLE"] * (arguments.get("scheduler") == IDLE)


@dataclass(frozen=True, slots=True)
class SharedRun:
    """A run on a GPU that it shares, and how far its share is enforced."""

    gpu: int
    job: str
    kind: str
    """training or inference."""
    request: float
    limit: float
    busy: bool = False
    """A batch runs."""
    rate: float = 1.0
    """The part of the GPU that training had in the last contention."""
    enforced: tuple[str, ...] = ()
    advisory: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _StartedRun:
    """A run that shares its GPUs, as it was started."""

    gpus: tuple[int, ...]
    shared: SharedRun
    uid: int | None
    """The user whose pages it has; None: those of the engine's user."""


class GpuSharing:
    """The sharing of one node. `actuators` act at the start of each run; `has_groups` tells if control groups work."""

    def __init__(self, runtime_dir: str, jobs_dir: str, has_groups: Callable[[], bool]) -> None:
        self._folder, self._jobs_dir, self._has_groups = f"{runtime_dir}/{FOLDER}", jobs_dir, has_groups
        self.rule = DEFAULT_RULE
        self.actuators: list[StartActuator] = [MpsActuator(os.path.dirname(runtime_dir))]
        self._pages: dict[int, Page] = {}
        """Open pages by the index of their GPU."""
        self._user_pages = UserPages(f"{os.path.dirname(jobs_dir)}/{FOLDER}")
        self._runs: dict[tuple[str, int], _StartedRun] = {}

    def configure(self, setting: str, *, has_driver: bool) -> None:
        """Set the rule, and without a driver limit the CPUs of runs: the GPUs of this node are only declared then."""
        self.rule, _, idle = setting.partition("+")
        if not has_driver:
            self.actuators.append(CpuActuator(is_idle=idle == IDLE, has_groups=self._has_groups))

    def variables(self, spec: LaunchSpec, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of a run that shares its GPUs."""
        found: dict[str, str] = {}
        for actuator in self.actuators:
            found |= actuator.variables(spec, env)
        if spec.gpu_share is None or not spec.gpus:
            return found
        request = spec.gpu_request if spec.gpu_request is not None else spec.gpu_share
        with suppress(OSError, layout.BadPage):  # for example on a full disk: the run shares by its actuators alone
            found[PAGES_VARIABLE] = ":".join(self._page_path(gpu, spec.account) for gpu in spec.gpus)
        found[REQUEST_VARIABLE], found[LIMIT_VARIABLE] = f"{request:g}", f"{spec.gpu_share:g}"
        kind = layout.KINDS[layout.TRAINING if spec.health is None else layout.INFERENCE]
        enforced = self._describe(found, self.shim_arguments(spec))
        shared = SharedRun(-1, spec.job, kind, request, spec.gpu_share, enforced=enforced)
        uid = None if spec.account is None else spec.account.uid
        self._runs[spec.job, spec.run] = _StartedRun(spec.gpus, shared, uid)
        return found

    def _describe(self, env: Mapping[str, str], arguments: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(text for actuator in self.actuators for text in actuator.describe(env, arguments))

    def shim_arguments(self, spec: LaunchSpec) -> dict[str, Any]:
        found: dict[str, Any] = {"cpu_weight": 0, "scheduler": ""}
        for actuator in self.actuators:
            found |= actuator.shim_arguments(spec)
        return found

    def _page_path(self, gpu: int, account: Account | None) -> str:
        return self._page(gpu).path if account is None else self._user_pages.make(gpu, account, self.rule)

    def _page(self, gpu: int) -> Page:
        page = self._pages.get(gpu)
        if page is None or not os.path.exists(page.path):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            path = f"{self._folder}/gpu-{gpu}"
            make(path, self.rule)
            page = self._pages[gpu] = Page(path)
        return page

    def adopt(self, runs: Iterable[tuple[str, int]]) -> None:
        """Find out how the runs of an earlier engine share their GPUs."""
        for job, run in runs:
            self._adopt(job, run)

    def _adopt(self, job: str, run: int) -> None:
        folder = run_files.run_dir(self._jobs_dir, job, run)
        spec = run_files.read_object(f"{folder}/{run_files.SPEC}") or {}
        env = spec.get("env", {})
        limit = env.get(LIMIT_VARIABLE)
        gpus = tuple(int(gpu) for gpu in env.get("WEFT_GPU_IDS", "").split(",") if gpu.isdecimal())
        if limit is None or not gpus:
            return
        kind = layout.KINDS[1 + os.path.exists(f"{folder}/{run_files.REPLICA}")]
        enforced = self._describe(env, spec)
        shared = SharedRun(-1, job, kind, float(env[REQUEST_VARIABLE]), float(limit), enforced=enforced)
        account = run_folder.owner(folder)
        self._runs[job, run] = _StartedRun(gpus, shared, None if account is None else account.uid)
        if account is not None:
            return
        with suppress(OSError, layout.BadPage):
            for gpu in gpus:
                self._page(gpu)

    def leave(self, job: str, run: int) -> None:
        """Free the slots of a run that has ended."""
        ended = self._runs.pop((job, run), None)
        if ended is None:
            return
        if ended.uid is None:
            for page in self._pages.values():
                page.release_run(job, run)
            return
        in_use = {gpu for other in self._runs.values() if other.uid == ended.uid for gpu in other.gpus}
        for gpu in set(ended.gpus) - in_use:
            self._user_pages.remove(gpu, ended.uid)

    def heal(self) -> None:
        """Free the slots of processes that have died."""
        for page in self._pages.values():
            page.heal()

    def shared_runs(self) -> list[SharedRun]:
        """Return the runs on each shared GPU, with what their processes do."""
        places = {(gpu, run.uid) for run in self._runs.values() for gpu in run.gpus}
        slots = {
            (gpu, uid, slot.owner.job, slot.owner.run): slot for gpu, uid in places for slot in self._slots(gpu, uid)
        }
        return [
            _with_use(replace(run.shared, gpu=gpu), slots.get((gpu, run.uid, *key)), self._rule_of(run))
            for key, run in self._runs.items()
            for gpu in run.gpus
        ]

    def _slots(self, gpu: int, uid: int | None) -> Iterable[layout.Slot]:
        if uid is not None:
            return self._user_pages.slots(gpu, uid)
        page = self._pages.get(gpu)
        return () if page is None else layout.slots(page.memory)

    def _rule_of(self, run: _StartedRun) -> str:
        return self.rule if run.uid is None else f"{self.rule}, next to services of the same user"


def _with_use(shared: SharedRun, slot: layout.Slot | None, rule: str) -> SharedRun:
    """Add what the device page says. Work on the page depends on the program: it is advisory."""
    if slot is None:
        text = "no pacing: it calls neither weft.train.pace nor runs with --stages auto"
        if shared.kind != "training":
            text = "its batches are not marked: training next to it is not paced"
        return replace(shared, advisory=(text,))
    if shared.kind == "training":
        rate = round(slot.rate, 4) if 0 <= slot.rate <= 1 else 1.0  # the page of a user may hold anything
        return replace(shared, rate=rate, advisory=(f"pacing between layers ({rule})",))
    return replace(shared, busy=slot.busy, advisory=("its batches are marked",))
