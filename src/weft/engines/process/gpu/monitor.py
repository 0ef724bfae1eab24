"""Watches the GPUs: who is on them that should not be, what stays behind on them, what runs really need.

Pure: readings and runs in, facts out, and none where nothing changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from weft.engines.process.gpu.memory_usage import STEP_MB, Needs, in_steps
from weft.engines.process.gpu.nvml import Device, GpuProcess, Reading
from weft.model import Blocked, JobId, Measured, NodeId, Seconds, Unblocked
from weft.model.status import Reason

Foreign = Literal["avoid", "share", "ignore"]
"""A GPU on which somebody else works is left alone; is used as far as its memory goes; is used all the same."""
RunKey = tuple[JobId, int]

NOT_WORK: Final = frozenset(
    {
        "Xorg", "X", "Xwayland", "gnome-shell", "gnome-remote-de", "kwin_x11", "kwin_wayland", "plasmashell", "sddm",
        "sddm-greeter", "gdm-x-session", "sway", "Hyprland", "mutter-x11-fram", "nvidia-persiste", "nv-hostengine",
        "nvidia-cuda-mps", "nvidia-smi",
    }
)  # fmt: skip
"""Who is on a GPU without working there. The kernel cuts names to 15 characters."""
FOREIGN: Final = Reason.FOREIGN_PROCESS
DIRTY: Final = Reason.DIRTY_GPU
VANISHED: Final = Reason.GPU_VANISHED
REASONS: Final = frozenset({FOREIGN, DIRTY, VANISHED})
"""What a watch blocks GPUs for. It leaves blocks for other reasons alone."""
UNSEEN_MB: Final = 512
UNSEEN_SHARE: Final = 0.02
"""Memory that no process is seen to hold is somebody's from here on; below, it is the driver's."""


@dataclass(frozen=True, slots=True)
class MonitorOptions:
    foreign: Foreign = "avoid"
    not_work: frozenset[str] = NOT_WORK
    free_after_s: float = 30.0
    """So long nobody else must have been there, before a GPU is used again: a notebook is soon restarted."""
    warm_up_s: float = 60.0
    """So long a run keeps all it was given, however little it uses."""


@dataclass(frozen=True, slots=True)
class RunOnGpus:
    """A run of ours: where it should be, and where its processes are."""

    gpus: tuple[int, ...]
    pids: frozenset[int]
    started_at: Seconds
    memory_mb: int = 0
    """What it holds of each GPU in the books; 0: not counted."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A process of a run works on a GPU that the run was not given."""

    at: Seconds
    job: JobId
    run: int
    gpu: int
    pid: int


Note = Blocked | Unblocked | Measured | Misplaced


@dataclass(frozen=True, slots=True)
class _Block:
    memory_mb: int | None
    detail: str


