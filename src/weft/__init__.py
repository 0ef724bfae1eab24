"""Weft schedules deep-learning jobs on GPUs. This module has the calls that submit, run and follow jobs and services.

`weft.train` and `weft.serve` are for programs inside jobs, `weft.policy` for plug-ins, `weft.sim` for simulations.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # like `typing.TYPE_CHECKING`, without importing typing
if TYPE_CHECKING:
    from typing import Any

    from weft.access.client import Client
    from weft.access.client.api import JobHandle, run, submit, submit_many
    from weft.access.client.functions import JobFunction, job
    from weft.access.client.services import ServiceHandle, deploy
    from weft.errors import WeftError
    from weft.history.journal import open_journal
    from weft.version import __version__

__all__ = [
    "Client", "JobFunction", "JobHandle", "ServiceHandle", "WeftError", "__version__", "deploy", "job", "open_journal",
    "run", "submit", "submit_many",
]  # fmt: skip

_HOME = {
    "Client": "weft.access.client",
    **dict.fromkeys(("JobHandle", "run", "submit", "submit_many"), "weft.access.client.api"),
    **dict.fromkeys(("JobFunction", "job"), "weft.access.client.functions"),
    **dict.fromkeys(("ServiceHandle", "deploy"), "weft.access.client.services"),
    "WeftError": "weft.errors",
    "open_journal": "weft.history.journal",
    "__version__": "weft.version",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: `import weft` alone costs nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
