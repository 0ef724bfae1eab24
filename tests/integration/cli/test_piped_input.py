"""`weft run` at the end of a pipe, as a shell calls it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from support.running.live_cluster import cluster
from support.running.local_scheduler import PATIENCE_S, Site, site
from weft.cli.submit.standard_input import MAX_BYTES

RUN = ("run", "-q", "--gpus", "0", "--")


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site({"gpus": ""}) as made:
        yield made


def jobs_of(here: Site) -> int:
    with here.client() as client:
        return len(client.queue().jobs) + len(client.history().jobs)


def test_the_job_gets_what_is_piped_in(here: Site) -> None:
    assert here.weft(*RUN, "cat", stdin="data\n").stdout == "data\n"


def test_a_file_as_standard_input_is_read_from_its_position(here: Site) -> None:
    path = here.root / "numbers"
    path.write_text("1\n2\n3\n")
    script = f"(read first; {sys.executable} -m weft {' '.join(RUN)} cat) < {path}"
    done = subprocess.run(
        ["bash", "-c", script], env=here.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2\n3\n")


def test_too_much_is_refused_and_nothing_is_queued(here: Site) -> None:
    before = jobs_of(here)
    done = here.weft(*RUN, "cat", stdin="x" * (MAX_BYTES + 1))
    assert done.returncode == 2
    assert "standard input has more than 16 MB" in done.stderr
    assert jobs_of(here) == before


def test_a_pipe_that_stays_open_and_empty_does_not_hold_up_the_job(here: Site) -> None:
    reading, writing = os.pipe()
    try:
        command = [sys.executable, "-m", "weft", *RUN, "echo", "ran"]
        done = subprocess.run(
            command, env=here.env, stdin=reading, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    assert "nothing came on standard input" in done.stderr


def test_the_job_gets_it_on_a_node_of_a_cluster() -> None:
    with cluster() as there:
        there.work("n1")
        done = there.call(*RUN, "wc", "-c", stdin="x" * 5_000_000)
        assert (done.returncode, done.stdout) == (0, "5000000\n"), done.stderr
