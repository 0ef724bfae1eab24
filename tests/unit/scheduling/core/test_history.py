"""The history of a journal: figures that a compaction does not change, and the work of each job."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from weft.history.journal.codec import decode_line, encode_line
from weft.history.journal.sqlite import SqliteJournal
from weft.history.journal.summary import public_summary, summary
from weft.history.metrics.figures import Figures, figures, gather
from weft.history.metrics.history import Selection, read_history
from weft.history.metrics.usage import job_usages
from weft.model import (
    Alarm,
    Exited,
    Fact,
    Gpu,
    Held,
    Job,
    JobSnapshot,
    Node,
    NodeJoined,
    NodeLost,
    Progressed,
    Released,
    Start,
    Started,
    StateSnapshot,
    Stop,
    Submitted,
    Task,
)
from weft.sim.clusters.reader import read_cluster
from weft.sim.faults.uncertainty import Uncertainty
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.generator import small

T0 = 1_800_000_000.0
"""A scheduler's clock counts from 1970."""


def node(at: float, name: str = "n0", gpus: int = 2) -> NodeJoined:
    return NodeJoined(T0 + at, Node(name, (Gpu(),) * gpus))


def submit(at: float, job: str, user: str = "ada", group: str = "", gpus: int = 1) -> Submitted:
    task = Task(chdir="/secret", env=(("TOKEN", "hush"),), group=group)
    return Submitted(T0 + at, Job(job, gpus, user=user, command=("python", "x.py"), task=task))


def run(at: float, job: str, number: int = 1, where: str = "n0", gpu: int = 0) -> tuple[Start, Started]:
    return Start(T0 + at, job, number, ((where, (gpu,)),)), Started(T0 + at + 1, job, number)


def ended(at: float, job: str, number: int = 1, how: str = "done") -> Exited:
    return Exited(T0 + at, job, number, how)  # type: ignore[arg-type]


LIFE: Sequence[Fact] = (
    node(0),
    node(0, "n1"),
    submit(0, "a"),
    submit(2, "b", "bo", "vision"),
    submit(3, "c", "bo"),
    *run(5, "a"),
    *run(5, "b", where="n1"),
    Stop(T0 + 15, "a", 1, "preempted"),
    ended(16, "a", how="stopped"),
    Held(T0 + 17, "c"),
    *run(20, "a", 2),
    NodeLost(T0 + 24, "n1"),
    ended(30, "a", 2),
    *run(31, "b", 2),
    Released(T0 + 33, "c"),
    ended(43, "b", 2),
    *run(50, "c", gpu=1),
    ended(61, "c", how="failed"),
)


def test_the_work_of_a_job_is_what_its_runs_kept() -> None:
    work = read_history(LIFE).work
    assert work["a"].kept_s == pytest.approx(10 + 9), "a run that was preempted keeps its work, without the start"
    assert work["b"].kept_s == pytest.approx(11), "the run on the lost node is lost"
    assert work["c"].kept_s == 0.0
    assert work["c"].spent_s == pytest.approx(10), "a failed run was work, too"


@pytest.mark.parametrize("at", range(1, len(LIFE) + 1))
def test_a_snapshot_at_any_time_changes_no_figure(at: int) -> None:
    whole = read_history(LIFE)
    shorter = summary(LIFE[:at])
    assert shorter is not None
    shorter = [decode_line(encode_line(fact)) for fact in shorter]
    after = read_history([*shorter, *LIFE[at:]])
    assert close(figures(after.record), figures(whole.record))
    assert [record.gpu_seconds for record in after.record.jobs] == pytest.approx(
        [record.gpu_seconds for record in whole.record.jobs]
    )
    assert {job: work.kept_s for job, work in after.work.items()} == pytest.approx(
        {job: work.kept_s for job, work in whole.work.items()}
    )


LATE: Final = dataclasses.replace(ended(16, "a", how="stopped"), late_s=4.0)
"""The end of a run that was noticed 4 s late."""


@pytest.mark.parametrize("at", range(1, len(LIFE) + 1))
def test_a_snapshot_at_any_time_changes_no_usage(at: int) -> None:
    """Also of jobs that run: they count up to the last fact, whatever it is."""
    life = [LATE if fact == ended(16, "a", how="stopped") else fact for fact in LIFE[:at]]
    facts = [*life, Alarm(life[-1].at + 5.0, None)]
    shorter = summary(facts)
    assert shorter is not None
    assert usage(shorter) == pytest.approx(usage(facts))
    assert close(figures(read_history(shorter).record), figures(read_history(facts).record))


