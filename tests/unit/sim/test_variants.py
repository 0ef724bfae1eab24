"""The variants of Muri's traces: read where there are files, made where there are none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.sim.traces.generator import small
from weft.sim.traces.trace import TraceJob, read_trace
from weft.sim.traces.variants import MIXES, find_variants
from weft.sim.traces.writers import to_bytes


def write(path: Path, first: int, last: int) -> None:
    path.write_bytes(to_bytes(replace(small(), jobs=small().jobs[first:last]), "muri"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "trace3.csv", 0, 30)
    return tmp_path


def models(jobs: list[TraceJob]) -> set[str]:
    return {each.job.profile.model for each in jobs if each.job.profile}


def test_what_is_missing_is_made(folder: Path) -> None:
    found = find_variants(folder)
    assert [each.name for each in found.traces] == ["trace3", "trace3_pr"]
    assert [each.name for each in found.mixes] == [f"job_type_{number}" for number in (1, 2, 3, 4)]
    assert list(found.missing) == ["trace1", "trace2", "trace4"]
    plain, at_once = found.traces
    assert not plain.made
    assert at_once.made
    assert {each.submit_s for each in at_once.jobs} == {0.0}
    assert [each.job for each in at_once.jobs] == [each.job for each in plain.jobs]
    for number, mix in enumerate(found.mixes[:3], start=1):
        assert models(list(mix.jobs)) <= set(MIXES[number])
        for drawn, one in zip(mix.jobs, plain.jobs, strict=True):
            assert (drawn.submit_s, drawn.job.gpus) == (one.submit_s, one.job.gpus)
            step_s = drawn.job.profile.iteration_s if drawn.job.profile else 0.0
            assert drawn.work_s <= max(one.work_s * 1.03, step_s)
    assert list(found.mixes[3].jobs) == list(plain.jobs)


def test_the_seed_draws_the_mixes(folder: Path) -> None:
    assert find_variants(folder, 1) == find_variants(folder, 1)
    assert find_variants(folder, 1) != find_variants(folder, 2)


def test_files_come_first(folder: Path) -> None:
    for name in ("trace3_pr", "job_type_2", "trace1"):
        write(folder / f"{name}.csv", 30, 40)
    found = find_variants(folder)
    ten = read_trace(folder / "trace1.csv").jobs
    read = {each.name: each for each in (*found.traces, *found.mixes)}
    for name in ("trace3_pr", "job_type_2", "trace1"):
        assert not read[name].made
        assert list(read[name].jobs) == list(ten)


def test_a_folder_without_traces(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none of Muri's traces"):
        find_variants(tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        find_variants(tmp_path / "nowhere")
