"""Policies that break their contract get one clear error that names them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from support.builders import Rig, grid, node, traced
from weft.errors import PlanError
from weft.model import Job, Seconds, Start, Where
from weft.scheduling.core.ports import Ask, JobView, Policy, Replanner, View
from weft.sim.simulation import Model, Setting, simulate

HERE = r"\(.*test_bad_policies\.py:\d+\)"


@dataclass(frozen=True)
class Raises(Policy):
    def key(self, job: JobView, now: Seconds) -> float:
        return 1 / (job.gpus - 1)


@dataclass(frozen=True)
class NoNumber(Policy):
    def key(self, job: JobView, now: Seconds) -> float:
        return float("nan")


@dataclass(frozen=True)
class NoKey(Policy):
    pass


@dataclass(frozen=True)
class Text(Policy):
    answer: str | None = "high"

    def key(self, job: JobView, now: Seconds) -> float:
        return self.answer  # type: ignore[return-value]


@dataclass(frozen=True)
class TextUntil(Policy):
    def key(self, job: JobView, now: Seconds) -> float:
        return 0.0

    def until(self, job: JobView, now: Seconds) -> Seconds | None:
        return "soon"  # type: ignore[return-value]


@dataclass(frozen=True)
class Leaves(Policy):
    def key(self, job: JobView, now: Seconds) -> float:
        sys.exit(3)


@dataclass(frozen=True)
class NoRank(Replanner):
    pass


@dataclass(frozen=True)
class NoMemo(Policy):
    def key(self, job: JobView, now: Seconds) -> float:
        return 0.0

    def memo(self) -> object:
        raise RuntimeError("forgot")


@dataclass(frozen=True)
class NoAsks(Replanner):
    def rank(self, view: View) -> Iterable[Ask]:
        return [5]  # type: ignore[list-item]


@dataclass(frozen=True)
class KeyedOtherwise(Replanner):
    """Between plans its key would have others run than its rank."""

    preempts = True

    def key(self, job: JobView, now: Seconds) -> float:
        return {"b": 0.0, "x": 1.0, "a": 2.0}[job.id]

    def rank(self, view: View) -> Iterable[Ask]:
        known = {job.id for job in (*view.waiting, *view.active)}
        return [Ask((job,), 1) for job in "bax" if job in known]


@dataclass(frozen=True)
class Asks(Replanner):
    """For whatever it is given, preempting or not."""

    asks: tuple[Ask, ...]
    preempts: bool

    def rank(self, view: View) -> Iterable[Ask]:
        return self.asks if list(view.waiting) else ()


BAD_ASKS = {
    "a stranger": ((Ask(("z",), 1),), r"asks for \('z',\), not all of which wait or run"),
    "no jobs": ((Ask((), 1),), "asks for no jobs"),
    "other GPUs than it needs": ((Ask(("a",), 2),), r"other than the \[1\] GPUs they need"),
    "the same twice": ((Ask(("a",), 1), Ask(("a",), 1)), "asks for a twice|an impossible decision"),
}


@pytest.mark.parametrize(("asks", "words"), BAD_ASKS.values(), ids=BAD_ASKS)
@pytest.mark.parametrize("preempts", [True, False])
@pytest.mark.parametrize("model", ["real", "muri"])
def test_bad_asks_are_refused(asks: tuple[Ask, ...], words: str, preempts: bool, model: Model) -> None:
    with pytest.raises(PlanError, match=rf"policy Asks .*({words}).* {HERE}$"):
        simulate(Setting(grid(1, 2), [traced("a", 0, 5)], Asks(asks, preempts), model=model))


@dataclass(frozen=True)
class AsksFor(Replanner):
    """For all jobs, on GPUs of its choice."""

    where: Where
    preempts: bool = False

    def rank(self, view: View) -> Iterable[Ask]:
        return [Ask((job.id,), job.gpus, where=self.where) for job in (*view.waiting, *view.active)]


MIXED = (node("v", 4, model="V100", labels=(("rack", "1"),)), node("k", 4, model="K80", labels=(("rack", "2"),)))


@pytest.mark.parametrize(
    "where",
    [Where("K80"), Where(labels=(("rack", "2"),)), Where(choice=(("k", (2, 3)),))],
    ids=["model", "label", "choice"],
)
@pytest.mark.parametrize(("preempts", "model"), [(False, "real"), (False, "muri"), (True, "muri")])
def test_an_ask_starts_jobs_only_where_it_says(where: Where, preempts: bool, model: Model) -> None:
    jobs = [traced(name, 0, 5, gpus=2) for name in "abc"]
    outcome = simulate(Setting(MIXED, jobs, AsksFor(where, preempts), model=model))
    assert len(outcome.state.ended) == 3
    starts = [fact for fact in outcome.journal.read() if isinstance(fact, Start)]
    assert {name for start in starts for name, _ in start.slots} == {"k"}


def test_an_ask_that_no_planner_could_keep_is_refused() -> None:
    with pytest.raises(PlanError, match=rf"policy AsksFor returned Ask.*set preempts = False.* {HERE}$"):
        simulate(Setting(MIXED, [traced("a", 0, 5)], AsksFor(Where("K80"), preempts=True)))
    own = traced("a", 0, 5, where=Where("V100"))
    with pytest.raises(PlanError, match=rf"its jobs need gpu_model V100, not K80 {HERE}$"):
        simulate(Setting(MIXED, [own], AsksFor(Where("K80"))))
    assert simulate(Setting(MIXED, [own], AsksFor(Where("V100"), preempts=True))).state.ended


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Raises(), r"Raises with Packed raised ZeroDivisionError: .* " + HERE),
        (NoNumber(), f"policy NoNumber returned a key for job a that is not a number: nan {HERE}"),
        (NoKey(), "policy NoKey has no key"),
        (NoRank(), r"policy NoRank has no rank: define rank\(self, view\)$"),
        (Text(), rf"Text returned a key for job a that is not a number: 'high' {HERE}"),
        (Text(None), rf"Text returned a key for job a that is not a number: None {HERE}"),
        (TextUntil(), rf"TextUntil returned an until for job a that is not a number: 'soon' {HERE}"),
        (Leaves(), rf"Leaves with Packed called sys\.exit\(3\) {HERE}"),
        (NoMemo(), rf"NoMemo with Packed raised RuntimeError: forgot {HERE}"),
        (NoAsks(), rf"NoAsks with Packed returned an unusable result: .* {HERE}"),
    ],
)
def test_it_is_named(policy: Policy, words: str) -> None:
    with pytest.raises(PlanError, match=words):
        simulate(Setting(grid(1, 1), [traced("a", 0, 5)], policy))


def test_rank_and_key_that_disagree_do_not_undo_each_other() -> None:
    rig = Rig(KeyedOtherwise(), grid(1, 2), interval_s=100.0)
    for job in "bax":
        rig.submit(Job(job))
    rig.settle()
    rig.later(10.0)
    rig.exit("b")
    rig.settle()
    assert {job for job in "ax" if rig.job(job).active} == {"a", "x"}