def usage(facts: Sequence[Fact]) -> dict[str, float]:
    """The GPU seconds of each job, and the seconds it ran."""
    history = read_history(facts)
    found = job_usages(history.record.jobs, history.usage)
    return {
        f"{job.id} {name}": value for job in found for name, value in (("gpu", job.total_gpu_s), ("ran", job.run_s))
    }


def test_the_time_until_an_end_is_noticed_is_no_work() -> None:
    work = read_history([node(0), submit(0, "a"), *run(5, "a"), LATE]).work
    assert work["a"].kept_s == pytest.approx(16 - 4 - 6)


def close(one: Figures, other: Figures) -> bool:
    return dataclasses.asdict(one) == pytest.approx(dataclasses.asdict(other))


def test_a_snapshot_without_figures_counts_from_its_own_time(tmp_path: Path) -> None:
    """Journals that an earlier Weft compacted."""
    shorter = summary(LIFE[:-2])
    assert shorter is not None
    bare = [dataclasses.replace(fact, usage=None) if isinstance(fact, JobSnapshot) else fact for fact in shorter]
    bare = [dataclasses.replace(fact, gpus=()) if isinstance(fact, StateSnapshot) else fact for fact in bare]
    with SqliteJournal(tmp_path / "old.db") as journal:
        journal.append(*bare, *LIFE[-2:])
        found = figures(read_history(journal.read()).record)
    assert (found.finished, found.failed, found.preemptions) == (2, 1, 1)
    assert found.avg_jct_s == pytest.approx((30 + 41) / 2)
    assert found.avg_queue_s == pytest.approx(((5 + 4) + (3 + 7)) / 2)
    assert found.gpu_utilisation is not None
    assert 0 < found.gpu_utilisation <= 1


def test_a_public_summary_holds_no_command_and_no_environment() -> None:
    text = "\n".join(map(encode_line, public_summary(LIFE)))
    assert "hush" not in text
    assert "x.py" not in text
    assert "/secret" not in text
    public = read_history(map(decode_line, text.splitlines()))
    assert close(figures(public.record), figures(read_history(LIFE).record))
    assert [job.group for job in public.record.jobs] == ["", "vision", ""]


def test_a_selection_takes_jobs_by_user_group_and_time() -> None:
    record = read_history(LIFE).record
    assert [job.id for job in Selection(user="bo").of(record).jobs] == ["b", "c"]
    assert [job.id for job in Selection(group="vision").of(record).jobs] == ["b"]
    assert [job.id for job in Selection(since_s=59).of(record).jobs] == ["b", "c"]
    assert [job.id for job in Selection(since_s=59).of(record, T0 + 62).jobs] == ["c"]
    assert Selection().of(record) is record
    assert figures(Selection(user="eve").of(record)).jobs == 0


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias", "muri-l", "themis"])
@pytest.mark.parametrize("model", ["real", "muri"])
def test_a_simulated_journal_shows_the_exact_work(policy: str, model: str) -> None:
    jobs = small().jobs[:60]
    uncertainty = Uncertainty(mtbf_s=20_000.0, repair_s=600.0, crash_rate=0.1)
    nodes = read_cluster("2x8")
    jobs = tuple(each for each in jobs if each.job.gpus <= 8)
    jobs = tuple(dataclasses.replace(each, job=dataclasses.replace(each.job, retries=9)) for each in jobs)
    outcome = simulate(Setting(nodes, jobs, policy, model=model, uncertainty=uncertainty))  # type: ignore[arg-type]
    solo_s = {each.job.id: each.work_s for each in jobs}
    found = read_history(outcome.journal.read())
    assert {job: work.kept_s for job, work in found.work.items()} == solo_s
    assert figures(found.record) == figures(gather(outcome.journal.read(), solo_s))


def test_without_exact_estimates_the_work_is_close() -> None:
    jobs = small().jobs[:60]
    uncertainty = Uncertainty(estimates="lognormal:1")
    outcome = simulate(Setting(read_cluster("4x8"), jobs, "srtf", uncertainty=uncertainty))
    work = read_history(outcome.journal.read()).work
    assert [work[each.job.id].kept_s for each in jobs] == pytest.approx([each.work_s for each in jobs], rel=1e-3)


def test_progress_that_a_live_job_reports_is_not_taken_for_its_declared_length() -> None:
    job = Job("a", declared_s=3600.0)
    facts: list[Fact] = [node(0), Submitted(T0, job), *run(0, "a"), Progressed(T0 + 50, "a", 1, 0.0), ended(101, "a")]
    assert read_history(facts).work["a"].kept_s == pytest.approx(100)
