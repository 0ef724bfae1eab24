"""The GPU monitor: finds foreign processes, leftovers and misplaced runs on GPUs, and measures memory needs.

Pure: readings and runs in, changes out.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from weft.model import Blocked, JobId, Measured, NodeId, Seconds, Unblocked
from weft.model.status import Reason
from weft.node.engine.gpu.memory_usage import ROUNDING_MB, MemoryTracker, round_up_mb
from weft.node.engine.gpu.nvml import Device, GpuProcess, Reading

Foreign = Literal["avoid", "share", "ignore"]
"""Reaction to a foreign process on a GPU: avoid the GPU, share its remaining memory, or ignore the process."""
RunKey = tuple[JobId, int]

BACKGROUND_PROGRAMS: Final = frozenset(
    {
        "Xorg", "X", "Xwayland", "gnome-shell", "gnome-remote-de", "kwin_x11", "kwin_wayland", "plasmashell", "sddm",
        "sddm-greeter", "gdm-x-session", "sway", "Hyprland", "mutter-x11-fram", "nvidia-persiste", "nv-hostengine",
        "nvidia-cuda-mps", "nvidia-smi",
    }
)  # fmt: skip
"""Programs whose presence on a GPU does not count as use. The kernel truncates names to 15 characters."""
FOREIGN: Final = Reason.FOREIGN_PROCESS
DIRTY: Final = Reason.DIRTY_GPU
VANISHED: Final = Reason.GPU_VANISHED
REASONS: Final = frozenset({FOREIGN, DIRTY, VANISHED})
"""The reasons for which the monitor blocks GPUs. It leaves other blocks alone."""
DRIVER_MEMORY_MB: Final = 512
DRIVER_MEMORY_SHARE: Final = 0.02
"""Memory without a visible owner counts as a process above both limits; below, it belongs to the driver."""


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    foreign: Foreign = "avoid"
    background_programs: frozenset[str] = BACKGROUND_PROGRAMS
    free_after_s: float = 30.0
    """Time for which a GPU must be free of foreign processes before runs use it again: notebooks restart often."""
    warm_up_s: float = 60.0
    """Time for which a run keeps its whole allocation, however little of it the run uses."""


@dataclass(frozen=True, slots=True)
class RunOnGpus:
    """A run of Weft: its GPUs and its processes."""

    gpus: tuple[int, ...]
    pids: frozenset[int]
    started_at: Seconds
    memory_mb: int = 0
    """Memory that the run holds on each GPU; 0: not counted."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A process of a run uses a GPU that the run does not hold."""

    at: Seconds
    job: JobId
    run: int
    gpu: int
    pid: int


GpuChange = Blocked | Unblocked | Measured | Misplaced


@dataclass(frozen=True, slots=True)
class _Block:
    memory_mb: int | None
    detail: str


