"""Answers of a scheduler about jobs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from support.running.local_scheduler import Site, site, until
from weft.access.client import Client


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site({"gpus": "0,1"}) as made:
        yield made


def test_history_says_how_many_more_there_are_of_those_asked_for(here: Site) -> None:
    with here.client() as client:
        old, *recent = (_ended(here) for _ in range(3))
        before, after = (_ended_at(client, job) for job in (old, recent[0]))
        since = (before + after) / 2
        found = client.history(since=since, limit=1)
        assert ([job.id for job in found.jobs], found.more) == ([recent[1]], 1)
        assert client.history(since=since).more == 0
        assert old not in [job.id for job in client.history(since=since).jobs]


def test_an_array_after_an_array_keeps_one_entry_for_all_its_tasks(here: Site) -> None:
    with here.client() as client:
        here.weft("submit", "--array", "0-3", "--gpus", "0", "--hold", "--name", "first", "--", "true", check=True)
        first = client.jobs(["@"]).jobs[0].id.partition("_")[0]
        here.weft("submit", "--array", "0-2", "--gpus", "0", "--after", first, "--", "true", check=True)
        second = client.jobs(["@"]).jobs[0].id.partition("_")[0]
        tasks = client.jobs([second]).jobs
        assert [(task.after, task.status) for task in tasks] == [([first], "blocked")] * 3
        round_about = here.weft("set", f"{first}_1", f"after={second}_0")
        assert "cyclic" in round_about.stderr
        client.change("release", [first])
        assert {client.wait(task.id).status for task in tasks} == {"done"}


def _ended(here: Site) -> str:
    with here.client() as client:
        job = here.submit(client, "true", gpus="0")
        until(lambda: client.jobs([job]).jobs[0].status == "done")
        return job


def _ended_at(client: Client, job: str) -> float:
    return datetime.fromisoformat(client.job(job).ended or "").timestamp()


def test_the_estimate_follows_the_time_limit_unless_it_was_given(here: Site) -> None:
    with here.client() as client:
        plain = here.submit(client, "true", hold="yes", time="10")
        given = here.submit(client, "true", hold="yes", time="10", duration="5m")
        client.change("set", [plain, given], settings={"time": "2h"})
        jobs = _journalled(here)
        assert (jobs[plain]["declared_s"], jobs[given]["declared_s"]) == (7200.0, 300.0)
        client.change("set", [plain], settings={"priority": "3"})
        assert _journalled(here)[plain]["declared_s"] == 7200.0
        client.change("cancel", [plain, given])


def test_what_could_not_run_any_more_is_not_restarted(here: Site) -> None:
    program = here.root / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with here.client() as client:
        job = here.submit(client, str(program), gpus="0")
        assert client.wait(job).status == "done"
        program.unlink()
        reply = client.change("restart", [job])
        assert ([each.name for each in reply.refused], list(reply.ids)) == ([job], [])
        assert "there is no program" in reply.refused[0].value


def _journalled(here: Site) -> dict[str, dict[str, Any]]:
    """Each job as the journal has it."""
    with here.client() as client:
        position = client.queue().position
        facts = itertools.islice(client.watch(0), position)
        return {fact["job"]["id"]: fact["job"] for fact in facts if fact["fact"] in ("Submitted", "Edited")}
