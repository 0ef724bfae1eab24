"""Actuators inside a process that uses CUDA: green contexts, the priority of streams, and a limit on queued layers.

Not run on hardware: tests run them against a stand-in for `torch.cuda`. `WEFT_GPU_ACTUATOR` selects one: `green`,
`priority`, or nothing (the default).
"""

from __future__ import annotations

import sys
from collections import deque

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final, Protocol

    class Actuator(Protocol):
        """Gives the work that this thread queues from now on a part of the GPU."""

        name: str

        def switch(self, share: float, /) -> None: ...


VARIABLE: Final = "WEFT_GPU_ACTUATOR"
GREEN: Final = "green"
PRIORITY: Final = "priority"
STEP: Final = 0.1
"""Green contexts are made for shares this far apart, from the request to the limit."""
MAX_QUEUED_LAYERS: Final = 2
HIGH_PRIORITY: Final = -1


class NoActuator:
    """Leaves the streams of the process as they are."""

    name = "none"

    def switch(self, _share: float) -> None:
        pass


class GreenContexts:
    """Contexts with some of the SMs of the GPU, made once. A switch orders the old and the new stream."""

    name = GREEN

    def __init__(self, cuda: Any, request: float, limit: float) -> None:
        self._cuda = cuda
        total = cuda.get_device_properties(cuda.current_device()).multi_processor_count
        self._contexts: list[Any] = []
        self._streams: dict[float, Any] = {}
        for share in sizes(request, limit):
            try:
                context = cuda.green_contexts.GreenContext.create(num_sms=max(round(share * total), 1))
            except RuntimeError:  # fewer SMs than a context of this GPU can have
                continue
            self._contexts.append(context)  # a stream does not keep its context alive
            self._streams[share] = context.Stream()
        if not self._streams:
            raise RuntimeError(f"no green context from {request:g} to {limit:g} of {total} SMs")

    def switch(self, share: float) -> None:
        """Use the smallest context that has this share, or else the largest."""
        size = min((each for each in self._streams if each >= share - 1e-6), default=max(self._streams))
        stream, current = self._streams[size], self._cuda.current_stream()
        if stream != current:
            stream.wait_stream(current)
            self._cuda.set_stream(stream)


class StreamPriority:
    """A stream before those of lower priority. It counts within this process only."""

    name = PRIORITY

    def __init__(self, cuda: Any) -> None:
        self._cuda, self._stream = cuda, cuda.Stream(priority=HIGH_PRIORITY)

    def switch(self, _share: float) -> None:
        current = self._cuda.current_stream()
        if current != self._stream:
            self._stream.wait_stream(current)
            self._cuda.set_stream(self._stream)


def sizes(request: float, limit: float) -> list[float]:
    """Return the shares for which contexts are made."""
    found, share = [], request
    while share < limit - 1e-6:
        found.append(round(share, 6))
        share += STEP
    return [*found, limit]


def find_actuator(env: Mapping[str, str], request: float, limit: float, *, is_inference: bool) -> Actuator:
    """Return the actuator that the environment selects; none where CUDA is not used or cannot do it."""
    wanted, cuda = env.get(VARIABLE, ""), usable_cuda()
    if cuda is None or wanted not in (GREEN, PRIORITY):
        return NoActuator()
    try:
        if wanted == GREEN:
            return GreenContexts(cuda, request, limit)
        return StreamPriority(cuda) if is_inference else NoActuator()
    except (RuntimeError, AttributeError) as error:
        sys.stderr.write(f"weft: {VARIABLE}={wanted} is not possible here: {error}\n")
        return NoActuator()


class LayerQueue:
    """Keeps the layers that are queued at the GPU few: Python queues them far ahead of a gate otherwise."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._events: deque[Any] = deque()

    def limit(self) -> None:
        if not self._cuda.is_initialized():
            return
        event = self._cuda.Event(blocking=True)  # the thread sleeps, and other threads go on
        event.record()
        self._events.append(event)
        if len(self._events) > MAX_QUEUED_LAYERS:
            self._events.popleft().synchronize()


def usable_cuda() -> Any:
    """Return `torch.cuda` if this process can use it; otherwise None."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)  # None while torch is being imported
    return cuda if cuda is not None and cuda.is_available() else None
