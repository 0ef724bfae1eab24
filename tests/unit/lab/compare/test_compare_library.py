"""The library behind `weft compare` and `weft sim`: called from Python, without flags and without output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.errors import Infeasible, InputError, UnknownName
from weft.lab.compare.comparison import Trim, compare_policies
from weft.lab.compare.process_pool import Progress, SilentProgress
from weft.lab.compare.trial import measure
from weft.lab.compare.workload import Workload, check_names, load_workload, open_trace, shorten
from weft.sim.faults.uncertainty import Uncertainty


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """Four jobs on a node of two GPUs, and one that needs four."""
    path = tmp_path / "trace.csv"
    rows = ["a,0,2,100", "b,10,1,50", "c,20,1,10", "d,30,2,20", "big,40,4,10"]
    path.write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows) + "\n")
    return str(path)


def test_a_workload_is_loaded_and_makes_a_setting(trace: str) -> None:
    warnings: list[str] = []
    workload = Workload(trace, "1x2", model="muri", seed=7, skip_infeasible=True)
    loaded = load_workload(workload, ["fifo"], warn=warnings.append)
    assert [each.job.id for each in loaded.jobs] == ["a", "b", "c", "d"]
    assert (loaded.skipped, loaded.gpus, loaded.cluster) == (["big"], 2, "1x2")
    (warning,) = warnings
    assert warning.startswith("left out 1 of 5 jobs\n  each ")
    setting = loaded.setting("srtf")
    assert (setting.policy, setting.model, setting.seed) == ("srtf", "muri", 7)
    assert setting.jobs is loaded.jobs


def test_a_job_that_can_never_run_is_refused_with_its_line(trace: str) -> None:
    with pytest.raises(Infeasible) as caught:
        load_workload(Workload(trace, "1x2"), ["fifo"])
    assert caught.value.where == f"{trace}:6"


def test_arrivals_become_denser_with_the_load() -> None:
    usual, dense = (load_workload(Workload("demo", "4x8", load=load), ["fifo"]) for load in (1.0, 2.0))
    assert dense.jobs[-1].submit_s == pytest.approx(usual.jobs[-1].submit_s / 2)


def test_retries_are_for_jobs_of_which_the_trace_says_nothing() -> None:
    assert {each.job.retries for each in open_trace("demo", retries=2).jobs} == {2}


def test_names_are_checked_before_anything_is_read() -> None:
    check_names(["fifo", "tiresias"], "packed")
    with pytest.raises(UnknownName):
        check_names(["fivo"])
    with pytest.raises(UnknownName):
        check_names(["fifo"], "nowhere")


def test_policies_are_compared_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    found = compare_policies(Workload("demo", "4x8"), ["fifo", "srtf"], processes=2)
    fifo, srtf = found.results
    assert (fifo.policy, srtf.policy) == ("fifo", "srtf")
    assert srtf.trials[0]["avg_jct_s"] < fifo.trials[0]["avg_jct_s"]
    assert found.bounds is not None
    assert found.bounds["avg_jct_s"] <= srtf.trials[0]["avg_jct_s"]
    assert (fifo.digest, fifo.error, found.measured) == (None, "", len(found.workload.jobs))
    assert capfd.readouterr() == ("", "")


def test_bounds_are_those_of_the_turns_that_all_policies_take() -> None:
    lasts = {}
    for order in ("fair", "slots", None):
        found = compare_policies(Workload("demo", "1x8", order=order, skip_infeasible=True), ["muri-s"], processes=1)
        assert found.bounds is not None
        lasts[order] = found.bounds["makespan_s"]
        assert lasts[order] <= found.results[0].trials[0]["makespan_s"]
    assert lasts["fair"] < lasts["slots"], "in lock-step, members slow each other down"
    assert lasts[None] == lasts["fair"], "a policy may choose"


def test_bounds_allow_what_the_options_of_a_policy_allow() -> None:
    found = {}
    for policy in ("muri-s", "muri-s:contention=none", "muri-s:order=fair"):
        compared = compare_policies(Workload("demo", "1x8", model="muri", skip_infeasible=True), [policy], processes=1)
        assert compared.bounds is not None
        found[policy] = compared.bounds["makespan_s"]
        assert found[policy] <= compared.results[0].trials[0]["makespan_s"]
    assert found["muri-s"] > max(found["muri-s:contention=none"], found["muri-s:order=fair"])


def test_a_trial_in_this_process_gives_the_same_figures() -> None:
    workload = Workload("demo", "4x8", uncertainty=Uncertainty(crash_rate=0.05), retries=3, seed=2)
    (result,) = compare_policies(workload, ["srsf"], processes=1).results
    here = measure(load_workload(workload, ["srsf"]).setting("srsf")).values
    timing = ("cpu_s", "facts_per_s")
    assert {key: here[key] for key in here if key not in timing} == {
        key: value for key, value in result.trials[0].items() if key not in timing
    }


def test_a_policy_that_breaks_leaves_the_others_alone(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(
        "from weft.scheduling.policies.fifo import Fifo\n\n\nclass Broken(Fifo):\n"
        "    def key(self, job, now):\n        raise ValueError('no such luck')\n"
    )
    found = compare_policies(Workload("demo", "4x8"), [f"{path}:Broken", "fifo"], processes=2)
    broken, fifo = found.results
    assert "no such luck" in broken.error
    assert broken.trials == []
    assert set(broken.outcome.figures.values()) == {None}
    assert fifo.trials[0]["finished"] == len(found.workload.jobs)


def test_seeds_that_change_nothing_are_worth_a_warning() -> None:
    warnings: list[str] = []
    found = compare_policies(Workload("demo", "4x8", seed=5), ["fifo"], seeds=2, processes=2, warn=warnings.append)
    assert list(found.seeds) == [5, 6]
    assert len(found.results[0].trials) == 2
    assert warnings == ["every seed gave the same figures: nothing in this workload is random; add uncertainty"]


def test_jobs_outside_the_span_do_not_count() -> None:
    workload = Workload("demo", "4x8")
    jobs = load_workload(workload, ["fifo"]).jobs
    cut = jobs[10].submit_s - jobs[0].submit_s
    found = compare_policies(workload, ["fifo"], trim=Trim(warmup_s=cut), processes=1)
    assert found.measured == sum(each.submit_s >= jobs[10].submit_s for each in jobs)
    assert found.results[0].trials[0]["jobs"] == found.measured
    with pytest.raises(InputError, match="leave none of"):
        compare_policies(workload, ["fifo"], trim=Trim(1e9, 1e9))


def test_progress_is_opened_with_every_trial_and_closed() -> None:
    seen: list[object] = []

    class Finishes(SilentProgress):
        def finish(self, task: int) -> None:
            seen.append(task)

    @contextmanager
    def progress(labels: Sequence[str], totals: Sequence[int]) -> Iterator[Progress]:
        seen.append(list(labels))
        assert len(totals) == len(labels)
        yield Finishes()
        seen.append("closed")

    compare_policies(Workload("demo", "4x8"), ["fifo", "srtf"], processes=1, open_progress=progress)
    assert seen == [["fifo", "srtf"], 0, 1, "closed"]


def test_long_lists_are_shortened() -> None:
    assert shorten(["a", "b"]) == "a, b"
    assert shorten(list(map(str, range(12)))).endswith("9 and 2 more")
