"""A trace of a few jobs for each policy, its times worked out by hand from the policy's rules.

An iteration takes a second, and a start costs nothing, unless a test says otherwise.
"""

from __future__ import annotations

import pytest

from support.builders import Recording, grid, profile, record, traced
from weft.model import KeyChanged, Start, Stop

TWO, THREE, FOUR = 1.33 / 1.015, 1.5 / 1.015, 1.37 / 1.015
"""Muri's contention factors of weaves."""


def stops(recording: Recording) -> list[tuple[float, str, str]]:
    return [(fact.at, fact.job, fact.why) for fact in recording.facts if isinstance(fact, Stop)]


def test_fifo_holds_up_those_behind() -> None:
    """Two GPUs, a start costs 2 s. a: 0 + 2 + 10 = 12. b needs both: 12 + 2 + 5 = 19. c, behind b, though a GPU is
    idle all the while: 19 + 2 + 1 = 22."""
    each = profile(0.25, 0.5, 0.25, start=2)
    jobs = [
        traced("a", 0, 10, profile=each),
        traced("b", 1, 5, gpus=2, profile=each),
        traced("c", 2, 1, profile=each),
    ]
    done = record(grid(1, 2), jobs, "fifo")
    assert done.first_starts() == {"a": 0, "b": 12, "c": 19}
    assert done.ends() == {"a": 12, "b": 19, "c": 22}
    assert stops(done) == []


def test_sjf_takes_the_shortest_but_stops_nobody() -> None:
    """One GPU. a goes first, alone: 10. Then c (3 s) before b (8 s), although b came first: 13 and 21."""
    done = record(grid(1, 1), [traced("a", 0, 10), traced("b", 1, 8), traced("c", 2, 3)], "sjf")
    assert done.ends() == {"a": 10, "c": 13, "b": 21}
    assert stops(done) == []


def test_srtf_stops_the_longer() -> None:
    """One GPU, a start costs 2 s, nothing is lost. At 4 a has worked 2 s, 8 are left, b needs 3: b works 6 to 9.
    Then a again: 9 + 2 + 8 = 19. c (9 s), there since 5, has waited for both: 19 + 2 + 9 = 30."""
    each = profile(0.25, 0.5, 0.25, start=2)
    jobs = [traced("a", 0, 10, profile=each), traced("b", 4, 3, profile=each), traced("c", 5, 9, profile=each)]
    done = record(grid(1, 1), jobs, "srtf", checkpoint_interval_s=0)
    assert stops(done) == [(4, "a", "preempted")]
    assert done.ends() == {"b": 9, "a": 19, "c": 30}


def test_srtf_by_muris_rules_pays_a_start_at_every_event() -> None:
    """One GPU, a start costs 1 s. At 4 a has done 4 - 1 = 3 of 10; b (3) goes first, to 4 + 3 = 7: the stretch that
    ends in a completion is free. a is to end at 7 + 7 = 14, but at 9 c arrives and a, which stays, has
    done only 2 - 1 = 1 of its 7: 9 + 6 = 15. c: 15 + 20 = 35."""
    each = profile(0.25, 0.5, 0.25, start=1)
    jobs = [traced("a", 0, 10, profile=each), traced("b", 4, 3, profile=each), traced("c", 9, 20, profile=each)]
    done = record(grid(1, 1), jobs, "srtf", model="muri")
    assert done.ends() == {"b": 7, "a": 15, "c": 35}


def test_srsf_weighs_by_gpus() -> None:
    """Two GPUs. At 1 a has 5 s x 2 GPUs = 10 left, b 9 x 1: b stops a (by time alone a, 5 s, would have gone on) and
    works to 10. c (3 x 1) takes the other GPU at 2, to 5. a goes on at 10, when both are idle: 15."""
    jobs = [traced("a", 0, 6, gpus=2), traced("b", 1, 9), traced("c", 2, 3)]
    done = record(grid(1, 2), jobs, "srsf", checkpoint_interval_s=0)
    assert stops(done) == [(1, "a", "preempted")]
    assert done.ends() == {"c": 5, "b": 10, "a": 15}
    assert record(grid(1, 2), jobs[:2], "srtf", checkpoint_interval_s=0).ends()["a"] == 6


def test_las_gives_way_to_whoever_had_less() -> None:
    """One GPU. At 4 a had 4 s, b none: b runs. At 5 b had 1 s, c none: c runs, and ends at 10, nothing else happening.
    Then b (1 s) before a (4 s): 10 + 2 = 12, 12 + 6 = 18."""
    jobs = [traced("a", 0, 10), traced("b", 4, 3), traced("c", 5, 5)]
    done = record(grid(1, 1), jobs, "las", checkpoint_interval_s=0)
    assert stops(done) == [(4, "a", "preempted"), (5, "b", "preempted")]
    assert done.ends() == {"c": 10, "b": 12, "a": 18}


