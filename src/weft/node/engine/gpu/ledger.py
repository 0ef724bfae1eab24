"""The shared GPU ledger: a folder of locks, so that the schedulers of several users never give out the same GPU."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weft.errors import InputError
from weft.model import Blocked, NodeId, Seconds, Unblocked
from weft.model.status import Reason
from weft.node.engine.background import TaskSet
from weft.node.engine.gpu import locks
from weft.node.engine.gpu.ledger_folder import prepare_folder
from weft.node.engine.gpu.nvml import Device
from weft.node.engine.gpu.poller import FactsAt
from weft.node.engine.launch_spec import LaunchSpec

LEDGER_POLL_S: Final = 1.0
DETAIL_S: Final = 10.0
"""While one user holds a GPU, the detail of its block changes at most this often: the jobs may be short."""
log = logging.getLogger(__name__)


class GpuLedger:
    """The locks of this machine's GPUs, as one scheduler sees them. `state` is the folder of the scheduler."""

    def __init__(self, folder: str, state: str, host: str) -> None:
        self.folder, self._host = folder, host
        self.key = locks.scheduler_key(os.getuid(), os.path.realpath(state))

    def path(self, index: int, uuid: str) -> str:
        """Return the file of a GPU. Its uuid is the same in every container; an index means a GPU of this host."""
        return f"{self.folder}/gpu-{uuid or f'{self._host}-{index}'}.lock"

    def arguments(self, spec: LaunchSpec) -> dict[str, Any] | None:
        """Return what a shim needs to lock the GPUs of a run; None: the run has none."""
        uuids = spec.gpu_uuids or [""] * len(spec.gpus)
        paths = [self.path(index, uuid) for index, uuid in zip(spec.gpus, uuids, strict=True)]
        return {"paths": paths, "key": self.key, "name": spec.name or spec.job} if paths else None

    def problem(self) -> str:
        """Return why the folder cannot be used; empty if it can."""
        try:
            prepare_folder(self.folder)
        except InputError as error:
            return f"{error.what}; {error.hint}"
        return ""

    def find_block(self, device: Device) -> tuple[int, str] | None:
        """Return why a GPU cannot be used, with the key of the scheduler that holds it; None: it is free."""
        path = self.path(device.index, device.uuid)
        try:
            other = locks.find_other_holder(path, self.key)
        except OSError as error:
            return -1, f"cannot open {path}: {error.strerror}"
        return (other.key, locks.describe(other)) if other is not None else None


@dataclass(frozen=True, slots=True)
class _Block:
    key: int
    detail: str
    at: Seconds


class LedgerWatcher:
    """Blocks the GPUs that other schedulers hold. `ledger` None: removes the blocks of an earlier ledger."""

    def __init__(
        self, ledger: GpuLedger | None, node: NodeId, devices: Sequence[Device], report: Callable[[FactsAt], None]
    ) -> None:
        self.ledger, self._node, self._devices, self._report = ledger, node, devices, report
        self._blocks: dict[int, _Block] = {}
        self.problem = ""
        """Why the folder cannot be used; empty if it can. No run starts on a GPU meanwhile."""
        self._standing_in: dict[object, list[int]] = {}
        self._tasks = TaskSet()

    def open(self) -> None:
        self.poll()
        if self.ledger is not None:
            self._tasks.every(LEDGER_POLL_S, self.poll, "reading the shared GPU ledger")

    async def close(self) -> None:
        await self._tasks.close()
        for run in list(self._standing_in):
            self.release(run)

    def reset(self, known: Iterable[tuple[int, str]]) -> None:
        """Start with these GPUs known to be blocked, each for a reason."""
        self._blocks = {gpu: _Block(-1, "", 0.0) for gpu, why in known if why == Reason.OTHER_USER}

    @property
    def held_by_others(self) -> frozenset[int]:
        """The GPUs that other schedulers hold now."""
        return frozenset(self._find_blocks())

    @property
    def folder(self) -> str:
        """The shared folder; empty: none is shared."""
        return self.ledger.folder if self.ledger is not None else ""

    def poll(self) -> None:
        """Report what changed."""
        self.problem = self.ledger.problem() if self.ledger is not None else ""
        self._post(self._find_blocks())

    def stand_in(self, run: object, gpus: Iterable[int]) -> None:
        """Lock the GPUs of a run from an earlier scheduler: its shim may be older than the ledger, or killed."""
        if self.ledger is None or run in self._standing_in:
            return
        devices = [self._devices[gpu] for gpu in gpus if gpu < len(self._devices)]
        paths = [self.ledger.path(device.index, device.uuid) for device in devices]
        try:
            self._standing_in[run] = locks.lock_gpus(paths, self.ledger.key, "")
        except locks.GpuTaken as error:
            log.warning("a job of an earlier scheduler uses GPUs that are not its own: %s", error)

    def release(self, run: object) -> None:
        """Unlock the GPUs that `stand_in` locked for a run."""
        for handle in self._standing_in.pop(run, ()):
            os.close(handle)

    def on_taken(self, gpus: Iterable[int], detail: str) -> None:
        """A run could not lock its GPUs. Block the cause, or all of them until the next poll, so that it waits."""
        found = dict(self._find_blocks())
        if not set(found) & set(gpus):
            found |= dict.fromkeys(gpus, (-1, detail))
        self._post(found)

    def _find_blocks(self) -> Mapping[int, tuple[int, str]]:
        if self.ledger is None:
            return {}
        if self.problem:
            return dict.fromkeys(range(len(self._devices)), (-1, self.problem))
        found = ((gpu, self.ledger.find_block(device)) for gpu, device in enumerate(self._devices))
        return {gpu: block for gpu, block in found if block is not None}

    def _post(self, found: Mapping[int, tuple[int, str]]) -> None:
        if found or self._blocks:
            self._report(lambda now: self._facts(found, now))

    def _facts(self, found: Mapping[int, tuple[int, str]], now: Seconds) -> list[Blocked | Unblocked]:
        freed = sorted(set(self._blocks) - set(found))
        facts: list[Blocked | Unblocked] = [Unblocked(now, self._node, gpu, Reason.OTHER_USER) for gpu in freed]
        for gpu, (key, detail) in found.items():
            before = self._blocks.get(gpu)
            recent = before is not None and before.key == key >= 0 and now - before.at < DETAIL_S
            if before is None or (before.detail != detail and not recent):
                facts.append(Blocked(now, self._node, gpu, Reason.OTHER_USER, None, detail))
                self._blocks[gpu] = _Block(key, detail, now)
        for gpu in freed:
            del self._blocks[gpu]
        return facts
