"""Access to the terminal of a job on a cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.running.local_scheduler import until
from support.running.secured_cluster import Gate, gate
from weft.access.client.remote import RemoteTransport
from weft.access.endpoints.credentials import Credentials
from weft.access.wire.messages import JobSpec, SubmitRequest, TerminalPart
from weft.errors import InputError, NotFound, NotPermitted


@pytest.fixture(scope="module")
def here() -> Iterator[Gate]:
    with gate(worker=True) as made:
        yield made


def call(here: Gate, who: Credentials, name: str, **part: Any) -> list[TerminalPart]:
    transport = RemoteTransport(here.where, who)
    try:
        return list(transport.converse(name, iter([TerminalPart(**part)])))
    finally:
        transport.close()


@contextmanager
def running(here: Gate, terminal: str) -> Iterator[str]:
    """A job of the owner of the scheduler."""
    at = ("--scheduler", str(here.where))
    transport = RemoteTransport(here.where, here.owner())
    spec = JobSpec(command=["sleep", "600"], gpus=0, terminal=terminal)
    (job,) = transport.call("Submit", SubmitRequest(jobs=[spec], chdir="/"), 30.0).ids
    transport.close()
    until(lambda: json.loads(here.weft("show", *at, "--json", job).stdout)["jobs"][0]["status"] == "running")
    yield job
    here.weft("cancel", *at, "-y", job)


def test_a_terminal_is_for_the_owner_of_its_job(here: Gate) -> None:
    with running(here, "xterm") as job:
        with pytest.raises(NotPermitted, match="belongs to"):
            call(here, here.credentials("user", "eve"), "OpenTerminal", job=job, run=1)
        with pytest.raises(NotPermitted, match="belongs to"):
            call(here, here.credentials("user", "eve"), "OpenTerminal", job=job, run=1, command=["id"])
        with pytest.raises(NotFound, match=f"run 2 of job {job} does not run"):
            call(here, here.owner(), "OpenTerminal", job=job, run=2)


def test_a_job_without_a_terminal_says_how_to_get_one(here: Gate) -> None:
    with running(here, "") as job, pytest.raises(InputError, match="has no terminal"):
        call(here, here.owner(), "OpenTerminal", job=job, run=1)


def test_only_a_worker_that_was_asked_serves_a_terminal(here: Gate) -> None:
    with pytest.raises(NotPermitted):
        call(here, here.credentials("user", "eve"), "ServeTerminal", key="0" * 32)
    with pytest.raises(NotFound, match="no client waits"):
        call(here, here.credentials("worker", "eve", "n9"), "ServeTerminal", key="0" * 32)
