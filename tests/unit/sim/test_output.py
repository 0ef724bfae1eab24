"""The output directory: all of it or nothing, and the same figures when it is read again."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from itertools import pairwise
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from weft.errors import InputError, WeftError
from weft.history.journal import JsonlJournal, MemoryJournal
from weft.history.metrics.figures import Record, figures, gather
from weft.model import Exited, Fact, Gpu, Job, Node, NodeJoined, Start, Submitted
from weft.sim.clusters.reader import read_cluster
from weft.sim.folder import check_target
from weft.sim.output import read_job_csv, read_record, write_output
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.generator import small

FACTS: list[Fact] = [
    NodeJoined(0.0, Node("n0", (Gpu(),) * 4)),
    Submitted(0.1, Job("a,1", 2, user='o"brien', declared_s=3.0)),
    Submitted(0.2, Job("b")),
    Start(0.3, "a,1", 1, (("n0", (0, 1)),)),
    Start(1 / 3, "b", 1, (("n0", (2,)),)),
    Exited(7 / 3, "a,1", 1, "done"),
    Exited(10.7, "b", 1, "failed"),
]
SUMMARY = {"schema": 1, "policy": "fifo", "avg_jct_s": 1.0}
HEADER = "job_id,gpus,status,submit_s,first_start_s,end_s,runs,preemptions,queue_s,gpu_seconds,solo_s,rho\n"


@pytest.fixture
def record() -> Record:
    return gather(FACTS, {"a,1": 1.5})


def write(directory: str | Path, record: Record, **options: Any) -> None:
    write_output(directory, record, MemoryJournal(*FACTS), SUMMARY, **options)


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_four_files(here: Path, record: Record) -> None:
    write("out", record)
    assert names(here) == ["out"]
    assert names(here / "out") == ["cluster.csv", "job.csv", "journal.jsonl", "summary.json"]
    assert json.loads((here / "out" / "summary.json").read_text()) == SUMMARY
    assert list(JsonlJournal(here / "out" / "journal.jsonl", readonly=True).read()) == FACTS
    assert (here / "out" / "cluster.csv").read_text().splitlines()[:2] == [
        "time_s,busy_gpus,gpus,pending,running,blocking_index",
        "0.0,0,4,0,0,0.0",
    ]


def test_read_back_they_give_the_same_figures(here: Path, record: Record) -> None:
    write("out", record)
    assert read_job_csv(here / "out" / "job.csv") == record.jobs
    assert figures(read_record(here / "out" / "job.csv")) == figures(record)
    assert figures(read_record(here / "out" / "job.csv", gpus=4)) == figures(record)
    (here / "out" / "cluster.csv").unlink()
    assert figures(read_record(here / "out" / "job.csv")).gpu_utilisation is None
    assert figures(read_record(here / "out" / "job.csv", gpus=4)) == figures(record)


@pytest.mark.parametrize("policy", ["fifo", "srtf", "muri-s", "antman"])
def test_gpu_seconds_of_jobs_add_up_to_those_of_the_cluster(policy: str) -> None:
    """Whole GPUs, weaves and shared ones alike."""
    outcome = simulate(Setting(read_cluster("4x8"), small().jobs, policy))
    record = gather(outcome.journal.read())
    busy = fsum(row[1] * (after[0] - row[0]) for row, after in pairwise(record.rows))
    assert fsum(job.gpu_seconds for job in record.jobs) == pytest.approx(busy, rel=1e-12)
    assert record.rows[-1][1:] == (0, 32, 0, 0, 0)
    states = outcome.state.jobs
    assert [(j.status, j.first_start, j.end, j.runs, j.preemptions) for j in record.jobs] == [
        (s.status, s.first_start, s.ended_at, s.run, s.preemptions) for s in states.values()
    ]


def test_parents_are_made(here: Path, record: Record) -> None:
    write("x/y/out", record)
    assert names(here / "x" / "y") == ["out"]


def test_ours_and_empty_ones_are_replaced(here: Path, record: Record) -> None:
    (here / "out").mkdir()
    write("out", record)
    (here / "out" / "job.csv").write_text("old")
    write("out", record)
    assert (here / "out" / "job.csv").read_text() != "old"
    assert names(here) == ["out"]


def test_a_link_stays_a_link(here: Path, record: Record) -> None:
    (here / "real").mkdir()
    (here / "link").symlink_to("real")
    write("link", record)
    assert (here / "link").is_symlink()
    assert (here / "real" / "job.csv").is_file()


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"thesis.tex": "x"}, "not the output of a simulation"),
        ({"summary.json": "{}"}, "not the output of a simulation"),
        ({"summary.json": "[" * 100_000}, "not the output of a simulation"),
        ({"summary.json": json.dumps(SUMMARY), "notes.txt": "x"}, "contains more than .* notes.txt"),
    ],
)
def test_what_is_not_ours_is_kept_unless_forced(here: Path, record: Record, files: dict[str, str], says: str) -> None:
    (here / "out").mkdir()
    for name, text in files.items():
        (here / "out" / name).write_text(text)
    with pytest.raises(InputError, match=says) as error:
        write("out", record)
    assert "--force" in error.value.hint
    assert names(here / "out") == sorted(files)
    write("out", record, force=True)
    assert len(names(here / "out")) == 4
    assert names(here) == ["out"]


@pytest.mark.parametrize("directory", [".", "..", "/", "~"])
def test_some_directories_are_never_replaced(here: Path, directory: str) -> None:
    (here / "inside").mkdir()
    os.chdir(here / "inside")
    with pytest.raises(InputError, match="cannot be replaced"):
        check_target(os.path.expanduser(directory), force=True)


@pytest.mark.parametrize("directory", ["file", "file/out", "", "x" * 300])
def test_places_where_nothing_can_be_made(here: Path, directory: str) -> None:
    (here / "file").write_text("x")
    with pytest.raises(InputError):
        check_target(directory)
    assert names(here) == ["file"]


def test_checking_leaves_nothing(here: Path) -> None:
    check_target("x/y/out")
    assert names(here) == []


class Breaking(MemoryJournal):
    """Goes wrong in the middle of being written."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def read(self, after: int = 0, *, page: int = 0) -> Iterator[Fact]:
        yield from FACTS[after:3]
        raise self._error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("a bug"), MemoryError()], ids=repr)
