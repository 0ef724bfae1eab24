"""Requests of a service, batch by batch: latencies by hand, cold starts, draining, bursts, and bad input."""

from __future__ import annotations

import os
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import InputError
from weft.inputs.quantities import parse_share
from weft.model import Share
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import ScaleBounds
from weft.sim.serving.arrivals import Arrivals, from_rps, gamma, poisson, read_llm_trace, read_rps
from weft.sim.serving.grid import LatencyGrid, example_grid, read_grid
from weft.sim.serving.pool import ReplicaPool
from weft.sim.serving.run import serve
from weft.sim.serving.service import SimulatedService

REFERENCE = (
    Path(os.environ.get("WEFT_REFERENCE", Path(__file__).resolve().parents[4] / "shared" / "reference")) / "dilu"
)
GRID = LatencyGrid({(1, 0.5): 1.0, (2, 0.5): 1.5, (4, 0.5): 2.0, (1, 1.0): 0.5, (2, 1.0): 0.75, (4, 1.0): 1.0})


def arrivals(*times_s: float, horizon_s: float = 100.0) -> Arrivals:
    return Arrivals(array("d", times_s), horizon_s)


def service(**options: object) -> SimulatedService:
    usual: dict[str, object] = {"grid": GRID, "share": Share(0.5, 1.0), "slots": 4, "slo_s": 2.0, "throughput": 1.0}
    return SimulatedService(**(usual | options))  # type: ignore[arg-type]


def latencies(pool: ReplicaPool, until_s: float = 1000.0) -> list[float]:
    pool.advance(until_s)
    return [round(each, 9) for each in pool.latencies_s]


def test_a_replica_takes_what_waits_as_one_batch() -> None:
    """0 s: one request, 1 s. Three come meanwhile: a batch of 3 takes 1.75 s, to 2.75 s. Then one alone."""
    pool = ReplicaPool(service(), arrivals(0.0, 0.2, 0.5, 0.9, 2.0))
    pool.add(0.0)
    assert latencies(pool) == [1.0, 2.55, 2.25, 1.85, 1.75]
    assert (pool.finished, pool.completed) == (True, 5)


def test_a_replica_at_its_limit_is_faster() -> None:
    pool = ReplicaPool(service(burst=True), arrivals(0.0))
    pool.add(0.0)
    assert latencies(pool) == [0.5]


def test_requests_wait_for_a_cold_start() -> None:
    pool = ReplicaPool(service(), arrivals(1.0, 2.0))
    pool.add(10.0)
    assert latencies(pool) == [10.5, 9.5]


def test_a_draining_replica_ends_after_its_batch() -> None:
    pool = ReplicaPool(service(), arrivals(1.0, 1.5))
    one, two = pool.add(0.0), pool.add(0.0)
    pool.advance(1.2)
    assert (pool.remove(), two.ended_s) == (two, 1.2)  # it is idle: it ends at once
    pool.advance(1.3)
    one.draining = True
    three = pool.add(5.0)
    pool.advance(20.0)
    assert (one.ended_s, three.active) == (2.0, 0)
    assert [round(each, 9) for each in pool.latencies_s] == [1.0, 4.5]


def test_the_load_of_a_second() -> None:
    pool = ReplicaPool(service(), arrivals(0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95))
    pool.add(0.0)
    pool.advance(0.999)
    load = pool.load()
    assert (load.replicas, load.ready, load.queued, round(load.arrivals)) == (1, 1, 6, 7)
    assert load.in_flight == pytest.approx(1.0)


def test_streams_hold_a_slot_for_their_tokens() -> None:
    """Two slots, 1 s per token: the third request waits until the shorter stream ends."""
    work = Arrivals(array("d", [0.0, 0.0, 1.0]), 10.0, array("l", [5, 3, 1]))
    pool = ReplicaPool(service(grid=None, slots=2, token_s=1.0), work)
    pool.add(0.0)
    assert latencies(pool) == [0.0, 0.0, 2.0]
    assert pool.completed == 3


@settings(max_examples=60)
@given(
    gaps=st.lists(st.floats(0.0, 3.0), min_size=1, max_size=60),
    orders=st.lists(st.tuples(st.floats(0.0, 60.0), st.booleans()), max_size=12),
    streams=st.booleans(),
)
def test_every_request_is_answered_once_and_counts_stay_true(
    gaps: list[float], orders: list[tuple[float, bool]], streams: bool
) -> None:
    times, at = array("d"), 0.0
    for gap in gaps:
        at += gap
        times.append(at)
    tokens = array("l", [1 + n % 4 for n in range(len(times))])
    pool = ReplicaPool(service(grid=None if streams else GRID, token_s=0.5), Arrivals(times, at, tokens))
    pool.add(0.0)
    for when, more in sorted(orders):
        pool.advance(max(when, pool.now_s))
        if more:
            pool.add(pool.now_s + 2.0)
        elif len(pool.counted()) > 1:
            pool.remove()
        assert 0 <= pool.queued <= len(times)
        assert pool.load().in_flight >= 0
    while not pool.finished:
        pool.advance(pool.now_s + 100.0)
    assert pool.completed == len(times) == len(pool.latencies_s)
    assert min(pool.latencies_s) >= 0
    assert all(replica.active == 0 for replica in pool.replicas)
    assert all(replica.ended_s >= replica.ordered_s for replica in pool.replicas)


