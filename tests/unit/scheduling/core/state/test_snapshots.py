"""Snapshots hold all of the state: a field that they forget is lost when a journal is compacted."""

from __future__ import annotations

from dataclasses import fields

from weft.model import FACTS, JobSnapshot
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import FOLDS

DERIVED = {"id", "gpus", "shape", "wanted_share", "allocation", "place", "unreachable"}
"""Fields that a restored job gets from its `job`, from `allocated_mb` and `share`, from its place in the order and from
the nodes that are cordoned as unreachable."""
OF_THE_SNAPSHOT = {"at", "allocated_mb", "usage"}
"""Fields that only the snapshot has: its time, the memory of the allocation, and the figures so far."""


def test_a_snapshot_has_every_field_of_a_job() -> None:
    assert set(JobState.__slots__) >= DERIVED
    snapshot = {field.name for field in fields(JobSnapshot)}
    assert set(JobState.__slots__) - DERIVED == snapshot - OF_THE_SNAPSHOT


def test_every_fact_has_a_function_that_applies_it() -> None:
    assert set(FOLDS) == set(FACTS)
