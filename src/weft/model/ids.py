"""Names and units: plain values, so that a command that needs no more of the model pays nothing for it."""

from __future__ import annotations

Seconds = float
JobId = str
NodeId = str
Slots = tuple[tuple[NodeId, tuple[int, ...]], ...]
"""Which GPUs of which nodes, in rank order."""
