"""More requests than the scheduler can answer at once: it gets slower and drops none. Clients that do not read their
answers cost little memory and delay no other client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from support.running.live_cluster import Cluster, cluster
from support.running.local_scheduler import until
from weft.access.endpoints.credentials import open_channel
from weft.access.wire.messages import JobSpec, LogsRequest, QueryRequest, SubmitRequest, Variable, WatchRequest
from weft.access.wire.service import call as method

BURST = 2000
"""More than a connection may have calls at a time."""
DEAF = 40
LOG_MB = 30
MOST_MB = 150.0
"""The memory of all of them together: if it were kept for each, it would be more than a gigabyte."""
PATIENCE_S = 300.0


@pytest.fixture(scope="module")
def here() -> Iterator[Cluster]:
    with cluster("n1", options=("--policy", "fifo", "--min-run", "0")) as made:
        yield made


def held(at: int, kilobytes: int = 0) -> SubmitRequest:
    """A job that only waits."""
    env = [Variable(name="FILLING", value="x" * 1024 * kilobytes)] if kilobytes else []
    return SubmitRequest(jobs=[JobSpec(command=["true"], hold=True, name=f"burst-{at}", env=env)], chdir="/")


def test_a_burst_of_submits_is_taken_to_the_last(here: Cluster) -> None:
    shown = here.credentials()
    with open_channel(here.address, shown) as line:
        submit: Any = method(line, "Submit")
        coming = [submit.future(held(at), metadata=shown.metadata()) for at in range(BURST)]
        ids = [job for each in coming for job in each.result(PATIENCE_S).ids]
    assert len(set(ids)) == BURST
    with here.channel() as call:
        waiting = json.loads(call("Query")(QueryRequest(what="queue", limit=BURST), timeout=PATIENCE_S).json)["jobs"]
    assert {job["id"] for job in waiting} == set(ids)
    here.weft("cancel", "--all", "-y")


def test_who_does_not_read_costs_little_and_holds_up_nobody(here: Cluster) -> None:
    """Facts are many, and a log is long; each of the clients reads the first part and no more."""
    script = f"head -c {LOG_MB << 20} /dev/zero | tr '\\0' x; sleep 600"
    writer = here.submit("sh", "-c", script, flags=("--gpus", "1"))
    log = here.run_folder("n1", writer) / "output.log"
    until(lambda: log.exists() and log.stat().st_size >= LOG_MB << 20)
    with here.channel() as call:
        for at in range(250):
            call("Submit")(held(at, 40), timeout=PATIENCE_S)
        newest = json.loads(call("Query")(QueryRequest(what="queue"), timeout=PATIENCE_S).json)["position"]
    before = here.memory_mb()
    with ExitStack() as open_ones:
        kept = []  # what nobody holds any more is ended
        for _ in range(DEAF):
            call = open_ones.enter_context(here.channel())
            facts = call("Watch")(WatchRequest(after=newest - 450), timeout=PATIENCE_S)
            log_of = call("Logs")(LogsRequest(job=writer, follow=True), timeout=PATIENCE_S)
            assert next(facts).position
            assert next(log_of).text
            kept += [facts, log_of]
        with here.channel() as call:
            for at in range(250):
                call("Submit")(held(at, 40), timeout=PATIENCE_S)
        job = here.submit("sh", "-c", "echo heard; exit 4", flags=("--gpus", "1"))
        assert here.wait(job) == 4
        assert here.logs(job) == "heard\n"
        assert here.memory_mb() - before < MOST_MB
    here.weft("cancel", "--all", "-y")
