"""End a call from outside of it, with a reason that its transport sends to the client."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from weft.errors import WeftError

_REASONS: Final[WeakKeyDictionary[asyncio.Task[Any], WeftError]] = WeakKeyDictionary()


def cut_off(call: asyncio.Task[Any], reason: WeftError) -> None:
    """Cancel the task of a call."""
    _REASONS[call] = reason
    call.cancel()


def cut_reason() -> WeftError | None:
    """Return why the present call was cut off, and end its cancellation; None: it was cancelled for another reason."""
    task = asyncio.current_task()
    reason = _REASONS.pop(task, None) if task is not None else None
    if reason is not None and task is not None:
        task.uncancel()
    return reason