def test_replica_seconds_count_from_order_to_end() -> None:
    """fixed: 2 from the first second on. One is there at 0, the other is ordered at 1 s: 100 + 99."""
    figures = serve(service(), registry.load_scaler("fixed:replicas=2"), arrivals(0.0, 50.0))
    assert (figures.replica_s, figures.cold_starts, figures.scale_actions, figures.requests) == (199.0, 1, 1, 2)
    assert (figures.p50_s, figures.p99_s, figures.late) == (1.0, 1.0, 0)


def test_a_service_at_zero_answers_after_a_cold_start() -> None:
    zero = service(bounds=ScaleBounds(0, 5, 20.0), cold_start_s=3.0, slo_s=10.0)
    figures = serve(zero, registry.load_scaler("deficit"), arrivals(10.5, 90.0, horizon_s=120.0))
    assert figures.requests == 2
    assert figures.cold_starts == 2
    assert 3.0 < figures.p99_s < 6.0
    assert figures.replica_s < 70


def test_equal_seeds_give_equal_figures() -> None:
    rates = [5.0, 20.0, 0.0, 80.0] * 10
    one, other = (serve(service(), registry.load_scaler("deficit"), from_rps(rates, 1.0, 3)) for _ in range(2))
    assert one == other
    assert one.requests == len(from_rps(rates, 1.0, 3).times_s)


def test_arrivals_have_the_rate_and_the_variation() -> None:
    work = gamma(50.0, 2.0, 400.0, seed=2)
    gaps = [after - before for before, after in zip(work.times_s, work.times_s[1:], strict=False)]
    mean = sum(gaps) / len(gaps)
    variation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 / mean
    assert mean == pytest.approx(1 / 50, rel=0.1)
    assert variation == pytest.approx(2.0, rel=0.1)
    assert len(poisson(50.0, 400.0, 1).times_s) == pytest.approx(20_000, rel=0.05)


def test_a_grid_is_interpolated() -> None:
    assert GRID.seconds(3, 0.5) == 1.75
    assert GRID.seconds(1, 0.75) == 0.75
    assert GRID.seconds(9, 0.2) == 2.0  # the nearest point
    assert GRID.capacity(4, 0.5) == 2.0
    assert example_grid().capacity(8, 0.3) == pytest.approx(124, rel=0.01)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,10,0.1\n2,10\n", ":2: bad line"),
        ("1,10,0.1\n2,10,fast\n", ":2: bad line"),
        ("1,10,0.1\n1.5,10,0.1\n", ":2: bad line"),
        ("1,10,0.1\n2,110,0.1\n", ":2: bad line"),
        ("1,10,0.1\n1,10,0.1\n", ":2: batch 1 at 10 % twice"),
        ("1,10,0.1\n2,20,0.1\n", ": a latency grid with missing points"),
        ("\n", ": an empty latency grid"),
    ],
)
def test_a_bad_grid_is_named_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "grid.csv").write_text(text)
    with pytest.raises(InputError) as found:
        read_grid(str(tmp_path / "grid.csv"))
    assert f"grid.csv{words}" in str(found.value)


def test_bad_rates_and_traces_are_named_with_their_line(tmp_path: Path) -> None:
    (tmp_path / "rps.txt").write_text("1\n-2\n")
    with pytest.raises(InputError, match=r"rps.txt:2: bad rate '-2'"):
        read_rps(str(tmp_path / "rps.txt"))
    (tmp_path / "llm.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n1,5,5\n0.5,5,5\n")
    with pytest.raises(InputError, match=r"llm.csv:3: bad TIMESTAMP"):
        read_llm_trace(str(tmp_path / "llm.csv"))
    (tmp_path / "llm.csv").write_text("TIMESTAMP,Tokens\n1,5\n")
    with pytest.raises(InputError, match=r"llm.csv:1: no column ContextTokens"):
        read_llm_trace(str(tmp_path / "llm.csv"))


def test_shares_and_slos_that_cannot_be_are_refused() -> None:
    for text, words in (("0.6/0.3", "request 0.6 is over the limit 0.3"), ("a", "not a share"), ("1/2", "not a share")):
        with pytest.raises(InputError, match=words):
            parse_share(text)
    with pytest.raises(InputError, match="no batch meets 100 ms: one request takes 500"):
        service(slo_s=0.1)
