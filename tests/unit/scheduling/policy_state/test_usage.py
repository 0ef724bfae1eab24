"""The usage that fair-share charges to users."""

from __future__ import annotations

from math import log

import pytest

from weft.model import Exited, Fact, Job, NodeLost, Start, Submitted, Wake
from weft.scheduling.policy_state.usage import Usage

HALF_LIFE_S = 100.0


def usage(*facts: Fact) -> Usage:
    ledger = Usage(HALF_LIFE_S)
    for fact in facts:
        ledger.apply(fact)
    return ledger


def begun(job: str = "a", gpus: int = 2, at: float = 0.0, node: str = "n0") -> list[Fact]:
    return [Submitted(at, Job(job, gpus, user="ann")), Start(at, job, 1, ((node, tuple(range(gpus))),))]


def test_usage_fades_while_it_is_used() -> None:
    """Two GPUs for a half-life: half of 2 x 100/ln 2 GPU-seconds are left; held for ever it comes to all of them."""
    ledger = usage(*begun())
    assert ledger.used("ann", 100.0) == pytest.approx(100 / log(2))
    assert ledger.used("ann", 1e6) == pytest.approx(200 / log(2))
    assert ledger.used("bob", 100.0) == 0


def test_how_often_facts_come_makes_no_difference() -> None:
    seldom = usage(*begun(), Exited(400.0, "a", 1, "done"))
    often = usage(*begun(), *(Wake(float(at)) for at in range(1, 400)), Exited(400.0, "a", 1, "done"))
    crowded = [fact for at in range(1, 400) for fact in (*begun(f"x{at}", 1, at), Exited(at, f"x{at}", 1, "done"))]
    assert often.used("ann", 500.0) == pytest.approx(seldom.used("ann", 500.0))
    assert usage(*begun(), *crowded, Exited(400.0, "a", 1, "done")).used("ann", 500.0) == pytest.approx(
        seldom.used("ann", 500.0)
    )


def test_a_run_that_went_with_its_node_is_charged_no_longer() -> None:
    assert usage(*begun(), NodeLost(10.0, "n1")).held == {"ann": 2}
    lost = usage(*begun(), NodeLost(10.0, "n0"))
    assert lost.held == {"ann": 0}
    assert lost.used("ann", 10.0) == pytest.approx(20, rel=0.05)


def test_a_gang_is_charged_until_its_survivors_have_left() -> None:
    gang: list[Fact] = [Submitted(0.0, Job("a", 4, user="ann")), Start(0.0, "a", 1, (("n0", (0, 1)), ("n1", (0, 1))))]
    assert usage(*gang, NodeLost(10.0, "n0")).held == {"ann": 4}
    assert usage(*gang, NodeLost(10.0, "n0"), Exited(11.0, "a", 1, "lost")).held == {"ann": 0}