def test_tiresias_lets_a_job_run_to_its_threshold() -> None:
    """Two GPUs, jobs of two, queues end at 6 and 12 GPU-seconds: 3 and 6 s each. a runs to 3 and goes down to the
    second queue, b to 6 and goes behind a there; a runs 6 to 9 and goes down again; b does its last second: 10. a
    has 10 - 6 = 4 s left: 14."""
    jobs = [traced("a", 0, 10, gpus=2), traced("b", 1, 4, gpus=2)]
    done = record(grid(1, 2), jobs, "tiresias:thresholds=6+12", checkpoint_interval_s=0)
    assert stops(done) == [(3, "a", "preempted"), (6, "b", "preempted"), (9, "a", "preempted")]
    stepped = [(fact.at, fact.job, fact.key) for fact in done.facts if isinstance(fact, KeyChanged)]
    assert stepped == [(3, "a", 1), (6, "b", 1), (9, "a", 2)]
    assert done.ends() == {"b": 10, "a": 14}


def test_tiresias_newcomers_do_not_stop_their_equals() -> None:
    """One GPU. b, in the same queue as a, waits for a's 3 s; then it runs to its end at 3 + 2 = 5, and a again to 9."""
    done = record(
        grid(1, 1), [traced("a", 0, 7), traced("b", 2, 2)], "tiresias:thresholds=3+9", checkpoint_interval_s=0
    )
    assert stops(done) == [(3, "a", "preempted")]
    assert done.ends() == {"b": 5, "a": 9}


def test_themis_serves_whoever_got_least_of_its_share() -> None:
    """One GPU, so everybody's equal share is a whole GPU (iso = 1) and the denominator of rho stays at a job's
    iterations. Who never ran goes first: b at 4, c at 6, to 8. Then a (8 s old, 6 left, 4 had) and b (4 s old, 8
    left, 2 had), both of 10 iterations: 8 + 6/xa = 4 + 8/xb, xa + xb = 1 gives 20 and xa = 6/12, xb = 8/16. 0.5/4 <
    0.5/2: b, to 8 + 8 = 16; a to 16 + 6 = 22."""
    jobs = [traced("a", 0, 10), traced("b", 4, 10), traced("c", 6, 2)]
    done = record(grid(1, 1), jobs, "themis", model="muri")
    assert stops(done) == [(4, "a", "preempted"), (6, "b", "preempted")]
    assert done.ends() == {"c": 8, "b": 16, "a": 22}


def test_themis_measures_by_the_equal_share_of_the_cluster_at_hand() -> None:
    """Two GPUs, jobs of two: iso is 1 for one job, 1/2 for two or three. Who never ran goes first: b at 8, c at 13,
    to 18. a is 18 s old, did 8 at iso 1, 8 are left: 8 + 8/0.5 = 24. b is 10 s old, did 5 at iso 1/2, 1 is left: 10
    + 1/0.5 = 12. (18 + 8/xa)/24 = (10 + 1/xb)/12, xa + xb = 1 gives xb = sqrt(5) - 2, xa = 3 - sqrt(5). 0.764/8 >
    0.236/5: a, to 18 + 8 = 26, then b: 27."""
    jobs = [traced("a", 0, 16, gpus=2), traced("b", 8, 6, gpus=2), traced("c", 13, 5, gpus=2)]
    done = record(grid(1, 2), jobs, "themis", model="muri")
    assert done.ends() == {"c": 18, "a": 26, "b": 27}


def test_antman_guests_live_on_what_their_host_leaves() -> None:
    """One GPU; the host's stages are 2, 1, 1 (4 s), the guest's 1, 3, 1 (5 s). In the host's iterations: data 1 of 1
    + 1 is begun, k = 1, and lets min(3, 1, 2 - 1) = 1 of the GPU stage pass; 2 left of 2 + 1 is begun, k = 2; 2 is
    not less than the host's data 2; network 1 of 2 + 1, not beyond 2: k = 2. So 2 x 4 = 8 s instead of 5. The host
    ends at 10 x 4 = 40, as if alone; the guest has done 5 by then and does the other 5 alone: 40 + 25 = 65."""
    host = traced("h", 0, 10, profile=profile(2, 1, 1))
    guest = traced("g", 0, 10, profile=profile(1, 3, 1), opportunistic=True)
    for model in ("muri", "real"):
        done = record(grid(1, 1), [host, guest], "antman", model=model)
        assert done.ends() == {"h": 40, "g": 65}


def test_antman_keeps_what_it_reserved() -> None:
    """Two GPUs. b needs both, and reserves the one that a leaves: c, guaranteed too, must not have it. Its guest d may,
    at 3, alone there: 3 + 4 = 7. b runs 10 to 15, then c: 16."""
    jobs = [
        traced("a", 0, 10),
        traced("b", 1, 5, gpus=2),
        traced("c", 2, 1),
        traced("d", 3, 4, opportunistic=True),
    ]
    for model in ("muri", "real"):
        done = record(grid(1, 2), jobs, "antman", model=model)
        assert done.ends() == {"d": 7, "a": 10, "b": 15, "c": 16}
        assert done.first_starts() == {"a": 0, "d": 3, "b": 10, "c": 15}
        assert [fact.slots for fact in done.facts if isinstance(fact, Start) and fact.job == "d"] == [(("n0", (1,)),)]


