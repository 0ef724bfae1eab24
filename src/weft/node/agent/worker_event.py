"""Changes of a worker's connection, for display."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WorkerEventKind = Literal["connected", "disconnected", "refused", "leaving"]


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """A change of the connection, for display."""

    kind: WorkerEventKind
    reason: str = ""
    runs: int = 0
    gives_up_in_s: float | None = None
    """For a refusal that may pass: how much longer the worker tries. None: it does not give up, or at once."""
