"""Hand-computed micro-traces: simple, balanced, priority, gittins, fair-share, qssf, edf, and backfill."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.builders import Rig, grid, record, starts, traced
from weft.model import Job, Start
from weft.scheduling.policy_state.attained_service import gittins_index
from weft.sim.traces.trace import TraceJob


def named(job: TraceJob, **rest: object) -> TraceJob:
    return replace(job, job=replace(job.job, **rest))  # type: ignore[arg-type]


def test_fifo_backfill_lets_pass_who_does_not_delay_the_first() -> None:
    """4 GPUs. a takes 3 to 100. b wants 4: reserved from 100. c (1 GPU, 50 s) ends before: passes at 2. d (1 GPU,
    200 s) would delay b: it waits for b to end at 110. Without backfill c waits behind b too."""
    jobs = [traced("a", 0, 100, gpus=3), traced("b", 1, 10, gpus=4), traced("c", 2, 50), traced("d", 3, 200)]
    assert record(grid(1, 4), jobs, "fifo:backfill=on").first_starts() == {"a": 0, "b": 100, "c": 2, "d": 110}
    assert record(grid(1, 4), jobs, "fifo").first_starts() == {"a": 0, "b": 100, "c": 110, "d": 110}


def test_backfill_uses_gpus_that_the_reservation_does_not_need() -> None:
    """Two nodes of 2. a holds n0 to 100, b one GPU of n1 to 500. c wants 2: soonest on n0 at 100. d (1 GPU, 1000 s)
    would delay c on n0, but n1 has a GPU that c does not need: it starts at once."""
    jobs = [traced("a", 0, 100, gpus=2), traced("b", 0, 500), traced("c", 1, 10, gpus=2), traced("d", 2, 1000)]
    done = record(grid(2, 2), jobs, "fifo:backfill=on")
    assert done.first_starts() == {"a": 0, "b": 0, "c": 100, "d": 2}


def test_priority_goes_by_priority_then_by_arrival() -> None:
    """One GPU, a runs to 10. Then c (priority 5), then b and d in order of arrival."""
    jobs = [traced("a", 0, 10), traced("b", 1, 10), traced("c", 2, 10, priority=5), traced("d", 3, 10)]
    assert record(grid(1, 1), jobs, "priority").first_starts() == {"a": 0, "c": 10, "b": 20, "d": 30}


def test_priority_ages() -> None:
    """A step of priority per 100 s: b has waited 150 s longer than c, which is one step better: b first."""
    jobs = [traced("a", 0, 200), traced("b", 1, 10), traced("c", 151, 10, priority=1)]
    assert record(grid(1, 1), jobs, "priority:ageing_s=100").first_starts() == {"a": 0, "b": 200, "c": 210}
    assert record(grid(1, 1), jobs, "priority").first_starts() == {"a": 0, "c": 200, "b": 210}


def test_priority_preempts_where_asked_to() -> None:
    """b stops a at 5; a, which keeps all under --model muri, goes on at 15 and ends at 15 + 5."""
    jobs = [traced("a", 0, 10), traced("b", 5, 10, priority=1)]
    assert record(grid(1, 1), jobs, "priority:preempts=on", model="muri").ends() == {"b": 15, "a": 20}


def test_simple_fills_up_a_node_before_it_takes_an_idle_one() -> None:
    """Two nodes of 4 equal GPUs: a on n0; b and c there too, where fewer GPUs are left over; the gang d on n1."""
    jobs = [traced(name, at, 100, gpus=4 if name == "d" else 1) for at, name in enumerate("abcd")]
    done = record(grid(2, 4), jobs, "simple")
    nodes = {f.job: f.slots[0][0] for f in done.facts if isinstance(f, Start)}
    assert nodes == {"a": "n0", "b": "n0", "c": "n0", "d": "n1"}
    assert done.first_starts() == {"a": 0, "b": 1, "c": 2, "d": 3}


def test_simple_idle_only_starts_on_idle_nodes_only() -> None:
    """Two nodes of 4: a on n0, b on n1 though n0 has room; c waits until a node is idle, at 10."""
    jobs = [traced(name, at, 10 + at, gpus=1) for at, name in enumerate("abc")]
    done = record(grid(2, 4), jobs, "simple:idle_only=on")
    assert done.first_starts() == {"a": 0, "b": 1, "c": 10}


def test_balanced_goes_where_there_is_least_to_do() -> None:
    """(tasks - free)/4: a to n0 (both -1). b: n0 is (1-3)/4, n1 -1: n1. c: equal, n0. d: n0 (2-2)/4, n1 -0.5: n1."""
    jobs = [traced(name, at, 100, gpus=1) for at, name in enumerate("abcd")]
    done = record(grid(2, 4), jobs, "balanced")
    nodes = {f.job: f.slots[0][0] for f in done.facts if isinstance(f, Start)}
    assert nodes == {"a": "n0", "b": "n1", "c": "n0", "d": "n1"}


def test_fair_share_evens_out_users_by_weight() -> None:
    """One GPU, jobs of 10 s, ann's four before bob's two. ann first (0). At 10 ann has used 10: bob. At 20 both 10:
    ann, who came first. At 30 bob. Then ann has the rest. With weight 4, ann's 30 s at 40 count 7.5 against bob's
    10."""
    jobs = [named(traced(f"a{n}", 0, 10), user="ann") for n in range(4)]
    jobs += [named(traced(f"b{n}", 0, 10), user="bob") for n in range(2)]
    done = record(grid(1, 1), jobs, "fair-share:half_life_s=1000000000")
    assert done.first_starts() == {"a0": 0, "b0": 10, "a1": 20, "b1": 30, "a2": 40, "a3": 50}
    heavy = record(grid(1, 1), jobs, "fair-share:half_life_s=1000000000:weights=ann=4+bob=1")
    assert heavy.first_starts() == {"a0": 0, "b0": 10, "a1": 20, "a2": 30, "a3": 40, "b1": 50}


def test_fair_share_forgets() -> None:
    """ann used 100 s long ago: with a half-life of 10 s, 900 s later it is as nothing, and bob's 20 s are what
    counts."""
    jobs = [named(traced("a0", 0, 100), user="ann"), named(traced("b0", 1000, 20), user="bob")]
    jobs += [named(traced("b1", 1001, 5), user="bob"), named(traced("a1", 1002, 5), user="ann")]
    starts = record(grid(1, 1), jobs, "fair-share:half_life_s=10").first_starts()
    assert (starts["a1"], starts["b1"]) == (1020, 1025)
    assert record(grid(1, 1), jobs, "fair-share").first_starts()["b1"] == 1020


def test_qssf_predicts_from_the_users_own_jobs_of_that_name() -> None:
    """ann's bert-1 took 50 s and resnet-1 5 s. bert-2 and resnet-2 wait behind x: resnet-2 first, whatever they
    declare."""
    known = [
        named(traced("k1", 0, 50), user="ann", name="bert-1"),
        named(traced("k2", 50, 5), user="ann", name="resnet-1"),
    ]
    jobs = [
        *known,
        named(traced("x", 60, 40), user="bob", name="x"),
        named(traced("b", 61, 50), user="ann", name="bert-2", declared_s=1.0),
        named(traced("r", 62, 5), user="ann", name="resnet-2", declared_s=900.0),
    ]
    starts = record(grid(1, 1), jobs, "qssf").first_starts()
    assert (starts["x"], starts["r"], starts["b"]) == (60, 100, 105)


def test_gittins_index_by_hand() -> None:
    """Services 10 and 100, nothing attained: d = 10 gives (1/2)/10, d = 100 gives 1/55: the first is larger. Beyond
    10 only 100 is left: 1/(100 - 10)."""
    assert gittins_index([10.0, 100.0], 0.0) == pytest.approx(0.05)
    assert gittins_index([10.0, 100.0], 10.0) == pytest.approx(1 / 90)
    assert gittins_index([10.0, 100.0], 100.0) == 0.0


def test_gittins_stops_who_is_likely_to_go_on_for_long() -> None:
    """One GPU, services log-normal with median 10 and mean 100: a job that has had 10 s is likely to need far more, so
    the newcomer takes over at 20. Looked at in steps of 10 s."""
    jobs = [traced("a", 0, 100), traced("b", 20, 5)]
    done = record(grid(1, 1), jobs, "gittins:quantum=10:median=10:mean=100", model="muri")
    assert done.ends() == {"b": 25, "a": 105}


def test_gittins_learns_who_goes_on_for_long() -> None:
    """One GPU. Of 40 jobs every other takes 10 s, the others 1000. A job that has had 20 s, two quanta, is
    then known to need 980 more: x, which has, is stopped by y: half of those like it are done after 10 s."""
    past = [traced(f"p{n}", 2000.0 * n, 10 if n % 2 else 1000) for n in range(40)]
    jobs = [*past, traced("x", 100_000, 500), traced("y", 100_020, 10)]
    done = record(grid(1, 1), jobs, "gittins:quantum=10", model="muri")
    assert (done.ends()["y"], done.ends()["x"]) == (100_030, 100_510)


def test_losing_a_node_costs_the_user_no_more_than_it_used() -> None:
    """Two nodes of one GPU. ann's a0 goes with its node at 50, having used 50 s, and waits. bob runs b0 to 200. At
    200 both have something waiting: ann, who has used less and holds nothing, goes first."""
    rig = Rig("fair-share:half_life_s=1000000000", grid(2, 1))
    rig.submit(Job("a0", user="ann"), Job("b0", user="bob"))
    rig.settle()
    rig.later(50)
    rig.lose(rig.job("a0").slots[0][0])
    rig.later(150)
    rig.submit(Job("b1", user="bob"))
    assert starts(rig.exit("b0")) == {"a0": rig.job("a0").slots}


@pytest.mark.parametrize(("policy", "expected"), [("qssf", 60), ("gittins", 60)])
def test_what_was_lost_with_a_node_counts_as_service(policy: str, expected: float) -> None:
    """A GPU for 50 s until its node goes, then for 10 s until it is done: 60 s."""
    rig = Rig(policy, grid(2, 1))
    rig.submit(Job("a", user="ann"))
    rig.settle()
    rig.later(50)
    rig.lose(rig.job("a").slots[0][0])
    rig.later(10)
    rig.exit("a")
    memo = rig.scheduler.memo
    assert (memo.finished if policy == "gittins" else [memo.durations.nearest(Job("b")).mean_s]) == [expected]


def test_edf_runs_by_deadline() -> None:
    """One GPU. a (100 s) is due at 3 x 100 = 300. b (10 s), there at 20, is due at 20 + 3 x 10 = 50: it takes the GPU
    from 20 to 30, and a ends at 110. c (10 s), there at 40, names 500: a keeps its GPU, and c ends at 120. d (5 s),
    there at 50, names 60: it runs from 50 to 55, so a ends at 115 and c at 125."""
    a, b = traced("a", 0, 100), traced("b", 20, 10)
    c, d = named(traced("c", 40, 10), deadline_at=500.0), named(traced("d", 50, 5), deadline_at=60.0)
    assert record(grid(1, 1), [a, b, c], "edf", checkpoint_interval_s=0).ends() == {"b": 30, "a": 110, "c": 120}
    found = record(grid(1, 1), [a, b, c, d], "edf", checkpoint_interval_s=0).ends()
    assert found == {"b": 30, "d": 55, "a": 115, "c": 125}


def test_edf_puts_jobs_of_unknown_length_last_and_has_a_slack() -> None:
    """a (100 s) runs. At 90 b (40 s) comes: due at 90 + 40 = 130 against 100, it waits; at slack 3, 210 against 300."""
    jobs = [traced("a", 0, 100), traced("b", 90, 40)]
    assert record(grid(1, 1), jobs, "edf:slack=1", checkpoint_interval_s=0).ends() == {"a": 100, "b": 140}
    assert record(grid(1, 1), jobs, "edf:slack=3", checkpoint_interval_s=0).ends() == {"b": 130, "a": 140}
    rig = Rig("edf", grid(1, 1))
    rig.submit(Job("unknown"), Job("due", deadline_at=1e6))
    assert list(rig.active) == ["due"]
