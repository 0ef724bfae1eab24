"""Identifiers and units. They are plain values, so importing them costs a small command nothing."""

from __future__ import annotations

Seconds = float
JobId = str
NodeId = str
Slots = tuple[tuple[NodeId, tuple[int, ...]], ...]
"""GPUs by node, in rank order."""
