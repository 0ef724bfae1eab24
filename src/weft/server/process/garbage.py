"""Short garbage collections: a server stands still during each of them, and it may have a million objects."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

THRESHOLDS: Final = (5_000, 4, 4)
"""New objects before a collection of the youngest, and how many of these before one of the next generation: at most
some 25,000 and 100,000 objects."""
LONG_S: Final = 0.02
"""The CPU time of a full collection after which its survivors are not looked at again."""


@contextmanager
def short_collections() -> Iterator[None]:
    """Collect often and little. The survivors of a long full collection are frozen: most are jobs, which stay, and
    which go by reference counts once they are purged. The next one looks at newer objects only."""
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)
    try:
        yield
    finally:
        gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*before)


_began: float = 0.0


def _freeze_survivors(phase: str, info: dict[str, int]) -> None:
    global _began
    if info["generation"] < 2:
        return
    if phase == "start":
        _began = time.thread_time()
    elif time.thread_time() - _began > LONG_S:
        gc.freeze()
