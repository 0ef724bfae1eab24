"""The commands and the script of a pool of Slurm; what its answers mean."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from weft.model import Pool
from weft.server.pools.provider import AllocationSpec, Site, last_lines
from weft.server.pools.slurm import Slurm

SITE = Site("0a1b2c", "head:50051", False, ("/venv/bin/python", "-m", "weft"))
POOL = Pool("a100", "slurm", 8, 4, 28800.0, "A100", 81920, options=("-p", "gpu", "-A", "proj"))
STAND_IN = """\
#!/bin/sh
echo "$0 $*" >> {root}/calls
cat {root}/answer 2>/dev/null || true
"""


def spec(root: Path, pool: Pool = POOL) -> AllocationSpec:
    return AllocationSpec("a100-0-abc", "a100-0", pool, SITE, str(root / "pool"))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("sbatch", "squeue", "scancel"):
        (tmp_path / name).write_text(STAND_IN.format(root=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "pool").mkdir()
    return tmp_path


def test_options_of_the_site_are_passed_on_verbatim(slurm: Path) -> None:
    (slurm / "answer").write_text("4711;cluster\n")
    assert Slurm(SITE).request(spec(slurm)) == "4711"
    (call,) = (slurm / "calls").read_text().splitlines()
    assert "--job-name=weft:0a1b2c:a100-0-abc" in call
    assert "--time=480:00 --gres=gpu:8 -p gpu -A proj " in call
    assert call.endswith("/pool/pilot.sh a100-0")


@pytest.mark.parametrize("option", ["--gres=gpu:a100:8", "--gpus-per-node=8", "-G8"])
def test_gpus_are_asked_for_once(slurm: Path, option: str) -> None:
    Slurm(SITE).request(spec(slurm, replace(POOL, options=(option,))))
    assert "--gres=gpu:8" not in (slurm / "calls").read_text().replace(option, "")


def test_cpus_and_memory_of_the_pool_are_asked_for(slurm: Path) -> None:
    Slurm(SITE).request(spec(slurm, replace(POOL, cpus=16, ram_mb=65536)))
    assert "--gres=gpu:8 --cpus-per-task=16 --mem=65536M -p gpu" in (slurm / "calls").read_text()


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (("-c", "4"), ["--mem=65536M"]),
        (("-c4", "--mem-bind=local"), ["--mem=65536M"]),
        (("--cpus-per-gpu=2", "--mem-per-cpu=1G"), []),
        (("--mem", "8G"), ["--cpus-per-task=16"]),
    ],
)
def test_cpus_and_memory_that_the_site_s_options_name_stay(
    slurm: Path, options: tuple[str, ...], left: list[str]
) -> None:
    Slurm(SITE).request(spec(slurm, replace(POOL, cpus=16, ram_mb=65536, options=options)))
    words = (slurm / "calls").read_text().split()
    assert [word for word in words if word in ("--cpus-per-task=16", "--mem=65536M")] == left


def test_states_of_slurm_become_phases(slurm: Path) -> None:
    (slurm / "answer").write_text(
        "1|PENDING|N/A|Priority|weft:0a1b2c:a100-0-a\n"
        "2|RUNNING|2026-11-16T08:00:00|None|weft:0a1b2c:a100-1-b\n"
        "3|TIMEOUT|2026-11-16T08:00:00|TimeLimit|weft:0a1b2c:a100-2-c\n"
        "4|RUNNING|N/A|None|weft:other:a100-2-c\n"
        "5|RUNNING|N/A|None|someone's job | with a bar\n"
    )
    found = {each.key: each for each in Slurm(SITE).observe()}
    assert {key: (each.id, each.phase, each.reason) for key, each in found.items()} == {
        "a100-0-a": ("1", "pending", "Priority"),
        "a100-1-b": ("2", "running", ""),
        "a100-2-c": ("3", "ended", "TimeLimit"),
    }
    assert found["a100-1-b"].ends_at is not None
    assert found["a100-0-a"].ends_at is None


def test_the_script_restarts_a_killed_worker_three_times_and_ends_with_one_that_ends(slurm: Path) -> None:
    worker = slurm / "worker"
    worker.write_text(f"#!/bin/sh\necho run >> {slurm}/runs\nkill -9 $$\n")
    worker.chmod(0o755)
    killed = replace(SITE, weft=(str(worker),))
    script = Slurm(killed).script(replace(spec(slurm), site=killed))
    done = subprocess.run(["sh", "-c", script, "pilot", "a100-0"], capture_output=True, text=True, check=False)
    assert (done.returncode, (slurm / "runs").read_text().count("run")) == (137, 3)
    worker.write_text(f'#!/bin/sh\necho "$@" >> {slurm}/words\nexit 5\n')
    done = subprocess.run(["sh", "-c", script, "pilot", "a100-0"], capture_output=True, text=True, check=False)
    assert done.returncode == 5
    (words,) = (slurm / "words").read_text().splitlines()
    assert "--id a100-0 --gpus allocated --models A100 --memories 81920" in words


def test_quotes_in_settings_survive_the_script(slurm: Path) -> None:
    pool = replace(POOL, labels=(("site", "it's here"),), settings=(("setup", "export A='x y'"),))
    script = Slurm(SITE).script(spec(slurm, pool))
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0
    assert "export A='x y'\n" in script


def test_only_the_end_of_a_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {n}\n" for n in range(1000)))
    assert last_lines(str(tmp_path / "log")).splitlines() == [f"line {n}" for n in range(980, 1000)]
    assert last_lines(str(tmp_path / "none")) == ""
