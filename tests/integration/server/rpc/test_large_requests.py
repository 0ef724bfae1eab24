"""Requests that are too large are refused before they cost anything; large batches are submitted in parts."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, site, until
from weft.access.client.local import LocalTransport
from weft.access.wire.messages import JobSpec, SubmitRequest
from weft.access.wire.service import MAX_REQUEST_BYTES
from weft.errors import InputError

ARRAY = 20_000


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0", "min_run_s": 0}) as made:
        yield made


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.parametrize("size", [5 << 20, 60 << 20])
def test_a_word_of_megabytes_is_refused_before_it_is_read(here: Site, size: int) -> None:
    with here.client():
        before = cpu_s(here.pid())
        request = SubmitRequest(jobs=[JobSpec(command=["x" * size], chdir="/tmp")])
        for _ in range(5):
            with pytest.raises(InputError, match=r"MB, and the scheduler accepts 4\.2 MB"):
                LocalTransport(here.paths, start=False).call("Submit", request, 60.0)
        assert cpu_s(here.pid()) - before < 1.0


def test_a_client_says_so_before_it_sends_it(here: Site) -> None:
    with here.client() as client, pytest.raises(InputError, match=r"the job has 62.9 MB"):
        client.submit(SubmitRequest(jobs=[JobSpec(command=["x" * (60 << 20)])]))


@pytest.mark.parametrize("caller_dies", [False, True])
def test_a_scheduler_that_is_killed_completes_the_array(here: Site, caller_dies: bool) -> None:
    """Its caller may be gone, or sends the request again: no task is missing, and none is there twice."""
    with here.client():
        pass
    words = ("submit", "--quiet", "--hold", "--array", f"0-{ARRAY - 1}", "--key", "k", "--", "true")
    caller = subprocess.Popen(
        [sys.executable, "-m", "weft", *words], env=here.env, cwd=here.root, stdout=subprocess.PIPE, text=True
    )
    until(lambda: facts(here) > 1000)
    if caller_dies:
        caller.kill()
    here.kill9()
    assert list(here.paths.batches.iterdir()), "it was killed before the end"
    with here.client() as client:
        until(lambda: client.queue(limit=1).waiting == ARRAY, 120.0)
        until(lambda: not list(here.paths.batches.iterdir()))
    out, _ = caller.communicate(timeout=120.0)
    assert caller_dies or out == "1\n"
    assert here.weft(*words, timeout_s=120.0).stdout == "1\n"
    with here.client() as client:
        assert client.queue(limit=1).waiting == ARRAY


def facts(here: Site) -> int:
    """Return how many facts the journal has on disk."""
    with closing(sqlite3.connect(f"file:{here.paths.journal_url}?mode=ro", uri=True)) as journal:
        return int(journal.execute("select coalesce(max(position), 0) from facts").fetchone()[0])


@pytest.mark.parametrize(
    ("jobs", "letters"), [(15_000, 600), pytest.param(100_000, 40, marks=pytest.mark.soak)], ids=["parts", "many"]
)
def test_a_file_of_jobs_that_is_larger_than_a_request(here: Site, jobs: int, letters: int) -> None:
    tasks = [{"name": f"job-{at}", "command": ["true", "x" * letters], "hold": True} for at in range(jobs)]
    tasks[-1]["after"] = "job-0"
    tasks[1]["after"] = f"job-{jobs - 2}"
    assert sum(len(json.dumps(task)) for task in tasks) > MAX_REQUEST_BYTES
    (here.root / "tasks.json").write_text(json.dumps(tasks))
    began = time.monotonic()
    done = here.weft("submit", "--quiet", "--config", "tasks.json", "--key", "k", timeout_s=300.0)
    assert done.returncode == 0, done.stderr
    ids = done.stdout.split()
    assert len(set(ids)) == jobs, f"{len(ids)} ids after {time.monotonic() - began:.1f} s"
    again = here.weft("submit", "--quiet", "--config", "tasks.json", "--key", "k", timeout_s=300.0)
    assert again.stdout.split() == ids
    with here.client() as client:
        last, second = client.jobs([ids[-1], ids[1]], timeout_s=60.0).jobs
        assert (last.name, last.after) == (f"job-{jobs - 1}", [ids[0]])
        assert (second.name, second.after) == ("job-1", [ids[-2]])
        assert client.queue(limit=1).waiting == jobs
