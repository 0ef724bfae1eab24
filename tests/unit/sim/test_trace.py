"""The jobs that each trace format becomes."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import pytest

from weft.model import PerRank, Profile, Where
from weft.sim.traces.profiles import CONTENTION, MODELS, profile
from weft.sim.traces.trace import read_trace

REFERENCE = Path(__file__).resolve().parents[3].parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the reference traces are not beside this project")

MURI = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n"
)
PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster\n"


def write(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def test_a_muri_row_has_its_own_profile_and_its_work_in_iterations(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, MURI + "7,4,1456000,1000,bert,4,575169000,0,190,0.5,163,18,1\n"))
    (only,) = trace.jobs
    iteration_s = 190.0 / 1000 * CONTENTION
    assert (trace.name, trace.format) == ("t", "muri")
    assert (only.submit_s, only.work_s) == (1456.0, 1000 * iteration_s)
    assert only.job.profile == Profile("bert", iteration_s, 0.0005, 0.163, 0.018, start_s=10.0)
    assert (only.job.id, only.job.gpus, only.job.declared_s, only.job.iterations) == ("7", 4, 575169.0, 1000)
    assert only.job.opportunistic
    assert only.job.params == (("batch_size", "4"),)


def test_a_muri_row_may_bring_a_model_that_we_do_not_know(tmp_path: Path) -> None:
    (only,) = read_trace(write(tmp_path, MURI + "0,1,0,10,llama,,1000,0,100,1,2,3,0\n")).jobs
    assert only.job.profile == Profile("llama", 100 * CONTENTION / 1000, 0.001, 0.002, 0.003, start_s=10.0)
    assert only.job.params == ()


def test_philly_counts_from_its_earliest_date_and_sorts(tmp_path: Path) -> None:
    rows = "2017-10-09 00:01:00,66.0,1,66.0,vc2\n2017-10-08 23:59:00,30,8,240,vc1\n"
    first, second = read_trace(write(tmp_path, PHILLY + rows)).jobs
    assert (first.submit_s, first.job.user, first.job.gpus) == (0.0, "vc1", 8)
    assert (second.submit_s, second.work_s, second.job.declared_s, second.job.iterations) == (120.0, 66.0, 66.0, None)
    assert [first.job.id, second.job.id] == ["0", "1"]


def test_what_philly_does_not_say_is_drawn_by_the_seed(tmp_path: Path) -> None:
    path = write(tmp_path, PHILLY + "2017-10-09 00:01:00,66.0,1,66.0,vc\n" * 400)
    jobs = read_trace(path, seed=1).jobs
    assert jobs == read_trace(path, seed=1).jobs
    assert jobs != read_trace(path, seed=2).jobs
    assert {each.job.profile for each in jobs} == {profile(model, 1) for model in MODELS}
    assert 150 < sum(each.job.opportunistic for each in jobs) < 250


def test_the_order_of_the_lines_does_not_change_what_is_drawn(tmp_path: Path) -> None:
    lines = [f"2017-10-09 00:00:{second:02},66,1,66,vc\n" for second in range(60)]
    forwards = write(tmp_path, PHILLY + "".join(lines), "a.csv")
    backwards = write(tmp_path, PHILLY + "".join(reversed(lines)), "b.csv")
    assert read_trace(forwards).jobs == read_trace(backwards).jobs


def test_dates_with_a_zone_are_compared_in_utc(tmp_path: Path) -> None:
    rows = "2017-10-09T02:00:00+02:00,1,1,1,a\n2017-10-09 00:00:01,1,1,1,b\n"
    assert [each.submit_s for each in read_trace(write(tmp_path, PHILLY + rows)).jobs] == [0.0, 1.0]


def test_elasticflow_keeps_its_seconds(tmp_path: Path) -> None:
    rows = "job_id,submission_time,duration,num_gpu\nx-1,1932025,2429,64\n"
    trace = read_trace(write(tmp_path, rows))
    (only,) = trace.jobs
    assert (trace.format, only.job.id, only.submit_s, only.work_s) == ("elasticflow", "x-1", 1932025.0, 2429.0)
    assert only.job.profile in {profile(model, 32) for model in MODELS}


def test_every_column_of_our_own_format(tmp_path: Path) -> None:
    text = (
        "job_id,submit_s,gpus,duration_s,user,name,model,memory_mb,cpus,ram_mb,"
        "priority,opportunistic,iterations,retries,gpu_model\n"
        "a,1.5,2,60,ada,try,bert,16000+12000,4,1024,-3,true,100,2,A100\n"
    )
    (only,) = read_trace(write(tmp_path, text)).jobs
    job = only.job
    assert (only.submit_s, only.work_s) == (1.5, 100 * profile("bert", 2).iteration_s)
    assert (job.id, job.gpus, job.user, job.name, job.profile) == ("a", 2, "ada", "try", profile("bert", 2))
    assert (job.memory_mb, job.cpus, job.ram_mb, job.priority) == (PerRank(16000, 12000), 4, 1024, -3)
    assert (job.opportunistic, job.iterations, job.retries, job.declared_s) == (True, 100, 2, 60.0)
    assert job.where == Where(gpu_model="A100")


def test_empty_cells_of_our_own_format_fall_back(tmp_path: Path) -> None:
    text = "submit_s,gpus,duration_s,model,memory_mb,iterations,opportunistic,cpus\n0,2,60,,8000,100,,\n"
    (only,) = read_trace(write(tmp_path, text)).jobs
    job = only.job
    assert job.profile in {profile(model, 2) for model in MODELS}
    assert (only.work_s, job.iterations, job.memory_mb, job.opportunistic, job.cpus) == (
        60.0,
        None,
        PerRank(8000),
        False,
        0,
    )


def test_missing_ids_are_numbered_past_those_taken(tmp_path: Path) -> None:
    text = "job_id,submit_s,gpus,duration_s\n,9,1,1\n0,5,1,1\n,1,1,1\n2,0,1,1\n"
    assert [each.job.id for each in read_trace(write(tmp_path, text)).jobs] == ["2", "1", "0", "3"]


def test_jobs_of_one_instant_keep_their_order(tmp_path: Path) -> None:
    text = "job_id,submit_s,gpus,duration_s\nz,1,1,1\na,1,1,1\nm,0,1,1\n"
    assert [each.job.id for each in read_trace(write(tmp_path, text)).jobs] == ["m", "z", "a"]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeffjob_id,submit_s,gpus,duration_s\na,1,1,1\n",
        "job_id,submit_s,gpus,duration_s\r\na,1,1,1\r\n",
        "\n\njob_id,submit_s,gpus,duration_s\n\n   \na,1,1,1\n\n",
        "job_id,submit_s,gpus,duration_s\na,1,1,1",
        "job_id , submit_s,gpus, duration_s\n a , 1, 1 ,1.0\n",
        'job_id,submit_s,gpus,duration_s\n"a","1","1","1"\n',
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last newline", "blanks", "quotes"],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_harmless_variations_read_alike(tmp_path: Path, text: str, zipped: bool) -> None:
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    (only,) = read_trace(path).jobs
    assert (only.job.id, only.submit_s, only.job.gpus, only.work_s) == ("a", 1.0, 1, 1.0)


@needs_reference
@pytest.mark.parametrize(
    ("file", "format", "jobs"),
    [
        ("muri/trace3.csv", "muri", 992),
        ("muri/cluster_trace.csv", "muri", 400),
        ("traces/elasticflow_cluster01.csv.gz", "elasticflow", 1595),
    ],
)
def test_reference_traces_are_read_whole(file: str, format: str, jobs: int) -> None:
    trace = read_trace(REFERENCE / file)
    assert (trace.format, len(trace.jobs)) == (format, jobs)


@needs_reference
def test_the_rows_of_trace3_agree_with_our_table_in_every_digit() -> None:
    for each in read_trace(REFERENCE / "muri" / "trace3.csv").jobs:
        assert each.job.profile is not None
        assert each.job.profile == profile(each.job.profile.model, each.job.gpus)


@needs_reference
def test_philly_is_read_whole_and_fast() -> None:
    began = time.process_time()
    trace = read_trace(REFERENCE / "traces" / "philly.csv.gz")
    assert time.process_time() - began < 3, "expected well under 1.5 CPU s; 3 allows for a busy machine"
    assert len(trace.jobs) == 82_247
    assert trace.jobs[0].submit_s == 0.0
