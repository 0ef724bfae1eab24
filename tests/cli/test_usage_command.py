"""`weft usage`: GPU-hours and the efficiency of jobs, on a real scheduler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.running.local_scheduler import site, until
from support.weft_cli import Weft

BURN = ("sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done")


def test_gpu_time_and_cpu_time_of_real_jobs(weft: Weft) -> None:
    one = weft.submit("--gpus", "1", "--memory", "100", "--name", "burn", "--group", "g", "--", *BURN)
    two = weft.submit("--gpus", "0", "--array", "0-1", "--", "true")
    weft("wait", one, two)
    (row,) = weft.json("usage")["rows"]
    assert row["jobs"] == 3
    assert row["gpu_hours"] > 0
    assert (row["gpu_utilisation"], row["energy_kwh"]) == (None, None)
    assert {row["name"] for row in weft.json("usage", "--by", "group")["rows"]} == {"g", ""}
    assert {row["name"] for row in weft.json("usage", "--by", "team")["rows"]} == {""}
    assert weft.json("usage", "--user", "nemo")["rows"] == []
    assert weft.json("usage", "--team", "nemo")["rows"] == []
    assert weft.json("metrics", "--team", "nemo")["jobs"] == 0
    (job,) = weft.json("usage", "burn")["jobs"]
    assert (job["id"], job["status"], job["gpus"], job["memory_reserved_mb"]) == (one, "done", 1, 100)
    assert job["cpu_s"] > 0
    assert job["rss_mb"] is not None
    assert job["gpu_utilisation"] is None
    assert job["advice"] == [], "a short job tells too little"
    assert [task["id"] for task in weft.json("usage", two)["jobs"]] == [f"{two}_0", f"{two}_1"]
    text = weft("usage", one).out
    assert f"{one} (burn)" in text
    assert "not sampled" in text
    assert weft("usage").out.splitlines()[0].split() == ["USER", "JOBS", "GPU-HOURS", "GPU", "BUSY", "ENERGY"]
    assert "no usage of a job '999'" in weft.fails("usage", "999", code=3)
    assert "--since" in weft.fails("usage", "--since", "soon")


@pytest.mark.soak
def test_gpus_are_sampled_while_a_job_runs(tmp_path: Path) -> None:
    driver = tmp_path / "nvml.json"

    def write(energy_j: int) -> None:
        row = {"uuid": "GPU-0", "model": "A100", "memory_mb": 40000, "used_mb": 9000, "utilisation": 40}
        fresh = tmp_path / "fresh"
        fresh.write_text(json.dumps({"devices": [{**row, "energy_j": energy_j}]}))
        fresh.replace(driver)

    write(1000)
    with site({"foreign": "ignore", "idle_s": 0.0}, WEFT_NVML_FAKE=str(driver)) as here:
        job = here.weft("submit", "--quiet", "--memory", "20000", "--", "sleep", "35", check=True).stdout.strip()
        energy = iter(range(2000, 1_000_000, 500))

        def is_done() -> bool:
            write(next(energy))
            (found,) = json.loads(here.weft("show", job, "--json", check=True).stdout)["jobs"]
            return bool(found["status"] == "done")

        until(is_done)

        def sampled() -> dict[str, object] | None:
            (found,) = json.loads(here.weft("usage", job, "--json", check=True).stdout)["jobs"]
            return dict(found) if found["sampled_s"] else None

        found = until(sampled)
        (row,) = json.loads(here.weft("usage", "--by", "model", "--json", check=True).stdout)["rows"]
    assert found["gpu_utilisation"] == pytest.approx(0.4)
    assert found["memory_mb"] == 9000
    assert found["energy_kwh"] > 0
    assert (row["name"], row["gpu_utilisation"]) == ("A100", 0.4)
