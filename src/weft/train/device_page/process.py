"""This process on the GPUs that its run shares: one gate if it trains, one mark if it serves. Joined at first use."""

from __future__ import annotations

import os
from _thread import allocate_lock

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final, Self

    from weft.train.device_page.batches import Batches
    from weft.train.device_page.cuda import Actuator

PAGES_VARIABLE: Final = "WEFT_DEVICE_PAGE"
"""The pages of the GPUs of a run, separated by colons; none: it shares no GPU."""


def shares_a_gpu() -> bool:
    """Return whether the run of this process shares its GPUs."""
    return bool(os.environ.get(PAGES_VARIABLE))


class Training:
    """The gate of this process, and the actuator that gives its steps a part of the GPU."""

    def __init__(self) -> None:
        from weft.train.device_page import layout
        from weft.train.device_page.cuda import LayerQueue, find_actuator, usable_cuda
        from weft.train.device_page.gate import gate_for
        from weft.train.device_page.place import join

        self._places = join(layout.TRAINING, os.environ)
        cuda = usable_cuda()
        self.gate: Callable[[], None] = gate_for(self._places, LayerQueue(cuda) if cuda is not None else None)
        owner = self._places[0].owner if self._places else None
        self._request, self._limit = (owner.request, owner.limit) if owner else (1.0, 1.0)
        self._actuator: Actuator = find_actuator(os.environ, self._request, self._limit, is_inference=False)

    @property
    def is_joined(self) -> bool:
        return bool(self._places)

    @property
    def switches(self) -> bool:
        """True if each step may use another part of the GPU."""
        return self._actuator.name != "none"

    def begin_step(self) -> None:
        """Give the step its request while inference is on the GPU, and its limit otherwise."""
        from weft.train.device_page import layout

        is_shared = any(layout.has_kind(place.memory, layout.INFERENCE) for place in self._places)
        self._actuator.switch(self._request if is_shared else self._limit)


class FreeBatch:
    """The mark of a batch on a GPU that the run does not share."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class MarkedBatch:
    """The mark of a batch on a shared GPU. Several threads may enter it at a time."""

    def __init__(self, batches: Batches, actuator: Actuator) -> None:
        self._batches, self._actuator = batches, actuator

    def __enter__(self) -> Self:
        self._actuator.switch(self._batches.begin())
        return self

    def __exit__(self, *_: object) -> None:
        self._batches.end()


_FREE: Final = FreeBatch()
_lock = allocate_lock()
_training: Training | None = None
_batch: FreeBatch | MarkedBatch | None = None


def training() -> Training | None:
    """Return the training of this process; None if its run shares no GPU."""
    global _training
    if _training is None and shares_a_gpu():
        with _lock:
            _training = _training or Training()
    return _training


def batch(*, llm: bool = False) -> FreeBatch | MarkedBatch:
    """Return the mark for the batches of this process. The first call decides whether they are those of an LLM."""
    global _batch
    if _batch is None:
        with _lock:
            _batch = _batch or (_marked(llm) if shares_a_gpu() else _FREE)
    return _batch


def _marked(llm: bool) -> FreeBatch | MarkedBatch:
    from weft.train.device_page import layout
    from weft.train.device_page.batches import Batches
    from weft.train.device_page.cuda import find_actuator
    from weft.train.device_page.place import join

    places = join(layout.INFERENCE, os.environ)
    if not places:
        return _FREE
    owner = places[0].owner
    actuator = find_actuator(os.environ, owner.request, owner.limit, is_inference=True)
    return MarkedBatch(Batches(places, is_llm=llm), actuator)


def _forget_in_child() -> None:
    """Leave the place to the parent: a forked child joins by itself if it trains or serves."""
    global _training, _batch
    _training, _batch = None, None


os.register_at_fork(after_in_child=_forget_in_child)
