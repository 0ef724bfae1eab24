"""The jobs and nodes of cells."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import Infeasible
from weft.lab.testbed.matrix import list_cells
from weft.lab.testbed.workload import load

TRACE = "job_id,submit_s,gpus,duration_s\nsmall,0,2,3000\nlarge,300,9,300\n"


def test_only_the_first_jobs_of_a_trace_need_to_fit(tmp_path: Path) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text(TRACE)
    (cell,) = list_cells(["1x4"], [str(trace)], ["srtf"], [360.0], jobs=1)
    assert [each.job.id for each in load(cell).jobs] == ["small"]
    (cell,) = list_cells(["1x4"], [str(trace)], ["srtf"], [360.0])
    with pytest.raises(Infeasible, match="job large can never run: it needs 9 GPUs; the cluster has 4") as refused:
        load(cell)
    assert refused.value.where == f"{trace}:3"
    assert "name a larger cluster than 1x4" in str(refused.value.hint)


def test_without_a_trace_one_is_generated_for_the_cluster() -> None:
    (cell,) = list_cells(["n2g8"], ["generated"], ["srtf"], [360.0], jobs=30)
    loaded = load(cell)
    assert (len(loaded.jobs), loaded.gpus) == (30, 16)
    assert max(each.job.gpus for each in loaded.jobs) <= 16
