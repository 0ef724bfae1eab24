"""The selection of jobs in queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict


class Filters(TypedDict, total=False):
    """Which jobs of the queue or the history to return."""

    group: str
    states: Sequence[str]
    """Statuses such as running, or Slurm's letters such as PD."""
    name: str
    """A pattern, such as train-*."""
    user: str
    skip: int
    """Leave out this many jobs before the first one."""
