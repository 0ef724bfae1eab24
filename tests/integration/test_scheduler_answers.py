"""What a scheduler answers about jobs, while they run and afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pytest

from live import Site, site, until
from weft.client import Client


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site({"gpus": "0,1"}) as made:
        yield made


def test_the_log_of_a_job_that_never_stops_writing_ends(here: Site) -> None:
    with here.client() as client:
        job = here.submit(client, "sh", "-c", "while :; do echo y; done", gpus="0")
        until(lambda: here.weft("logs", job).stdout)
        assert here.weft("logs", job, check=True).stdout.startswith("y\n")
        assert here.weft("logs", "-n", "3", job, check=True).stdout.startswith("y\n")
        client.change("cancel", [job])


def test_history_says_how_many_more_there_are_of_those_asked_for(here: Site) -> None:
    with here.client() as client:
        old, *recent = (_ended(here) for _ in range(3))
        before, after = (_ended_at(client, job) for job in (old, recent[0]))
        since = (before + after) / 2
        found = client.query("history", since=since, limit=1)
        assert ([job["id"] for job in found["jobs"]], found["more"]) == ([recent[1]], 1)
        assert client.query("history", since=since)["more"] == 0
        assert old not in [job["id"] for job in client.query("history", since=since)["jobs"]]


def _ended(here: Site) -> str:
    with here.client() as client:
        job = here.submit(client, "true", gpus="0")
        until(lambda: client.query("job", [job])["jobs"][0]["status"] == "done")
        return job


def _ended_at(client: Client, job: str) -> float:
    return datetime.fromisoformat(client.query("job", [job])["jobs"][0]["ended"]).timestamp()
