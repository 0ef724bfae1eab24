"""Jobs of several processes on one machine: one for each GPU, started by Weft or by torchrun."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

import pytest

from support.running.local_scheduler import Site, site, until
from weft.access.client import Client
from weft.access.wire.messages import JobSpec, SubmitRequest, Variable
from weft.errors import InputError


@pytest.fixture(scope="module")
def here() -> Iterator[Site]:
    with site({"gpus": "0,1,2", "min_run_s": 0}) as made:
        yield made


def submit(here: Site, client: Client, *command: str, gpus: int = 2, **more: object) -> str:
    path = f"{here.root}:{os.environ['PATH']}"
    spec = JobSpec(command=command, gpus=gpus, **more)  # type: ignore[arg-type]
    env = [Variable(name="PATH", value=path)]
    (job,) = client.submit(SubmitRequest(jobs=[spec], env=env, chdir=str(here.root)))
    return job


def result(client: Client, job: str) -> tuple[str, list[str]]:
    until(lambda: client.jobs([job]).jobs[0].status in ("done", "failed"))
    text = b"".join(client.logs(job))
    return client.jobs([job]).jobs[0].status, sorted(text.decode().splitlines())


def test_one_process_for_each_gpu(here: Site) -> None:
    with here.client() as client:
        job = submit(here, client, "sh", "-c", "echo $RANK of $WORLD_SIZE at $MASTER_ADDR", per_gpu=True)
        assert result(client, job) == ("done", ["0 of 2 at 127.0.0.1", "1 of 2 at 127.0.0.1"])


def test_it_stays_so_when_the_job_is_changed_or_run_again(here: Site) -> None:
    with here.client() as client:
        job = submit(here, client, "sh", "-c", "echo $RANK", per_gpu=True, hold=True)
        client.change("set", [job], settings={"gpus": "3"})
        client.change("release", [job])
        assert result(client, job) == ("done", ["0", "1", "2"])
        (again,) = client.change("restart", [job]).ids
        assert result(client, again) == ("done", ["0", "1", "2"])


def test_one_for_each_of_no_gpus_is_refused(here: Site) -> None:
    with here.client() as client, pytest.raises(InputError, match="per_gpu"):
        submit(here, client, "true", gpus=0, per_gpu=True)


def test_torchrun_is_told_through_its_own_variables(here: Site) -> None:
    program = here.root / "torchrun"
    program.write_text("#!/bin/sh\necho $PET_NNODES $PET_NPROC_PER_NODE $PET_RDZV_ENDPOINT ${RANK-none}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with here.client() as client:
        assert result(client, submit(here, client, "torchrun", "x")) == ("done", ["1 2 localhost:0 none"])
