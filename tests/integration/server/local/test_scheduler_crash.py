"""The scheduler is killed at random moments: every job ends exactly once, with its own code, and none runs twice."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import Site, is_alive, site, until

KILLS = 20
JOBS = 60
WORK = """
import os, sys, time
path, seconds, code = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
with open(path, "a") as file:
    file.write(f"began {os.getpid()}\\n")
time.sleep(seconds)
with open(path, "a") as file:
    file.write(f"ended {os.getpid()}\\n")
sys.exit(code)
"""


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1,2,3", "min_run_s": 0}) as made:
        (made.root / "work.py").write_text(WORK)
        yield made


def notes(here: Site, name: str) -> list[str]:
    path = here.root / f"{name}.txt"
    return path.read_text().splitlines() if path.exists() else []


def work(here: Site, name: str, seconds: float, code: int) -> list[str]:
    path = str(here.root / f"{name}.txt")
    return [sys.executable, "-S", "-E", str(here.root / "work.py"), path, str(seconds), str(code)]


def test_nothing_is_lost_or_run_twice(here: Site) -> None:
    chance = random.Random(7)
    codes: dict[str, int] = {}
    with here.client() as client:
        long = here.submit(client, *work(here, "long", 600.0, 0), gpus="0")
        until(lambda: notes(here, "long"))
        until(lambda: client.jobs([long]).jobs[0].status == "running")
        for number in range(JOBS):
            command = work(here, f"j{number}", chance.uniform(0.0, 0.6), number % 5)
            codes[here.submit(client, *command, name=f"j{number}", gpus="1")] = number % 5
    pid = int(notes(here, "long")[0].split()[1])
    for _ in range(KILLS):
        time.sleep(chance.uniform(0.0, 0.25))
        here.kill9()
        with here.client() as client:
            (found,) = client.jobs([long]).jobs
            assert (found.status, found.run) == ("running", 1)
            assert is_alive(pid)
    with here.client() as client:
        ended = {job: client.wait(job) for job in codes}
        assert {job: found.exit_code for job, found in ended.items()} == codes
        client.change("cancel", [long])
        assert client.wait(long).status == "cancelled"
    for job in codes:
        name = ended[job].name
        assert [line.split()[0] for line in notes(here, name)] == ["began", "ended"], f"{name}: {notes(here, name)}"
    assert [line.split()[0] for line in notes(here, "long")] == ["began"]


def test_a_stop_that_the_scheduler_did_not_live_to_see_is_carried_out(here: Site) -> None:
    with here.client() as client:
        job = here.submit(client, "sh", "-c", "trap '' TERM; echo up; sleep 600", gpus="1", grace="1s")
        log = Path(here.paths.jobs / job / "1" / "output.log")
        until(lambda: log.exists() and log.read_bytes() == b"up\n")
        client.change("cancel", [job])
    here.kill9()
    with here.client() as client:
        assert client.wait(job).status == "cancelled"


def test_an_id_is_not_given_twice(here: Site) -> None:
    with here.client() as client:
        first = here.submit(client, "true")
        client.wait(first)
    here.kill9()
    with here.client() as client:
        assert here.submit(client, "true") != first
