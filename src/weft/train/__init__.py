"""The API for code inside a job: report progress, stop in time, resume, and share a GPU. Outside a job it does nothing.

It uses only the standard library, and of Weft only the device page, so importing it takes a few milliseconds.
"""

from __future__ import annotations

from weft.train.checkpoints import checkpoint, done, resume_path
from weft.train.reporting import progress
from weft.train.stopping import Preemptible, preemptible, should_stop

TYPE_CHECKING = False  # like typing.TYPE_CHECKING, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from weft.train.hooks.torch_import import install as auto
    from weft.train.pacing import pace
    from weft.train.stages import stage, stages
    from weft.train.turns import StopRequested

__all__ = [
    "Preemptible", "StopRequested", "auto", "checkpoint", "done", "pace", "preemptible", "progress", "resume_path",
    "should_stop", "stage", "stages",
]  # fmt: skip

_HOME = {
    "StopRequested": ("weft.train.turns", "StopRequested"),
    "auto": ("weft.train.hooks.torch_import", "install"),
    "pace": ("weft.train.pacing", "pace"),
    "stage": ("weft.train.stages", "stage"),
    "stages": ("weft.train.stages", "stages"),
}
"""Names that are imported when they are first used, and where they are."""


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'weft.train' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOME[name]
    found = globals()[name] = getattr(import_module(module), attribute)
    return found
