"""GPUs as a driver shows them, played by a file: strangers, leftovers, GPUs that go, jobs that need more."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.running.local_scheduler import Site, site, until
from weft.access.client import Client

STRANGER = {"pid": 1, "name": "notebook", "used_mb": 2000}
OOM = "import sys; print('torch.OutOfMemoryError: CUDA out of memory.', file=sys.stderr); sys.exit(1)"


class Driver:
    """The file that plays it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.devices: list[dict[str, Any]] = [
            {"uuid": f"GPU-{index}", "model": "RTX3090", "memory_mb": 24576} for index in range(2)
        ]
        self.write()

    def write(self) -> None:
        beside = self.path.with_suffix(".tmp")
        beside.write_text(json.dumps({"devices": self.devices}))
        beside.replace(self.path)

    def set(self, gpu: int, **values: Any) -> None:
        self.devices[gpu] = {**self.devices[gpu], **values}
        self.write()


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path / "gpus.json")


@pytest.fixture
def here(driver: Driver) -> Iterator[Site]:
    with site({"min_run_s": 0}, WEFT_NVML_FAKE=str(driver.path)) as made:
        yield made


def reasons(client: Client, job: str) -> list[str]:
    return [reason.code for reason in client.explain(job).reasons]


def status(client: Client, job: str) -> str:
    return str(client.jobs([job]).jobs[0].status)


def test_a_job_is_told_its_gpus_by_uuid(here: Site) -> None:
    with here.client() as client:
        job = here.submit(
            client, "sh", "-c", "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES $WEFT_GPU_IDS", gpu_ids="1"
        )
        client.wait(job)
        assert b"".join(client.logs(job)) == b"PCI_BUS_ID GPU-1 1\n"


def test_other_peoples_gpus_are_left_alone(here: Site, driver: Driver) -> None:
    driver.set(0, processes=[STRANGER])
    with here.client() as client:
        until(lambda: client.gpus().gpus[0].blocked)
        first, second = (here.submit(client, "sleep", "60") for _ in range(2))
        until(lambda: status(client, first) == "running")
        assert client.jobs([first]).jobs[0].place.endswith("[1]")
        assert "ForeignProcess" in reasons(client, second)
        (block,) = client.gpus().gpus[0].blocked
        assert "notebook" in block.detail


def test_a_gpu_that_goes_is_not_used_until_it_is_back(here: Site, driver: Driver) -> None:
    with here.client() as client:
        driver.set(1, vanished=True)
        until(lambda: client.gpus().gpus[1].blocked)
        here.submit(client, "sleep", "60")
        job = here.submit(client, "true")
        assert "ReqNodeNotAvail" in reasons(client, job)
        driver.set(1, vanished=False)
        assert client.wait(job).exit_code == 0


def test_memory_that_a_job_leaves_behind_makes_its_gpu_dirty(here: Site, driver: Driver) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "0.5", gpu_ids="0")
        until(lambda: status(client, job) == "running")
        driver.set(0, used_mb=9000)
        client.wait(job)
        (block,) = until(lambda: client.gpus().gpus[0].blocked)
        assert (block.reason, "9000 MB" in block.detail) == ("DirtyGpu", True)
        waits = here.submit(client, "true", gpu_ids="0")
        assert "DirtyGpu" in reasons(client, waits)
        driver.set(0, used_mb=0)
        assert client.wait(waits).exit_code == 0


def test_a_process_where_its_job_has_no_business_is_told_as_long_as_it_is_there(here: Site, driver: Driver) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "60", gpu_ids="0")
        pid = until(lambda: _pid(here, job))
        driver.set(1, processes=[{"pid": pid, "name": "sleep", "used_mb": 2000}])
        until(lambda: client.gpus().gpus[1].misplaced == [job])
        assert client.gpus().gpus[0].misplaced == []
        assert client.jobs([job]).jobs[0].misplaced == [1]
        assert reasons(client, job) == ["None", "MisplacedProcess"]
        assert f"({job} uses it without an allocation)" in here.weft("gpus").stdout
        assert "GPU 1, which it was not given" in here.weft("show", job).stdout
        assert "[1], which is not allocated to it" in here.weft("why", job).stdout
        driver.set(1, processes=[])
        until(lambda: client.jobs([job]).jobs[0].misplaced == [])
        assert reasons(client, job) == ["None"]
        assert client.gpus().gpus[1].misplaced == []


def test_what_a_job_really_needs_is_what_it_holds(here: Site, driver: Driver) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "60", gpu_ids="0", memory="1000", max_jobs_per_gpu="2")
        pid = until(lambda: _pid(here, job))
        driver.set(0, processes=[{"pid": pid, "name": "sleep", "used_mb": 20000}])
        until(lambda: client.gpus().gpus[0].reserved_mb > 20000)
        beside = here.submit(client, "true", gpu_ids="0", memory="8000", max_jobs_per_gpu="2")
        assert status(client, beside) == "waiting"


def _pid(here: Site, job: str) -> int | None:
    """Return the pid of the command itself."""
    path = here.paths.jobs / job / "1" / "started.json"
    return int(json.JSONDecoder().raw_decode(path.read_text())[0]["leader"][1]) if path.exists() else None


def test_out_of_memory_beside_others_is_tried_again_alone(here: Site) -> None:
    with here.client() as client:
        beside = here.submit(client, "sleep", "3", gpu_ids="0", memory="4000", max_jobs_per_gpu="2")
        until(lambda: status(client, beside) == "running")
        job = here.submit(client, sys.executable, "-c", OOM, gpu_ids="0", memory="4000", max_jobs_per_gpu="2")
        until(lambda: client.jobs([job]).jobs[0].why == "oom")
        assert status(client, job) == "waiting", "it waits to have the GPU for itself"
        found = client.wait(job)
        assert (found.state, found.run, found.failures) == ("OOM", 2, 0)
        assert client.jobs([beside]).jobs[0].status == "done"


def test_a_driver_that_breaks_off_stops_nothing(here: Site, driver: Driver) -> None:
    with here.client() as client:
        job = here.submit(client, "sleep", "3")
        until(lambda: status(client, job) == "running")
        driver.path.write_text("{")
        os.utime(driver.path)
        assert client.wait(job).exit_code == 0
