"""`weft testbed`: a small matrix end to end, interrupted, killed and continued, with real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.plain_env import plain_env
from support.running.live_cluster import SOURCE
from support.running.local_scheduler import PATIENCE_S, until
from support.running.secured_cluster import free_port
from weft.cli.main import main

TRACE = "job_id,submit_s,gpus,duration_s\nlong,0,2,3000\nshort,300,1,300\nwide,600,4,600\nlast,900,2,300\n"
MATRIX = ("--spec", "2x2", "--policies", "srtf,muri-l", "--intervals", "60", "--speed", "2400")


@dataclass
class Bench:
    """A folder, an environment and a state directory that go with the test."""

    root: Path
    env: dict[str, str]

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "weft", "testbed", *words], env=self.env, cwd=self.root, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*words)
        out, err = process.communicate(timeout=3 * PATIENCE_S)
        assert process.returncode == code, err
        return out, err

    def processes(self) -> list[str]:
        """Return the command lines of all processes of this bench."""
        return list(self._by_pid().values())

    def pids(self, text: str) -> list[int]:
        """Return the processes of this bench with this text in their command lines."""
        return [pid for pid, line in self._by_pid().items() if text in line]

    def _by_pid(self) -> dict[int, str]:
        mark, found = f"XDG_STATE_HOME={self.root}/s".encode(), {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
        return found

    def results(self) -> dict[str, float]:
        return {path.parent.name: path.stat().st_mtime for path in self.root.glob("out/cells/*/cell.json")}

    def playing(self, policy: str) -> bool:
        """Return whether a job of the cell runs: its process is there."""
        return bool(list(self.root.glob(f"out/cells/*{policy}*/cluster.json"))) and any(
            "train/emulated/" in line for line in self.processes()
        )


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    root = Path(tempfile.mkdtemp(prefix="weft-tb-"))  # short: sockets are in it
    keep = plain_env()
    env = {
        **keep, "HOME": str(root), "XDG_STATE_HOME": f"{root}/s", "XDG_RUNTIME_DIR": f"{root}/r",
        "XDG_CONFIG_HOME": f"{root}/c", "PYTHONPATH": SOURCE,
    }  # fmt: skip
    (root / "t.csv").write_text(TRACE)
    try:
        yield Bench(root, env)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_interrupted_or_killed_it_continues_and_leaves_no_process(bench: Bench) -> None:
    words = ("run", *MATRIX, "--trace", "t.csv", "--out", "out")
    driver = bench.start(*words)
    until(lambda: len(bench.results()) == 1 and bench.playing("muri-l"), 2 * PATIENCE_S)
    driver.send_signal(signal.SIGINT)
    _, err = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 130, err
    assert bench.processes() == [], "an interrupt ends everything"
    first = bench.results()

    driver = bench.start(*words)
    until(lambda: bench.playing("muri-l"), PATIENCE_S)
    driver.kill()
    driver.communicate(timeout=PATIENCE_S)
    assert bench.processes(), "nothing can clean up after kill -9"

    out, err = bench.run(*words)
    assert "1 cell finished before" in err
    assert bench.processes() == [], "the next driver ends what the killed one left"
    assert first.items() <= bench.results().items(), "a finished cell is kept"
    assert len(bench.results()) == 2
    assert "emulated" in out
    assert not list(Path(bench.env["XDG_STATE_HOME"], "weft", "servers").glob("*")), "no files of clusters are left"
    assert not list(Path(bench.env["XDG_STATE_HOME"], "weft", "clusters").glob("*.json"))


def test_a_job_that_fails_leaves_its_exit_code_and_the_end_of_its_log(bench: Bench) -> None:
    words = ("--spec", "2x2", "--policies", "srtf", "--intervals", "60", "--speed", "240", "--jobs", "1")
    driver = bench.start("run", *words, "--trace", "t.csv", "--out", "broken")
    until(lambda: any("s of work" in path.read_text() for path in bench.root.rglob("output.log")), PATIENCE_S)
    for pid in bench.pids("train/emulated/program.py"):
        os.kill(pid, signal.SIGKILL)
    _, err = driver.communicate(timeout=2 * PATIENCE_S)
    assert driver.returncode == 0, err
    words_of_failure = "1 job failed and counts in no figure (exit code 137); cell.json has the ends of their logs"
    assert f"warning: 2x2_t_srtf_60s_x240_first1: {words_of_failure}" in err
    (cell,) = bench.root.glob("broken/cells/*/cell.json")
    (failed,) = json.loads(cell.read_text())["failed"]
    assert (failed["exit_code"], failed["log"]) == (137, "emulated: 12.500 s of work, from 0.000 s\n")
    assert words_of_failure in (bench.root / "broken" / "tables.md").read_text()


def test_the_report_compares_with_the_simulator_and_draws(bench: Bench) -> None:
    found = json.loads(bench.run("report", "out", "--json")[0])
    (setup,) = found["setups"]
    assert (setup["cluster"], setup["trace"], setup["jobs"], found["gpus"]) == ("2x2", "t", 4, "emulated")
    srtf, muri_l = setup["cells"]
    assert (srtf["policy"], muri_l["policy"]) == ("srtf", "muri-l")
    assert srtf["figures"]["finished"] == muri_l["figures"]["finished"] == 4
    assert srtf["figures"]["makespan_s"] >= 3000
    assert srtf["latencies"]["start"]["count"] >= 4
    assert srtf["published"] is None, "the published figures belong to another trace"
    assert -0.5 < srtf["against_simulated"]["makespan_s"] < 3.0, "a busy machine plays with delays"
    for name in ("utilisation", "queue", "blocking", "jct"):
        assert (bench.root / "out" / f"1-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "emulated GPUs" in (bench.root / "out" / "report.html").read_text()
    assert "| srtf |" in (bench.root / "out" / "tables.md").read_text()


def test_workers_of_other_machines_join_and_stay_for_the_next_cell(bench: Bench) -> None:
    port = free_port()
    words = ("--spec", "2x2", "--policies", "srtf,srsf", "--intervals", "60", "--speed", "2400", "--trace", "t.csv")
    driver = bench.start("run", *words, "--host", "127.0.0.1", "--port", str(port), "--folder", ".", "--out", "there")
    workers = [
        subprocess.Popen(
            [sys.executable, "-m", "weft", "worker", "--scheduler", f"localhost:{port}", "--id", name, "--pretend",
             "--gpus", "0,1", "--memories", "32768,32768"],
            env=bench.env, cwd=bench.root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for name in ("m1", "m2")
    ]  # fmt: skip
    try:
        _, err = driver.communicate(timeout=3 * PATIENCE_S)
        assert driver.returncode == 0, err
        assert "of 4 GPUs" in err
        assert [worker.poll() for worker in workers] == [None, None]
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait(PATIENCE_S)
    found = json.loads((bench.root / "there" / "summary.json").read_text())
    (setup,) = found["setups"]
    assert [cell["figures"]["finished"] for cell in setup["cells"]] == [4, 4]
    assert [cell["figures"]["jobs"] for cell in setup["cells"]] == [4, 4], "each cell counts its own jobs"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--policies", "srtf,,srsf"), "--policies: 'srtf,,srsf' has an empty name"),
        (("--policies", "nope"), "nope"),
        (("--intervals", "soon"), "'soon' is not a number of seconds"),
        (("--speed", "0"), "expected a number from 1 to"),
        (("--spec", "2x2", "--trace", "gone.csv"), "gone.csv"),
        (("--spec", "1x2", "--trace", "t.csv"), "can never run"),
        (("--folder", "."), "--folder needs --host"),
        (("--host", "127.0.0.1", "--at-once", "2"), "--host excludes --at-once"),
        (("--spec", "9z9", "--trace", "t.csv"), "no cluster"),
        (("--policies", "srtf,srtf", "--trace", "t.csv", "--spec", "2x2"), "two cells are called"),
    ],
)
def test_bad_input_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)
    assert main(["testbed", "run", *words, "--out", "never"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert text in err
    assert not Path("never").exists()


def test_bad_device_options_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_DEVICE_OPTIONS", "--loss gpu=2")
    assert main(["testbed", "run", "--out", str(tmp_path / "never")]) == 2
    assert "WEFT_DEVICE_OPTIONS: 'gpu=2': expected data=N, gpu=N, net=N" in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_folders_that_are_no_testbed_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text(TRACE)
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("kept")
    for words in (["run", *MATRIX, "--trace", "t.csv", "--out", "mine"], ["report", "mine"]):
        assert main(["testbed", *words]) == 2
        assert "no testbed" in capsys.readouterr().err
    assert Path("mine/thesis.txt").read_text() == "kept"