def test_muri_s_weaves_two_where_one_would_fit() -> None:
    """One GPU. a's stages are 4, 1, 1, b's 1, 3, 1; a before b: max(4 + 1, 1 + 1) + max(1, 3) = 8; b before a:
    max(1 + 3, 1 + 4) + max(1, 1) = 6; both cycles in step: max(4, 3 + 1) + max(1, 1 + 1) = 6. T = 6 x 1.33/1.015, less
    than 6 + 5 in turn. b's 10 iterations end at 10 T. a, charged both starts (1 s each) at that event, has done
    (10 T - 2)/T of its 20, and does the rest alone at 6 s."""
    a, b = profile(4, 1, 1, start=1), profile(1, 3, 1, start=1)
    done = record(grid(1, 1), [traced("a", 0, 20, profile=a), traced("b", 0, 10, profile=b)], "muri-s", model="muri")
    cycle = 6 * TWO
    assert done.ends()["b"] == pytest.approx(10 * cycle)
    assert done.ends()["a"] == pytest.approx(10 * cycle + (20 - (10 * cycle - 2) / cycle) * 6)


@pytest.mark.parametrize(
    ("autopack", "a_end", "b_end"),
    [
        ("on", 10 * 4, 10 * 4 + 20 * 4),  # split: the shorter, then the longer
        ("off", 10 * 9 * TWO, 10 * 9 * TWO + 10 * 4),  # woven, then b's other 10 alone
    ],
)
def test_muri_s_does_not_weave_what_does_not_pay(autopack: str, a_end: float, b_end: float) -> None:
    """One GPU, two jobs of stages 1, 4, 1 that take 4 s alone: max(1 + 4, 1 + 1) + max(1, 4) = 9, times 1.33/1.015
    is 11.8, more than 4 + 4."""
    heavy = profile(1, 4, 1, solo=4)
    jobs = [traced("a", 0, 10, profile=heavy), traced("b", 0, 20, profile=heavy)]
    done = record(grid(1, 1), jobs, f"muri-s:autopack={autopack}", model="muri")
    assert done.ends() == {"a": pytest.approx(a_end), "b": pytest.approx(b_end)}


def test_muri_s_weaves_nobody_while_all_fit() -> None:
    done = record(grid(1, 2), [traced("a", 0, 7), traced("b", 0, 9)], "muri-s", model="muri")
    assert done.ends() == {"a": 7, "b": 9}


def test_muri_l_weaves_four_and_prefers_who_had_least() -> None:
    """One GPU, jobs of stages 2, 1, 1: slot ends 1, 2, 3, 4, 5: a cycle of four takes 4, T = 4 x 1.37/1.015; of two
    max(3, 3) + max(1, 1) = 4 too, U = 4 x 1.33/1.015. a, b, c, d are woven. At 10 e comes, who had nothing, and
    takes d's place. At 10 T a, b, c are done. d has 10 - 10/T iterations left, e 10/T: they are woven, and e ends
    10/T x U later; d does the rest, 10 - 20/T, alone at 4 s."""
    each = profile(2, 1, 1)
    jobs = [*(traced(id, 0, 10, profile=each) for id in "abcd"), traced("e", 10, 10, profile=each)]
    done = record(grid(1, 1), jobs, "muri-l", model="muri")
    four, two = 4 * FOUR, 4 * TWO
    e_end = 10 * four + 10 / four * two
    assert [done.ends()[id] for id in "abc"] == pytest.approx([10 * four] * 3)
    assert done.ends()["e"] == pytest.approx(e_end)
    assert done.ends()["d"] == pytest.approx(e_end + (10 - 20 / four) * 4)


def test_muri_l_without_blossom_weaves_neighbours() -> None:
    """The same four by priority alone: Muri's factor for such weaves is 1.30/1.015."""
    jobs = [traced(id, 0, 10, profile=profile(2, 1, 1)) for id in "abcd"]
    done = record(grid(1, 1), jobs, "muri-l:blossom=off", model="muri")
    assert list(done.ends().values()) == pytest.approx([10 * 4 * 1.30 / 1.015] * 4)


def test_muri_l_packing_limits_the_weave() -> None:
    """packing=3: a, b, c woven, T = 4 x 1.5/1.015; d waits for them."""
    jobs = [traced(id, 0, 10, profile=profile(2, 1, 1)) for id in "abcd"]
    done = record(grid(1, 1), jobs, "muri-l:packing=3", model="muri")
    assert done.ends() == {id: pytest.approx(10 * 4 * THREE) for id in "abc"} | {
        "d": pytest.approx(10 * 4 * THREE + 40)
    }