class GpuMonitor:
    """Compares successive readings. `known` lists the GPUs that an earlier monitor blocked, and why."""

    def __init__(
        self,
        node: NodeId,
        devices: tuple[Device, ...],
        options: MonitorOptions | None = None,
        known: Iterable[tuple[int, str]] = (),
    ) -> None:
        self._node, self._devices = node, devices
        self._options = options or MonitorOptions()
        self._blocks = {(gpu, why): _Block(None, "") for gpu, why in known if why in REASONS}
        self._seen_at: dict[int, Seconds] = {}
        self._cooling: set[int] = set()
        """GPUs whose foreign processes have gone, and that runs do not use yet."""
        self._owners: dict[int, RunKey] = {}
        self._used = {gpu for gpu, why in self._blocks if why == DIRTY}
        self.misplaced: set[tuple[RunKey, int]] = set()
        """Runs with a process on a GPU that they do not hold, and the GPU, as of the last update."""
        self._previous: set[tuple[int, int]] = set()
        self._runs_recently = self._had_runs = False
        self._memory = MemoryTracker(self._options.warm_up_s)

    def mark_used(self, gpus: Iterable[int]) -> None:
        """Record that a run used these GPUs, even if no update saw it: memory left there is its leftover."""
        self._used.update(gpus)

    def update(
        self,
        at: Seconds,
        readings: Mapping[int, Reading],
        runs: Mapping[RunKey, RunOnGpus],
        held_by_others: Container[int] = (),
    ) -> list[GpuChange]:
        """Return what changed since the last update. GPUs are numbered as in the node, readings as by the driver.

        On GPUs that other schedulers hold, processes are theirs. They neither block the GPU now nor for a time after.
        """
        changes: list[GpuChange] = []
        self._runs_recently, self._had_runs = bool(runs) or self._had_runs, bool(runs)
        for key, run in runs.items():
            self._owners.update(dict.fromkeys(run.pids, key))
            self._used.update(run.gpus)
        on_gpus: set[tuple[int, int]] = set()
        misplaced: list[Misplaced] = []
        for gpu, device in enumerate(self._devices):
            reading = readings.get(device.index)
            changes += self._check_vanished(at, gpu, device, reading is None)
            if reading is None:
                continue
            on_gpus.update((gpu, process.pid) for process in reading.processes)
            here = {key for key, run in runs.items() if gpu in run.gpus}
            others = [p for p in reading.processes if not self._is_ours(p, runs, bool(here))]
            if gpu in held_by_others and not here:
                self._seen_at.pop(gpu, None)
                changes += self._set_block(at, gpu, FOREIGN, None) if (gpu, FOREIGN) in self._blocks else []
                continue
            changes += self._check_foreign(at, gpu, device, reading, others, bool(here))
            changes += self._check_dirty(at, gpu, device, reading, others, bool(here))
            misplaced += self._find_misplaced(at, gpu, reading, runs)
        changes += [found for found in misplaced if ((found.job, found.run), found.gpu) not in self.misplaced]
        changes += self._memory.update(at, self._by_gpu(readings), runs)
        pids = {pid for _, pid in on_gpus}
        self._owners = {pid: key for pid, key in self._owners.items() if key in runs or pid in pids}
        self._previous = on_gpus
        self.misplaced = {((found.job, found.run), found.gpu) for found in misplaced}
        return changes

    def _by_gpu(self, readings: Mapping[int, Reading]) -> dict[int, tuple[Device, Reading]]:
        found = ((gpu, device, readings.get(device.index)) for gpu, device in enumerate(self._devices))
        return {gpu: (device, reading) for gpu, device, reading in found if reading is not None}

    def _is_ours(self, process: GpuProcess, runs: Mapping[RunKey, RunOnGpus], held: bool) -> bool:
        """Attribute a process in another pid namespace to the run on the GPU, if there is one."""
        if not process.visible:
            return held
        return self._owners.get(process.pid) in runs

    def _is_foreign(self, gpu: int, process: GpuProcess) -> bool:
        """Return whether a process is foreign. With recent runs it must be seen twice: one may just have ended."""
        if process.pid in self._owners or process.name.rpartition("/")[2] in self._options.background_programs:
            return False
        return not self._runs_recently or (gpu, process.pid) in self._previous

    # ---- blocks

    def _check_vanished(self, at: Seconds, gpu: int, device: Device, gone: bool) -> list[GpuChange]:
        name = f" ({device.uuid})" if device.uuid else ""
        block = _Block(None, f"GPU {device.index}{name} no longer answers") if gone else None
        return self._set_block(at, gpu, VANISHED, block)

    def _check_foreign(
        self, at: Seconds, gpu: int, device: Device, reading: Reading, others: list[GpuProcess], held: bool
    ) -> list[GpuChange]:
        mode = self._options.foreign
        foreign = [process for process in others if self._is_foreign(gpu, process)]
        unattributed_mb = (
            self._unattributed_mb(device, reading) if not foreign and not held and gpu not in self._used else 0
        )
        if mode == "ignore" or not (foreign or unattributed_mb):
            return self._unblock_foreign(at, gpu)
        self._seen_at[gpu] = at
        self._cooling.discard(gpu)
        detail = f"{unattributed_mb} MB held by invisible processes" if unattributed_mb else _describe(foreign)
        if mode == "avoid":
            return self._set_block(at, gpu, FOREIGN, _Block(None, detail))
        held_mb = unattributed_mb or sum(device.memory_mb if p.used_mb is None else p.used_mb for p in foreign)
        memory_mb = min(round_up_mb(held_mb), device.memory_mb)
        before = self._blocks.get((gpu, FOREIGN))
        if before is not None and before.memory_mb is not None and 0 <= before.memory_mb - memory_mb <= ROUNDING_MB:
            memory_mb = before.memory_mb
        return self._set_block(at, gpu, FOREIGN, _Block(memory_mb, detail))

    def _unblock_foreign(self, at: Seconds, gpu: int) -> list[GpuChange]:
        if gpu in self._seen_at and at - self._seen_at[gpu] < self._options.free_after_s:
            before = self._blocks.get((gpu, FOREIGN))
            if before is None or gpu in self._cooling:
                return []
            self._cooling.add(gpu)
            detail = f"{before.detail} has gone; jobs use the GPU again after {self._options.free_after_s:g} s"
            return self._set_block(at, gpu, FOREIGN, replace(before, detail=detail))
        self._seen_at.pop(gpu, None)
        self._cooling.discard(gpu)
        return self._set_block(at, gpu, FOREIGN, None)

    def _check_dirty(
        self, at: Seconds, gpu: int, device: Device, reading: Reading, others: list[GpuProcess], held: bool
    ) -> list[GpuChange]:
        """Block a GPU while memory of an ended run stays: held by its leftovers or by no visible process."""
        left = [process for process in others if process.pid in self._owners]
        unattributed_mb = self._unattributed_mb(device, reading) if gpu in self._used and not held and not others else 0
        if left:
            block = _Block(None, f"still held by {_describe(left)}")
        elif unattributed_mb:
            before = self._blocks.get((gpu, DIRTY))
            block = before or _Block(None, f"{unattributed_mb} MB held by no visible process")
        else:
            if not held:
                self._used.discard(gpu)
            return self._set_block(at, gpu, DIRTY, None)
        return self._set_block(at, gpu, DIRTY, block)

    def _unattributed_mb(self, device: Device, reading: Reading) -> int:
        """Return the memory in use without a visible process; 0 if a process does not report its usage."""
        if any(process.used_mb is None for process in reading.processes):
            return 0
        unseen = reading.used_mb - sum(process.used_mb or 0 for process in reading.processes)
        return unseen if unseen > max(DRIVER_MEMORY_MB, DRIVER_MEMORY_SHARE * device.memory_mb) else 0

    def _find_misplaced(
        self, at: Seconds, gpu: int, reading: Reading, runs: Mapping[RunKey, RunOnGpus]
    ) -> list[Misplaced]:
        """Return the first process of each run that uses this GPU without holding it."""
        found: dict[RunKey, Misplaced] = {}
        for process in reading.processes:
            key = self._owners.get(process.pid)
            run = runs.get(key) if key else None
            if key and run and gpu not in run.gpus:
                found.setdefault(key, Misplaced(at, key[0], key[1], gpu, process.pid))
        return list(found.values())

    def _set_block(self, at: Seconds, gpu: int, why: str, block: _Block | None) -> list[GpuChange]:
        if self._blocks.get((gpu, why)) == block:
            return []
        if block is None:
            del self._blocks[gpu, why]
            return [Unblocked(at, self._node, gpu, why)]
        self._blocks[gpu, why] = block
        return [Blocked(at, self._node, gpu, why, block.memory_mb, block.detail)]


def _describe(processes: list[GpuProcess]) -> str:
    named = sorted(processes, key=lambda process: process.pid)
    text = ", ".join(f"pid {process.pid} ({process.name or 'unknown'})" for process in named[:4])
    return text if len(named) <= 4 else f"{text} and {len(named) - 4} more"