class GpuMonitor:
    """`known`: which GPUs are blocked already, and why, by what an earlier watch said."""

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
        self._owners: dict[int, RunKey] = {}
        self._used = {gpu for gpu, why in self._blocks if why == DIRTY}
        self.misplaced: set[tuple[RunKey, int]] = set()
        """Runs with a process on a GPU that they were not given, as of the last look, and which."""
        self._before: set[tuple[int, int]] = set()
        self._doubt = self._had_runs = False
        self._needs = Needs(self._options.warm_up_s)

    def left(self, gpus: Iterable[int]) -> None:
        """A run of ours was on these GPUs, perhaps too briefly for a look: what is found there now it has left."""
        self._used.update(gpus)

    def look(self, at: Seconds, readings: Mapping[int, Reading], runs: Mapping[RunKey, RunOnGpus]) -> list[Note]:
        """What changed since the last look. GPUs are numbered as in the node, readings as by the driver."""
        notes: list[Note] = []
        self._doubt, self._had_runs = bool(runs) or self._had_runs, bool(runs)
        for key, run in runs.items():
            self._owners.update(dict.fromkeys(run.pids, key))
            self._used.update(run.gpus)
        on_gpus: set[tuple[int, int]] = set()
        strays: list[Misplaced] = []
        for gpu, device in enumerate(self._devices):
            reading = readings.get(device.index)
            notes += self._vanished(at, gpu, device, reading is None)
            if reading is None:
                continue
            on_gpus.update((gpu, process.pid) for process in reading.processes)
            here = {key for key, run in runs.items() if gpu in run.gpus}
            others = [p for p in reading.processes if not self._is_ours(p, runs, bool(here))]
            notes += self._foreign(at, gpu, device, reading, others, bool(here))
            notes += self._dirty(at, gpu, device, reading, others, bool(here))
            strays += self._strays(at, gpu, reading, runs)
        notes += [stray for stray in strays if ((stray.job, stray.run), stray.gpu) not in self.misplaced]
        notes += self._needs.look(at, self._by_gpu(readings), runs)
        pids = {pid for _, pid in on_gpus}
        self._owners = {pid: key for pid, key in self._owners.items() if key in runs or pid in pids}
        self._before = on_gpus
        self.misplaced = {((stray.job, stray.run), stray.gpu) for stray in strays}
        return notes

    def _by_gpu(self, readings: Mapping[int, Reading]) -> dict[int, tuple[Device, Reading]]:
        found = ((gpu, device, readings.get(device.index)) for gpu, device in enumerate(self._devices))
        return {gpu: (device, reading) for gpu, device, reading in found if reading is not None}

    def _is_ours(self, process: GpuProcess, runs: Mapping[RunKey, RunOnGpus], held: bool) -> bool:
        """Of a process in another pid namespace nothing is known: where we have a run, it is taken for that run's."""
        if not process.visible:
            return held
        return self._owners.get(process.pid) in runs

    def _is_stranger(self, gpu: int, process: GpuProcess) -> bool:
        """While we have runs, one is believed at second sight: a process of ours may have ended since the reading."""
        if process.pid in self._owners or process.name.rpartition("/")[2] in self._options.not_work:
            return False
        return not self._doubt or (gpu, process.pid) in self._before

    # ---- who and what blocks a GPU

    def _vanished(self, at: Seconds, gpu: int, device: Device, gone: bool) -> list[Note]:
        name = f" ({device.uuid})" if device.uuid else ""
        block = _Block(None, f"GPU {device.index}{name} no longer answers") if gone else None
        return self._set(at, gpu, VANISHED, block)

    def _foreign(
        self, at: Seconds, gpu: int, device: Device, reading: Reading, others: list[GpuProcess], held: bool
    ) -> list[Note]:
        mode = self._options.foreign
        strangers = [process for process in others if self._is_stranger(gpu, process)]
        unseen_mb = self._unseen_mb(device, reading) if not strangers and not held and gpu not in self._used else 0
        if mode == "ignore" or not (strangers or unseen_mb):
            return self._free_later(at, gpu)
        self._seen_at[gpu] = at
        detail = f"{unseen_mb} MB held by processes that cannot be seen" if unseen_mb else _names(strangers)
        if mode == "avoid":
            return self._set(at, gpu, FOREIGN, _Block(None, detail))
        held_mb = unseen_mb or sum(device.memory_mb if p.used_mb is None else p.used_mb for p in strangers)
        memory_mb = min(in_steps(held_mb), device.memory_mb)
        before = self._blocks.get((gpu, FOREIGN))
        if before is not None and before.memory_mb is not None and 0 <= before.memory_mb - memory_mb <= STEP_MB:
            memory_mb = before.memory_mb
        return self._set(at, gpu, FOREIGN, _Block(memory_mb, detail))

    def _free_later(self, at: Seconds, gpu: int) -> list[Note]:
        if gpu in self._seen_at and at - self._seen_at[gpu] < self._options.free_after_s:
            return []
        self._seen_at.pop(gpu, None)
        return self._set(at, gpu, FOREIGN, None)

    def _dirty(
        self, at: Seconds, gpu: int, device: Device, reading: Reading, others: list[GpuProcess], held: bool
    ) -> list[Note]:
        """Memory that stays after a run of ours: held by what it left, or by nobody that can be seen."""
        left = [process for process in others if process.pid in self._owners]
        unseen_mb = self._unseen_mb(device, reading) if gpu in self._used and not held and not others else 0
        if left:
            block = _Block(None, f"still held by {_names(left)}")
        elif unseen_mb:
            before = self._blocks.get((gpu, DIRTY))
            block = before or _Block(None, f"{unseen_mb} MB held by nobody that can be seen")
        else:
            if not held:
                self._used.discard(gpu)
            return self._set(at, gpu, DIRTY, None)
        return self._set(at, gpu, DIRTY, block)

    def _unseen_mb(self, device: Device, reading: Reading) -> int:
        """Memory in use for which no process is named; nothing where a process does not say what it holds."""
        if any(process.used_mb is None for process in reading.processes):
            return 0
        unseen = reading.used_mb - sum(process.used_mb or 0 for process in reading.processes)
        return unseen if unseen > max(UNSEEN_MB, UNSEEN_SHARE * device.memory_mb) else 0

    def _strays(self, at: Seconds, gpu: int, reading: Reading, runs: Mapping[RunKey, RunOnGpus]) -> list[Misplaced]:
        """The first process of each run that has no business on this GPU."""
        found: dict[RunKey, Misplaced] = {}
        for process in reading.processes:
            key = self._owners.get(process.pid)
            run = runs.get(key) if key else None
            if key and run and gpu not in run.gpus:
                found.setdefault(key, Misplaced(at, key[0], key[1], gpu, process.pid))
        return list(found.values())

    def _set(self, at: Seconds, gpu: int, why: str, block: _Block | None) -> list[Note]:
        if self._blocks.get((gpu, why)) == block:
            return []
        if block is None:
            del self._blocks[gpu, why]
            return [Unblocked(at, self._node, gpu, why)]
        self._blocks[gpu, why] = block
        return [Blocked(at, self._node, gpu, why, block.memory_mb, block.detail)]


def _names(processes: list[GpuProcess]) -> str:
    named = sorted(processes, key=lambda process: process.pid)
    text = ", ".join(f"pid {process.pid} ({process.name or 'unknown'})" for process in named[:4])
    return text if len(named) <= 4 else f"{text} and {len(named) - 4} more"
