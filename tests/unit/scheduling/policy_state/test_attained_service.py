"""The distribution that gittins learns from finished jobs."""

from __future__ import annotations

from random import Random

import pytest

from weft.model import Exited, Job, NodeLost, Start, Submitted
from weft.scheduling.policy_state.attained_service import MAX_SAMPLES, AttainedService, gittins_index


def finish(ledger: AttainedService, name: str, at: float, seconds: float) -> None:
    ledger.apply(Submitted(at, Job(name)))
    ledger.apply(Start(at, name, 1, (("n0", (0,)),)))
    ledger.apply(Exited(at + seconds, name, 1, "done"))


def test_the_last_that_finished_count_the_long_among_them_too() -> None:
    chance, ledger, services = Random(1), AttainedService(), list[float]()
    for number in range(20_000):
        services.append(chance.lognormvariate(7, 2))
        finish(ledger, str(number), 0.0, services[-1])
    assert ledger.finished == pytest.approx(sorted(services[-MAX_SAMPLES:]))
    at_99 = int(0.99 * MAX_SAMPLES)
    assert ledger.finished[at_99] == pytest.approx(sorted(services[-MAX_SAMPLES:])[at_99], rel=0.2)
    for attained in (0, 3250, 32_500, sorted(services)[int(0.99 * len(services))]):
        assert gittins_index(ledger.finished, attained) > 0


def test_a_run_that_went_with_its_node_counts() -> None:
    """Two GPUs for 10 s until the node is lost, which no fact says, then for 20: 60 GPU-seconds."""
    ledger = AttainedService()
    for fact in (
        Submitted(0, Job("a", 2)), Start(0, "a", 1, (("n0", (0, 1)),)), NodeLost(10, "n0"),
        Start(15, "a", 2, (("n1", (0, 1)),)), Exited(35, "a", 2, "done"),
    ):  # fmt: skip
        ledger.apply(fact)
    assert ledger.finished == [60]
