"""Stages of a step, where jobs that share GPUs take turns: through `weft.train`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from weft import train


def stage(name: str) -> AbstractContextManager[Any]:
    """Return a context for the stage `gpu` or `net` of a step."""
    enter = getattr(train, "stage", None)
    return enter(name) if enter is not None else nullcontext()


def hook_stages() -> None:
    """Let `weft.train` find the stages by itself, in the data loader, the optimizer and DDP."""
    hook = getattr(train, "auto", None)
    if hook is not None:
        hook()