def test_whatever_goes_wrong_nothing_is_left(here: Path, record: Record, error: BaseException) -> None:
    write("old", record)
    before = (here / "old" / "job.csv").read_bytes()
    for target in ("new/deep", "old"):
        with pytest.raises(type(error)):
            write_output(target, record, Breaking(error), SUMMARY)
    assert names(here) == ["old"]
    assert (here / "old" / "job.csv").read_bytes() == before


def test_a_full_disk_is_one_clear_error(here: Path, record: Record) -> None:
    """Stood in for by a limit on the size of files, which the system enforces in the same place."""
    journal = MemoryJournal(*(FACTS * 1000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(WeftError, match=r"cannot write out: .*nothing was written"):
            write_output("out", record, journal, SUMMARY)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(here) == []


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "empty file"),
        (HEADER, 1, "no jobs"),
        ("job_id,gpus\na,1\n", 1, "needs a column 'status'"),
        (HEADER + "a,1,done,0,0,5,1,0,0,5,5,1\na,1,done,0,0,5,1,0,0,5,5,1\n", 3, "occurs twice"),
        (HEADER + "a,-1,done,0,0,5,1,0,0,5,5,1\n", 2, "bad gpus"),
        (HEADER + "a,1,finished,0,0,5,1,0,0,5,5,1\n", 2, "bad status"),
        (HEADER + "a,1,done,x,0,5,1,0,0,5,5,1\n", 2, "bad submit_s"),
        (HEADER + "a,1,done,nan,0,5,1,0,0,5,5,1\n", 2, "bad submit_s"),
        (HEADER + "a,1,done,0,0,,1,0,0,5,5,1\n", 2, "bad end_s"),
        (HEADER + "a,1,waiting,0,,5,0,0,5,0,,\n", 2, "bad end_s"),
        (HEADER + "a,1,done,6,6,5,1,0,0,5,5,1\n", 2, "bad end_s"),
        (HEADER + "a,1,done,6,5,7,1,0,0,5,5,1\n", 2, "bad first_start_s"),
        (HEADER + "a,1,done,0,,5,1,0,0,5,5,1\n", 2, "bad first_start_s"),
        (HEADER + ",1,done,0,0,5,1,0,0,5,5,1\n", 2, "bad job_id"),
        (HEADER + "a,1,done,0,0,5,1,0,0,5,5\n", 2, "too few cells"),
    ],
)
def test_a_malformed_job_csv_is_pointed_at(here: Path, text: str, line: int, says: str) -> None:
    (here / "job.csv").write_text(text)
    with pytest.raises(InputError, match=says) as error:
        read_job_csv("job.csv")
    assert error.value.where == f"job.csv:{line}"
