"""Hand-computed micro-traces of backfill: one reservation for the first job that does not fit, under each policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import Rig, grid, node, record, starts, traced
from weft.model import Job
from weft.sim.traces.trace import TraceJob


def of(user: str, job: TraceJob) -> TraceJob:
    return replace(job, job=replace(job.job, user=user))


WITH_BACKFILL = ["fifo:backfill=on", "sjf:backfill=on", "priority", "fair-share", "qssf"]


@pytest.mark.parametrize("policy", WITH_BACKFILL)
def test_who_ends_before_the_reservation_passes(policy: str) -> None:
    """Two GPUs. A holds one to 1000. B needs both: reserved from 1000. C, at 20, would be gone by 120: it starts."""
    jobs = [of("a", traced("A", 0, 1000)), of("b", traced("B", 10, 100, gpus=2)), of("c", traced("C", 20, 100))]
    done = record(grid(1, 2), jobs, policy)
    assert done.first_starts() == {"A": 0, "B": 1000, "C": 20}
    assert done.ends() == {"A": 1000, "B": 1100, "C": 120}


@pytest.mark.parametrize("policy", ["fifo:backfill=on", "priority", "fair-share"])
def test_who_would_delay_the_reservation_waits(policy: str) -> None:
    """As above, but C takes 2000 s: it waits for B, which ends at 1100."""
    jobs = [of("a", traced("A", 0, 1000)), of("b", traced("B", 10, 100, gpus=2)), of("c", traced("C", 20, 2000))]
    assert record(grid(1, 2), jobs, policy).first_starts() == {"A": 0, "B": 1000, "C": 1100}


@pytest.mark.parametrize("policy", WITH_BACKFILL)
def test_only_one_reservation_where_ends_are_unknown(policy: str) -> None:
    """Nodes of 2 and 4; no end is known. a holds n0, b three GPUs of n1. The first that does not fit is promised
    n0, the second, which would need n1, nothing: c may have what is left of n1."""
    rig = Rig(policy, [node("n0", 2), node("n1", 4)])
    rig.submit(Job("a", 2, user="a"), Job("b", 3, user="b"))
    rig.settle()
    assert starts(rig.submit(Job("first", 2, user="x"))) == {}
    assert starts(rig.submit(Job("second", 4, user="y"))) == {}
    assert starts(rig.submit(Job("c", 1, user="z"))) == {"c": (("n1", (3,)),)}


def test_a_reservation_with_simple_idle_only_is_for_an_idle_node() -> None:
    """Two nodes of 2, only idle ones are used. a on n0 to 100, b on n1 to 300. wide needs both: from 300. long (1000 s)
    would hold n0 beyond that: it waits until wide has ended, at 310; short, gone by 150, has n0 at 100."""
    jobs = [traced("a", 0, 100), traced("b", 0, 300), traced("wide", 1, 10, gpus=4), traced("long", 2, 1000)]
    done = record(grid(2, 2), [*jobs, traced("short", 3, 50)], "simple:patience=0:idle_only=on")
    assert done.first_starts() == {
        "a": 0,
        "b": 0,
        "wide": 300,
        "long": pytest.approx(done.ends()["wide"]),
        "short": 100,
    }


def test_a_run_that_loads_is_expected_to_end_later() -> None:
    """A run that has been given GPUs but does not work yet ends its whole length from now."""
    rig = Rig("fifo:backfill=on", [node("n0", 2)])
    rig.submit(Job("a", declared_s=100.0))
    rig.later(50.0)
    rig.submit(Job("wide", 2, declared_s=10.0))
    assert starts(rig.submit(Job("late", declared_s=101.0))) == {}
    assert starts(rig.submit(Job("soon", declared_s=100.0))) == {"soon": (("n0", (1,)),)}


@pytest.mark.parametrize("policy", ["fifo:backfill=on", "priority"])
def test_however_many_come_at_once_all_that_fit_start(policy: str) -> None:
    """1,000 on 1,000 GPUs; then two that do not fit, and 600 of which a GPU is left for one only."""
    rig = Rig(policy, grid(125, 8))
    assert len(starts(rig.submit(*(Job(f"j{n}", 1) for n in range(999))))) == 999
    behind = [Job(f"b{n}", 1) for n in range(600)]
    assert list(starts(rig.submit(Job("wide", 2), Job("wider", 4), *behind))) == ["b0"]
