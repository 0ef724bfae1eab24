"""A woven job that loads the data of its next iteration while it computes, as tokens other than lock-step allow."""

from __future__ import annotations

import os
import queue
import threading
import time

from weft.train.emulated.device import Device
from weft.train.emulated.program import StopRequested
from weft.train.emulated.woven import ROUNDING, Job, never

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.train.emulated.woven import Weave
    from weft.train.weave.member import Member


class Loader:
    """A thread that loads one batch at a time, on request. The data stage takes no turns, but shares the resource."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._batches: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._ahead = False
        threading.Thread(target=self._run, name="weft-loader", daemon=True).start()

    def batch(self, seconds: float) -> None:
        """Wait for the batch that was loaded ahead, or load one; then load the next one."""
        if not self._ahead:
            self._requests.put(seconds)
        error = self._batches.get()
        if error is not None:
            raise error
        self._requests.put(seconds)
        self._ahead = True

    def _run(self) -> None:
        try:
            device = Device(dict(os.environ))
            while True:
                device.hold("data", self._requests.get())
                self._batches.put(None)
        except BaseException as error:  # the job must not wait for a batch that never comes
            self._batches.put(error)


class ReadAheadJob(Job):
    """Counts an iteration by its GPU and network stages; the data of the iteration was loaded before.

    It is never faster than alone: what a real job reads ahead is part of its solo time.
    """

    def __init__(self, work_s: float, iteration_s: float, stages_s: tuple[float, ...], weave: Weave) -> None:
        super().__init__(work_s, iteration_s, stages_s, weave)
        self._device: Device | None = None
        self._loader: Loader | None = None

    def iterate(self, member: Member) -> None:
        if self._device is None or self._loader is None:
            self._device, self._loader = Device(dict(os.environ)), Loader()
        began, before_s = time.monotonic(), self.done_s
        data_s, *computing_s = self.stages_s
        self._loader.batch(data_s * self.weave.factor)
        whole_s = sum(computing_s) or ROUNDING
        begun = int(self.done_s / self.iteration_s + ROUNDING)
        at = max(self.done_s / self.iteration_s - begun, 0.0) * whole_s  # in seconds of the stages
        end = min((self.work_s - begun * self.iteration_s) / self.iteration_s, 1.0) * whole_s
        first = 0.0
        for stage, length_s in zip(("gpu", "net"), computing_s, strict=True):
            last = first + length_s
            if at < min(last, end):
                member.acquire(stage, never)
                self._use(self._device, stage, min(last, end) - at, self.iteration_s / whole_s)
                member.release(stage)
                at = last
            first = last
        self.done_s = min((begun + 1) * self.iteration_s, self.work_s)
        early_s = self.done_s - before_s - (time.monotonic() - began)
        if early_s > 0:
            time.sleep(early_s)

    def _use(self, device: Device, stage: str, seconds: float, worth: float) -> None:
        """Hold a stage on the device. Each of its seconds is `worth` this much of the work."""
        try:
            device.hold(stage, seconds * self.weave.factor)
        except StopRequested:
            self.done_s += min(device.cancel() / self.weave.factor, seconds) * worth
            raise
        self.done_s += seconds * worth
