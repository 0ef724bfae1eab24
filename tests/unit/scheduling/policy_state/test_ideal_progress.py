"""Themis's memory: jobs that never report have worked at their rate."""

from __future__ import annotations

import pytest

from support.builders import grid
from weft.model import Exited, Job, NodeJoined, Progressed, Start, Started, Submitted
from weft.scheduling.policy_state.ideal_progress import IdealProgress


def after(*facts: Started | Progressed | Exited) -> IdealProgress:
    memory = IdealProgress()
    for fact in (
        NodeJoined(0.0, grid(1, 8)[0]), Submitted(0.0, Job("a", gpus=8, declared_s=100.0)),
        Start(1.0, "a", 1, (("n0", tuple(range(8))),)), *facts,
    ):  # fmt: skip
        memory.apply(fact)
    return memory


@pytest.mark.parametrize("reported", [60.0, None])
def test_a_stopped_run_has_done_its_work_with_or_without_a_report(reported: float | None) -> None:
    assert after(Started(2.0, "a", 1), Exited(42.0, "a", 1, "stopped", reported)).done["a"] == pytest.approx(40.0)


def test_work_counts_at_the_rate_of_the_last_report() -> None:
    memory = after(
        Started(2.0, "a", 1, 0.5), Progressed(12.0, "a", 1, None, 1.0), Exited(22.0, "a", 1, "stopped", None)
    )
    assert memory.done["a"] == pytest.approx(5.0 + 10.0)


def test_a_run_that_never_worked_has_done_nothing_and_none_does_more_than_all() -> None:
    assert after(Exited(42.0, "a", 1, "stopped", None)).done["a"] == 0.0
    assert after(Started(2.0, "a", 1), Exited(900.0, "a", 1, "stopped", None)).done["a"] == pytest.approx(100.0)
