"""Advice on deadlines: passed, out of reach, at risk, and safe."""

from __future__ import annotations

import math
from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model import Job
from weft.scheduling.core.deadlines import ExpectedEnd, deadline_note, expected_end
from weft.scheduling.core.state.durations import Durations

NOON = datetime(2030, 1, 31, 12, 0).timestamp()
HOUR = 3600.0


@pytest.mark.parametrize(
    ("deadline_h", "end_h", "note"),
    [
        (-1.0, None, "its deadline, 11:00, has passed"),
        (2.0, None, None),
        (2.0, (1.0, 2.0), None),
        (2.0, (1.0, 2.5), "it may miss its deadline, 14:00: it ends before 14:30 at P90"),
        (2.0, (1.0, math.inf), "it may miss its deadline, 14:00: its end is unknown at P90"),
        (2.0, (3.0, 13.0), "it cannot make its deadline, 14:00: it ends at 15:00 at P50, 2030-02-01 01:00 at P90"),
    ],
)
def test_the_note_says_when_the_job_ends(
    deadline_h: float, end_h: tuple[float, float] | None, note: str | None
) -> None:
    end = None if end_h is None else ExpectedEnd(NOON + end_h[0] * HOUR, NOON + end_h[1] * HOUR)
    assert deadline_note(NOON + deadline_h * HOUR, end, NOON) == note


def test_the_expected_end_comes_from_the_job_or_from_similar_ones() -> None:
    durations = Durations()
    assert expected_end(Job("1", name="bert-1", user="ann"), durations, 0.0) is None
    durations.learn(Job("2", name="bert-2", user="ann"), 100.0)
    durations.learn(Job("3", name="bert-3", user="ann"), 300.0)
    assert expected_end(Job("1", name="bert-1", user="ann"), durations, 10.0) == ExpectedEnd(
        210.0, 310.0, "by similar jobs, without a queue"
    )
    declared = expected_end(Job("1", declared_s=50.0, begin_at=100.0), durations, 10.0)
    assert declared is not None
    assert declared[:2] == (150.0, 150.0)


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_note_appears_exactly_when_the_p90_is_late(deadline: float, p50: float, more: float) -> None:
    end = ExpectedEnd(p50, p50 + more)
    note = deadline_note(deadline, end, 0.0)
    assert (note is None) == (deadline > 0 and end.p90 <= deadline)
