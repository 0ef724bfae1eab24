"""Backfill without declared times: jobs pass a blocked first job until its patience ends."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from support.builders import Rig, grid, record, traced
from weft.model import Blocked, Cordoned, Gpu, Job, Node, Paused, PerRank, Unblocked, Where
from weft.scheduling.core.explain import explain
from weft.scheduling.core.queue.protection import Protection
from weft.scheduling.core.reasons import WaitReasons
from weft.scheduling.core.state.apply.snapshots import snapshot


def why(rig: Rig, job: str) -> list[tuple[str, str]]:
    return [(each.code, each.text) for each in explain(rig.scheduler, job, at=rig.now).reasons]


def codes(rig: Rig, *jobs: str) -> list[str]:
    reasons = WaitReasons(rig.scheduler, rig.now)
    return [reasons.code(rig.job(job), first=job == jobs[0]) for job in jobs]


def blocked_gang(policy: str) -> Rig:
    """Two nodes of two GPUs: a holds one GPU, and the gang b needs all four. No job declares a time."""
    rig = Rig(policy, grid(2, 2), placement="balanced")
    rig.submit(Job("a"))
    rig.settle()
    rig.submit(Job("b", 4, name="gang"))
    return rig


@pytest.mark.parametrize("policy", ["balanced", "simple"])
def test_jobs_without_times_pass_a_blocked_gang_until_its_patience_ends(policy: str) -> None:
    rig = blocked_gang(policy)
    rig.later(599)
    rig.submit(Job("c"))
    rig.settle()
    assert set(rig.active) == {"a", "c"}
    rig.later(1)
    rig.submit(Job("d"))
    assert set(rig.active) == {"a", "c"}
    rig.exit("c")
    assert set(rig.active) == {"a"}  # what becomes free is kept for the gang
    rig.exit("a")
    assert set(rig.active) == {"b"}


def test_patience_is_an_option_and_backfill_may_be_off() -> None:
    short, strict = blocked_gang("balanced:patience=60"), blocked_gang("balanced:backfill=off")
    short.later(61)
    for rig in (short, strict):
        rig.submit(Job("c"))
        assert set(rig.active) == {"a"}
    with pytest.raises(Exception, match="patience must not be below 0"):
        Rig("balanced:patience=-1", grid(1, 1))


def test_after_the_patience_jobs_that_end_in_time_still_pass() -> None:
    """a ends at 1000 as declared: c (100 s) ends before, d (900 s) does not."""
    rig = Rig("balanced", grid(2, 2), placement="balanced")
    rig.submit(Job("a", declared_s=1000.0))
    rig.settle()
    rig.submit(Job("b", 4))
    rig.later(700)
    rig.submit(Job("d", declared_s=900.0), Job("c", declared_s=100.0))
    assert set(rig.active) == {"a", "c"}


def test_a_job_that_no_node_can_hold_gets_no_reservation() -> None:
    rig = Rig("balanced", grid(2, 2), placement="balanced")
    rig.submit(Job("never", 9), Job("a"))
    rig.settle()
    rig.submit(Job("b", 4))
    rig.later(601)
    rig.submit(Job("c"))
    assert set(rig.active) == {"a"}
    assert codes(rig, "b", "c", "never") == ["Resources", "Reserved", "ReqNodeNotAvail"]


def test_why_names_the_reservation_and_its_job() -> None:
    rig = blocked_gang("balanced")
    rig.later(480)
    assert why(rig, "b") == [
        ("Resources", "needs 4 GPUs on several nodes; 3 are free in all; jobs that fit may pass it for another 2 min")
    ]
    rig.later(240)
    rig.submit(Job("c"))
    assert why(rig, "b")[0][1].endswith("; GPUs that become free on n0, n1 are kept for it")
    assert why(rig, "c") == [
        (
            "Reserved",
            "the free GPUs on n0, n1 are reserved for job b (gang): 4 GPUs, waiting for 12 min; when it starts is"
            " unknown, because runs ahead of it have no known end",
        )
    ]
    assert codes(rig, "b", "c") == ["Resources", "Reserved"]


@pytest.mark.parametrize("policy", ["balanced:patience=40", "simple:patience=40", "priority", "fifo:backfill=on"])
@pytest.mark.parametrize("seed", range(4))
def test_passes_over_arrivals_alone_decide_as_passes_over_all_jobs(policy: str, seed: int) -> None:
    """An order that sorts all jobs at each step tracks no arrivals, so its planner tries all jobs at every event."""
    draw = random.Random(seed)
    jobs = [
        traced(f"j{number}", at, draw.choice((5, 30, 200)), gpus=draw.choice((1, 1, 2, 4, 8)), priority=number % 3)
        for number, at in enumerate(sorted(draw.randint(0, 900) for _ in range(150)))
    ]
    jobs = [each if draw.random() < 0.7 else replace(each, job=replace(each.job, declared_s=None)) for each in jobs]
    kept, resorted = (record(grid(3, 4), jobs, policy, resort=resort) for resort in (False, True))
    assert kept.facts == resorted.facts


def test_a_paused_job_that_fits_is_only_paused() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.tell(Paused(0.0, "Paused", ""))
    rig.submit(Job("a"))
    assert why(rig, "a") == [("Paused", "no new jobs start: resume to continue")]


def test_a_job_that_runs_alone_after_it_ran_out_of_memory_says_so() -> None:
    rig = Rig("fifo", grid(1, 1))
    rig.submit(Job("a"))
    rig.settle()
    rig.submit(Job("b"))
    rig.job("b").exclusive = True
    assert "needs 1 GPU on one node for itself, because it ran out of GPU memory before" in why(rig, "b")[0][1]


def test_a_run_that_may_not_be_preempted_again_is_named() -> None:
    rig = Rig("priority:preempts=on", grid(1, 1), protection=Protection(max_preemptions=1))
    rig.submit(Job("low"))
    rig.settle()
    rig.submit(Job("high", priority=1))
    rig.settle()
    rig.exit("high")
    rig.settle()
    rig.submit(Job("next", priority=1))
    assert why(rig, "next")[0][1].endswith("; low may not be preempted again (--max-preemptions 1)")


def finish(rig: Rig, job: Job, seconds: float) -> None:
    rig.submit(job)
    rig.settle()
    rig.later(seconds)
    rig.exit(job.id)


def test_ends_and_lengths_are_estimated_from_the_users_similar_jobs() -> None:
    """ann's fit-1 took 1000 s and probe-1 100 s. fit-2 runs, the gang waits: probe-2 passes, fit-3 does not, and bob's
    probe, of which nothing is known, does not either."""
    rig = Rig("balanced:patience=0", grid(2, 2), placement="balanced")
    finish(rig, Job("f1", user="ann", name="fit-1"), 1000)
    finish(rig, Job("p1", user="ann", name="probe-1"), 100)
    rig.submit(Job("f2", user="ann", name="fit-2"))
    rig.settle()
    rig.later(400)
    rig.submit(Job("gang", 4))
    found = explain(rig.scheduler, "gang", at=rig.now).unblock
    assert found is not None
    assert found.in_s == 600
    rig.submit(Job("b", user="bob", name="probe-1"))
    rig.submit(Job("f3", user="ann", name="fit-3"), Job("p2", user="ann", name="probe-2"))
    assert set(rig.active) == {"f2", "p2"}
    rig.later(601)  # fit-2 takes longer than expected: its end is unknown again
    found = explain(rig.scheduler, "gang", at=rig.now).unblock
    assert found is not None
    assert found.in_s is None


def test_estimates_survive_a_replay_and_a_snapshot() -> None:
    rig = Rig("balanced", grid(1, 2))
    finish(rig, Job("a", user="ann", name="fit-1"), 50)
    rig.submit(Job("b", user="ann", name="fit-2"))
    rig.settle()
    replayed, restored = rig.fresh(), rig.fresh()
    replayed.replay(rig.facts)
    restored.replay(snapshot(rig.state))
    for scheduler in (rig.scheduler, replayed, restored):
        assert scheduler.state.jobs["b"].ends_in(rig.now) == 50
        assert scheduler.state.durations.similar(Job("c", 8, user="ann", name="Fit_3")) == (50, 50, 1)
        assert scheduler.state.durations.similar(Job("c", user="bob", name="fit-3")) is None


def test_a_declared_time_counts_more_than_history() -> None:
    rig = Rig("balanced", grid(1, 2))
    finish(rig, Job("a", user="ann", name="fit-1"), 50)
    rig.submit(Job("b", user="ann", name="fit-2", declared_s=7.0))
    rig.settle()
    assert rig.job("b").ends_in(rig.now) == 7
    rig.progress("b", 3.0)
    assert rig.job("b").ends_in(rig.now) == 3


@pytest.mark.parametrize("why", ["ForeignProcess", "DirtyGpu", "Drained"])
def test_the_code_of_a_job_names_the_block_without_which_it_would_fit(why: str) -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.tell(Blocked(0.0, "n0", 0, why, None, "pid 7"))
    rig.submit(Job("a", 2), Job("b", 3))
    assert codes(rig, "a", "b") == [why, "ReqNodeNotAvail"]
    rig.tell(Unblocked(0.0, "n0", 0, why))
    rig.settle()
    rig.tell(Blocked(0.0, "n0", 0, why, None, "pid 7"))
    rig.submit(Job("c"))
    assert codes(rig, "c") == ["Resources"], "a run holds both GPUs, so the block is not why"


def test_a_drained_gpu_is_named_before_memory_that_another_process_takes_of_it() -> None:
    rig = Rig("fifo", grid(1, 2))
    rig.tell(Blocked(0.0, "n0", 1, "ForeignProcess", 60, "pid 7"), Blocked(0.0, "n0", 1, "Drained"))
    rig.submit(Job("a", where=Where(pinned=(("n0", (1,)),))))
    assert codes(rig, "a") == ["Drained"]


def test_the_code_of_a_job_names_the_cordon_of_its_node() -> None:
    rig = Rig("fifo", [Node("a", (Gpu("A100"),)), Node("v", (Gpu("V100"),))])
    rig.tell(Cordoned(0.0, "a", "ReqNodeNotAvail"))
    rig.submit(Job("j", where=Where(gpu_model="A100")), Job("k", 1, memory_mb=PerRank(900_000)))
    assert codes(rig, "j", "k") == ["ReqNodeNotAvail", "GpuMemory"]


def test_a_job_that_fits_waits_for_the_next_round() -> None:
    rig = Rig("fifo", grid(1, 4), interval_s=60.0)
    rig.submit(Job("a"))
    rig.later(10)
    rig.submit(Job("b"), Job("c"))
    assert codes(rig, "b", "c") == ["NextRound", "NextRound"]
    assert why(rig, "b")[-1] == ("NextRound", "the scheduler plans next in 50 s")
