"""The cells of a testbed, and seconds that scale with its speed."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.errors import InputError
from weft.lab.testbed.matrix import POLICIES, default_speed, list_cells
from weft.lab.testbed.published import MURI_TESTBED, fingerprint, published_figures
from weft.lab.testbed.scaling import scale_interval, scale_policy
from weft.lab.testbed.workload import MURI_JOBS, generate_trace
from weft.scheduling.plugins import registry


def test_every_combination_is_a_cell_with_a_name_for_a_folder() -> None:
    cells = list_cells(["n8g8", "4x8"], ["/data/a.csv.gz", "demo"], ["srtf", "muri-l"], [360.0, 720.0])
    assert len(cells) == len({cell.name for cell in cells}) == 16
    assert cells[0].name == "n8g8_a_srtf_360s_x3600"
    assert cells[1].name == "n8g8_a_muri-l_360s_x900_fair_none"
    assert not any("/" in cell.name for cell in cells)


def test_policies_that_weave_play_more_slowly_and_the_quick_form_faster() -> None:
    assert [default_speed(policy) for policy in POLICIES] == [3600.0, 3600.0, 1800.0, 3600.0, 900.0, 900.0]
    (quick,) = list_cells(["n8g8"], ["demo"], ["muri-s"], [360.0], quick=True)
    assert (quick.speed, quick.jobs) == (1800.0, 100)
    (given,) = list_cells(["n8g8"], ["demo"], ["muri-s"], [360.0], quick=True, speed=60.0, jobs=7)
    assert (given.speed, given.jobs) == (60.0, 7)


def test_two_cells_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two cells are called"):
        list_cells(["n8g8"], ["a/t.csv", "b/t.csv"], ["srtf"], [360.0])


@pytest.mark.parametrize("policy", [*POLICIES, "gittins", "fair-share", "priority:ageing_s=60"])
def test_scaled_policies_load(policy: str) -> None:
    assert type(registry.load_policy(scale_policy(policy, 3600.0))) is type(registry.load_policy(policy))


def test_a_scaled_policy_in_a_file_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text(
        "from dataclasses import dataclass\nfrom weft.scheduling.policies.las import Las\n"
        "@dataclass(frozen=True)\nclass Own(Las):\n    wait_s: float = 90.0\n"
    )
    monkeypatch.chdir(tmp_path)
    assert scale_policy("own.py:Own", 10.0) == f"{tmp_path}/own.py:Own:wait_s=9"


def test_options_in_seconds_scale_and_others_do_not() -> None:
    assert scale_policy("tiresias", 3600.0) == "tiresias:thresholds=0.9027777778+2:tick_s=0.0002777777778"
    assert scale_policy("tiresias:thresholds=10+20", 10.0) == "tiresias:thresholds=1+2:tick_s=0.1"
    assert scale_policy("tiresias", 3600.0, 360.0).endswith(":tick_s=0.1"), "a testbed demotes at the ends of intervals"
    assert "tick_s=0.01:" in scale_policy("tiresias:tick_s=36", 3600.0, 360.0)
    assert scale_policy("muri-l:packing=2", 900.0) == "muri-l:packing=2"
    assert (scale_interval(360.0, 900.0), scale_interval(360.0, 36000.0), scale_interval(0.0, 900.0)) == (0.4, 0.1, 0)


def test_published_figures_belong_to_one_trace_and_one_size() -> None:
    jobs = generate_trace(64, seed=3).jobs
    assert published_figures(jobs, 64, "srtf") is None
    assert fingerprint(jobs) == fingerprint(generate_trace(64, seed=3).jobs)
    assert fingerprint(jobs) != fingerprint(jobs[:-1])
    assert set(MURI_TESTBED) == set(POLICIES)


def test_the_generated_trace_has_the_shape_of_the_testbeds() -> None:
    jobs = generate_trace(64).jobs
    assert len(jobs) == MURI_JOBS
    work_gpu_s = sum(each.work_s * each.job.gpus for each in jobs)
    assert 1.2 < work_gpu_s / 64 / jobs[-1].submit_s < 1.8, "the load of the original is 1.47"
    assert sum(each.job.gpus == 8 for each in jobs) > 200
    with pytest.raises(InputError, match="no trace for 0 GPUs"):
        generate_trace(0)
