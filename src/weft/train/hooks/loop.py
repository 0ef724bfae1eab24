"""The training loop as the hooks see it, and the stages that follow from it.

| event | stage |
|---|---|
| the script asks the loader for a batch | the GPU stage ends, the data stage begins |
| it gets the batch | the data stage ends; rank 0 waits for the GPU |
| the last optimizer step of a batch ends | the GPU stage ends |
| the last gradients of a backward pass are there (DDP, woven) | GPU ends; network lasts for the reduction |

With gradient accumulation and in evaluation a batch has no optimizer step: its GPU stage ends with the next batch.
FSDP, pipelines and other collectives have no hook: their network time belongs to the GPU stage.
"""

from __future__ import annotations

import os
import threading
import time
from _thread import get_ident

from weft.train.recorder import Recorder
from weft.train.turns import turns

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from weft.train.ranks import Ranks


class TrainingLoop:
    """The loop of this process. Only the thread that trains has stages: a thread that reads ahead takes no turn."""

    def __init__(self) -> None:
        self._turns = turns()
        self.recorder = self._turns.recorder = self._turns.recorder or Recorder()
        self._thread = threading.main_thread().ident
        self._wanted_at = self._step_began = 0.0
        self._steps, self._steps_per_batch = 0, 1
        self.measures = bool(os.environ.get("WEFT_PROFILE"))
        """True if the network time is to be measured apart from the GPU time, woven or not."""

    def _is_other_thread(self) -> bool:
        return get_ident() != self._thread

    # ---- batches

    def want_batch(self) -> None:
        if self._is_other_thread():
            return
        self._turns.end("gpu")
        if self._steps:
            self._steps_per_batch, self._steps = self._steps, 0
        self._wanted_at = time.perf_counter()
        self._turns.begin("data", insist=True)

    def get_batch(self, *, is_training: bool) -> None:
        if self._is_other_thread():
            return
        self.recorder.is_paused = not is_training
        self._turns.end("data")
        self.recorder.add("wait", time.perf_counter() - self._wanted_at)
        self._turns.begin("gpu", insist=True)

    def end_batches(self) -> None:
        if not self._is_other_thread():
            self._turns.end("data")

    # ---- optimizer steps

    def begin_step(self) -> None:
        self._step_began = 0.0 if self._turns.is_held("gpu") else time.perf_counter()

    def end_step(self) -> None:
        """End an optimizer step. A batch may have several: the GPU stage ends after as many as the last batch had."""
        self._thread = get_ident()
        if self._step_began:  # after a reduction: the step uses the GPU without a turn
            self.recorder.add("gpu", time.perf_counter() - self._step_began)
        self._steps += 1
        if self._steps >= self._steps_per_batch:
            self._turns.end("gpu")
            self.recorder.end_step()

    # ---- gradients

    def begin_forward(self, others: Ranks | None) -> bool:
        """Begin the GPU stage of a forward pass with gradients; return whether to reduce them in a network stage."""
        if others is not None:
            return self._turns.begin_together("gpu", others, insist=True) or self.measures
        is_woven = self._turns.is_woven
        if is_woven and not self._turns.is_held("gpu"):
            self._turns.begin("gpu", insist=True)
        return is_woven or self.measures

    def begin_reduction(self, others: Ranks | None) -> None:
        if others is None:
            self._turns.end("gpu")
            self._turns.begin("net", insist=True)
        else:
            self._turns.end_together("gpu", others)
            self._turns.begin_together("net", others, insist=True)

    def end_reduction(self) -> None:
        self._turns.end("net")
        self.recorder.is_separate = True


_loop: TrainingLoop | None = None
_is_child = False


def training_loop() -> TrainingLoop | None:
    """Return the loop of this process; None in a forked child, such as a worker of a loader."""
    global _loop
    if _loop is None and not _is_child:
        _loop = TrainingLoop()
    return _loop


def _forget_in_child() -> None:
    """Leave the loop to the parent if it has begun. A rank that is forked before that has its own."""
    global _loop, _is_child
    _is_child = _is_child or _loop is not None
    _loop = None


os.register_at_fork(after_in_child=_forget_in_child)
