"""Stored profiles: jobs find them by key, model or command; the newest counts; snapshots keep them."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from support.builders import grid
from weft.errors import InputError
from weft.model import (
    Exited,
    Fact,
    Job,
    NodeJoined,
    Profile,
    Profiled,
    Rewoven,
    Start,
    Started,
    Submitted,
    Unwoven,
    Where,
)
from weft.model.profiles import COMMAND_KEY, key_of
from weft.scheduling.core.admission import check_job
from weft.scheduling.core.state import profiles
from weft.scheduling.core.state.apply.snapshots import snapshot
from weft.scheduling.core.state.state import State

BERT = Profile("bert", 0.3, 0.1, 0.1, 0.1)
NEWER = replace(BERT, gpu_s=0.2, memory_mb=9000)


def state_after(*facts: Fact) -> State:
    state = State()
    for fact in (*(NodeJoined(0, node) for node in grid(1, 2)), *facts):
        assert state.apply(fact)
    return state


def measured(
    key: str, profile: Profile = BERT, *, gpus: int = 1, gpu_model: str = "", at: float = 1.0, user: str = ""
) -> Profiled:
    return Profiled(at, key, gpus, gpu_model, profile, "run", user)


@pytest.mark.parametrize(
    ("job", "key"),
    [
        (Job("1", profile_key="mine", params=(("model", "bert"),)), "mine"),
        (Job("1", params=(("lr", "1"), ("model", "bert"))), "bert"),
    ],
)
def test_a_job_finds_its_profile_by_key_or_model(job: Job, key: str) -> None:
    assert key_of(job) == key
    assert state_after(measured(key)).profiles.of(job) == BERT
    assert state_after(measured("other")).profiles.of(job) is None


def test_without_a_key_the_command_and_params_count() -> None:
    job = Job("1", command=("python", "train.py"), params=(("lr", "1"),))
    key = key_of(job)
    assert key.startswith(COMMAND_KEY)
    assert key == key_of(replace(job, id="2", user="ann"))
    assert key != key_of(replace(job, params=(("lr", "2"),)))
    assert state_after(measured(key)).profiles.of(job) == BERT


def test_a_profile_of_the_job_itself_wins() -> None:
    job = Job("1", profile_key="bert", profile=NEWER)
    assert state_after(measured("bert")).profiles.of(job) == NEWER


def test_the_newest_counts_and_the_deviation_is_kept() -> None:
    state = state_after(measured("bert"), measured("bert", NEWER, at=2.0))
    assert state.profiles.of(Job("1", profile_key="bert")) == NEWER
    (record,) = state.profiles.records()
    assert (record.measurements, record.at, record.source) == (2, 2.0, "run")
    assert record.deviation == pytest.approx((0.0, 1 / 3, 0.0))


def test_gpus_and_their_model_count() -> None:
    state = state_after(
        measured("bert", gpu_model="A100"), measured("bert", NEWER, gpu_model="V100"), measured("bert", gpus=2)
    )
    job = Job("1", profile_key="bert")
    assert state.profiles.of(job) == NEWER, "any model: the newest"
    assert state.profiles.of(replace(job, where=Where("A100"))) == BERT
    assert state.profiles.of(replace(job, where=Where("H100"))) is None
    assert state.profiles.of(replace(job, gpus=4)) is None


def test_no_user_changes_the_profiles_of_another_ones_jobs() -> None:
    ann, bob = Job("1", user="ann", profile_key="bert"), Job("2", user="bob", profile_key="bert")
    state = state_after(measured("bert", user="ann"))
    assert (state.profiles.of(ann), state.profiles.of(bob)) == (BERT, None)
    assert state.apply(measured("bert", NEWER, at=2.0))
    assert (state.profiles.of(ann), state.profiles.of(bob)) == (BERT, NEWER), "her own counts before the shared one"
    assert [(each.user, each.key) for each in state.profiles.records()] == [("", "bert"), ("ann", "bert")]


def test_one_user_does_not_displace_the_measurements_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_KINDS_OF_USER", 2)
    state = state_after(measured("a", user="ann"), *(measured(f"{at}", user="bob", at=at) for at in range(1, 9)))
    assert [each.key for each in state.profiles.records()] == ["8", "7", "a"]
    assert state.apply(measured("9", user="bob", at=9.0))
    assert [each.key for each in state.profiles.records()] == ["9", "8", "a"]


def test_a_snapshot_keeps_the_store() -> None:
    state = state_after(measured("a", user="ann"), measured("b"), measured("a", NEWER, at=2.0))
    again = State()
    for fact in snapshot(state):
        again.apply(fact)
    assert list(again.profiles.records()) == list(state.profiles.records())
    assert list(snapshot(again)) == list(snapshot(state))


def test_the_store_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MAX_KINDS", 2)
    facts = [measured("a"), measured("b"), *[measured("a", at=at) for at in range(2, 40)], measured("c", at=50.0)]
    state = state_after(*facts)
    assert [(record.key, record.measurements) for record in state.profiles.records()] == [("c", 1), ("a", 8)]
    assert state.profiles.of(Job("1", profile_key="b")) is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (replace(BERT, gpu_s=-1.0), "gpu is -1"),
        (replace(BERT, data_s=nan), "data is nan"),
        (replace(BERT, network_s=inf), "net is inf"),
        (replace(BERT, start_s=-2.0), "start is -2"),
        (replace(BERT, memory_mb=-1), "memory is -1"),
        (replace(BERT, memory_mb=10**12), "memory is 1000000000000 MB"),
        (replace(BERT, iteration_s=0.0), "iteration is 0"),
        (replace(BERT, iteration_s=nan), "iteration is nan"),
        (replace(BERT, gpu_s=1e300), "gpu is 1e.300 s, more than a day"),
        (replace(BERT, start_s=90_000.0), "start is 90000 s, more than a day"),
        (Profile("x", 1.0, 0.0, 1e-13, 0.0), "less than a microsecond"),
        (Profile("x", 1.0, 0.0, 0.0, 0.0), "all 0"),
    ],
)
def test_a_profile_that_makes_no_sense_is_one_clear_error(wrong: Profile, says: str) -> None:
    with pytest.raises(InputError, match=f"job '1': .*{says}"):
        check_job(Job("1", profile=wrong))
    assert not State().apply(measured("bert", wrong))


def test_a_weave_has_one_time_at_which_it_was_formed() -> None:
    slots = (("n0", (0, 1)),)
    jobs = [Submitted(0, Job(name, gpus=2)) for name in "abc"]
    state = state_after(*jobs, Start(1, "a", 1, slots), Started(1, "a", 1), Rewoven(5, "a", 1, ("a", "b")))
    assert state.jobs["a"].woven_at == 5
    assert state.apply(Start(7, "b", 1, slots, weave=("a", "b")))
    assert state.jobs["b"].woven_at == 5
    assert state.apply(Rewoven(9, "a", 1, ("a", "b", "c")))
    assert state.apply(Rewoven(9, "b", 1, ("a", "b", "c")))
    assert [state.jobs[name].woven_at for name in "ab"] == [9, 9]
    assert not state.apply(Rewoven(9, "b", 2, ("b", "c"))), "another run"


@pytest.mark.parametrize("why", ["hangs", "silent"])
def test_an_unwoven_run_keeps_its_gpus_and_its_job_is_not_woven_again(why: str) -> None:
    slots = (("n0", (0,)),)
    weave = ("a", "b")
    state = state_after(
        Submitted(0, Job("a")), Submitted(0, Job("b")), Start(1, "a", 1, slots, weave=weave),
        Start(1, "b", 1, slots, weave=weave), Started(1, "a", 1), Unwoven(2, "a", 1, why),
    )  # fmt: skip
    job = state.jobs["a"]
    assert (job.weave, job.slots, job.unwoven, job.status) == ((), slots, why, "running")
    for fact in (Exited(3, "a", 1, "stopped"), Exited(3, "b", 1, "done"), Start(4, "a", 2, slots)):
        assert state.apply(fact)
    assert job.unwoven == why
