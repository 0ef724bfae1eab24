"""The keeper of a workspace's task, a separate process: its verdicts, its files and its signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.running.local_scheduler import is_alive, until
from weft.workspace.launch import RUNNER
from weft.workspace.task.start_turns import reserve_turn

PATIENCE_S = 60


class Run:
    """A run as the engine makes it, with the files that a shim would write."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "run"
        self.folder.mkdir()
        self.marker = root / "out" / "a_completed.txt"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, line: str, **settings: str) -> subprocess.Popen[bytes]:
        given = {"task": "a", "marker": str(self.marker), "owner": "me", "logs": str(self.root / "logs"),
                 "scheduler_log": "s.log", **settings}  # fmt: skip
        words = [f"{name}={value}" for name, value in given.items()]
        env = {
            **os.environ, "WEFT_GPU_IDS": "1", "WEFT_RUN": "1", "WEFT_DONE_FILE": str(self.folder / "done"),
            "WEFT_PREEMPT_FILE": str(self.folder / "preempt"), "MARKER": str(self.marker),
        }  # fmt: skip
        with (self.folder / "output.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", RUNNER, *words, "--", "sh", "-c", line], env=env, cwd=self.root,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def run(self, line: str, **settings: str) -> int:
        return self.start(line, **settings).wait(PATIENCE_S)

    def output(self) -> str:
        return (self.folder / "output.log").read_text()

    def warning(self) -> str:
        path = self.folder / "warning"
        return path.read_text() if path.exists() else ""

    def said(self) -> str:
        return (self.root / "logs" / "s.log").read_text()


@pytest.fixture
def a(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for process in made.processes:
        if process.poll() is None:
            process.kill()
            process.wait(PATIENCE_S)


MARK = "mkdir -p out; echo mine > $MARKER; "


def test_no_marker_and_exit_0_is_complete_and_marked(a: Run) -> None:
    assert a.run("echo hello") == 0
    assert a.marker.read_text().splitlines()[0] == "task: a"
    assert "gpu: 1\n" in a.marker.read_text()
    assert a.warning() == ""
    assert "a: complete after" in a.said()
    assert (a.root / "logs" / "train_logs" / "a.log").read_text().splitlines()[1:] == ["hello"]


def test_no_marker_and_another_exit_has_failed(a: Run) -> None:
    assert a.run("exit 3") == 3
    assert a.run("kill -9 $$") == 137
    assert not a.marker.exists()
    assert "a: failed with exit code 137" in a.said()


def test_a_marker_and_another_exit_is_complete_with_a_warning(a: Run) -> None:
    assert a.run(MARK + "exit 3") == 0
    assert a.marker.read_text() == "mine\n"
    assert "exit code 3, but its marker exists" in a.warning()
    assert "weft: warning: exit code 3" in a.output()


def test_a_marker_and_exit_0_is_complete(a: Run) -> None:
    assert a.run(MARK) == 0
    assert (a.marker.read_text(), a.warning()) == ("mine\n", "")


def test_a_marker_and_a_process_that_lives_is_running_for_a_while_then_complete(a: Run) -> None:
    process = a.start(MARK + "echo $$ > pid; exec sleep 60", linger="1.5")
    until(lambda: a.marker.exists())
    marked_at = a.marker.stat().st_mtime
    assert process.wait(PATIENCE_S) == 0
    assert time.time() - marked_at >= 1.5
    assert not is_alive(int((a.root / "pid").read_text()))
    assert "it outlived its marker" in a.warning()
    assert a.marker.read_text() == "mine\n"


def test_a_marker_of_before_and_running_again(a: Run) -> None:
    a.marker.parent.mkdir()
    a.marker.write_text("before\n")
    assert a.run("echo never") == 0
    assert "never" not in a.output()
    assert a.run("echo again", again=repr(time.time() + 1)) == 0
    assert a.output() == "again\n"
    assert a.marker.with_name("a_completed.txt.before").read_text() == "before\n"
    assert a.marker.read_text().startswith("task: a\n")


def test_what_cannot_be_started(a: Run) -> None:
    given = ["task=a", f"marker={a.marker}", "owner=me", "--", "/nowhere/python"]
    words = [sys.executable, "-I", "-S", str(RUNNER), *given]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=a.root)
    assert done.returncode == 127
    assert "cannot start '/nowhere/python'" in done.stderr


# ---- being stopped

TRAP = "trap 'echo told; exit {code}' TERM; touch ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize(("code", "marked"), [(0, False), (85, False), (0, True)])
def test_preempted_it_passes_the_signal_on_and_writes_no_marker(a: Run, code: int, marked: bool) -> None:
    process = a.start((MARK if marked else "") + TRAP.format(code=code))
    until(lambda: (a.root / "ready").exists())
    (a.folder / "preempt").touch()
    (a.folder / "stop.json").write_text('{"why": "preempted"}')
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == code
    assert a.output().count("told") == 1
    assert a.marker.exists() == marked
    assert (a.folder / "done").exists() == marked  # complete, although it was being stopped


def test_cancelled_everybody_was_told_and_nobody_is_told_twice(a: Run) -> None:
    process = a.start(TRAP.format(code=7).replace("exit 7", "sleep 0.5; exit 7"))
    until(lambda: (a.root / "ready").exists())
    (a.folder / "stop.json").write_text('{"why": "cancelled"}')
    process.send_signal(signal.SIGTERM)
    until(lambda: not _is_pending(process.pid, signal.SIGTERM))
    (a.folder / "preempt").touch()
    (a.folder / "stop.json").write_text('{"why": "preempted"}')
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 7
    assert a.output().count("told") == 1, "the first signal was not passed on, the second was"


def _is_pending(pid: int, number: int) -> bool:
    """Return whether a signal to the process has not been delivered yet."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(lines["ShdPnd"], 16) & 1 << number - 1)


def test_what_conda_runs_is_told_too_and_may_save(a: Run) -> None:
    (a.root / "inner").write_text(TRAP.format(code=0).replace("echo told", "sleep 0.5; echo told"))
    process = a.start("sh inner; exit 85", wrapped="yes")
    until(lambda: (a.root / "ready").exists())
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) in (85, 143)
    assert "told" in a.output()


# ---- turns


def test_turns_on_a_gpu_are_apart(tmp_path: Path) -> None:
    path = str(tmp_path / "turn-0")
    waits = [reserve_turn(path, 10.0) for _ in range(3)]
    assert waits[0] == 0.0
    assert 9 < waits[1] <= 10
    assert 19 < waits[2] <= 20
    assert reserve_turn(str(tmp_path / "turn-1"), 10.0) == 0.0
    os.utime(path, (time.time() + 1e7, time.time() + 1e7))  # the clock was set back
    assert reserve_turn(path, 10.0) == 0.0
    assert reserve_turn(str(tmp_path / "nowhere" / "turn"), 10.0) == 0.0


def test_a_log_over_its_cap_is_renamed_and_the_next_one_begins(a: Run) -> None:
    assert a.run("seq -f %015.0f 1 300000; echo bye", log_cap=str(2 << 20)) == 0
    folder = a.root / "logs" / "train_logs"
    new, older = (folder / name for name in ("a.log", "a.log.1"))
    assert sorted(path.name for path in folder.iterdir()) == ["a.log", "a.log.1"]
    assert new.stat().st_size <= older.stat().st_size <= 3 << 20
    assert [path.read_text().splitlines()[0] for path in (new, older)] == ["# log of me#a"] * 2
    lines = "".join(path.read_text().split("\n", 1)[1] for path in (older, new)).splitlines()
    last = [f"{number:015}" for number in range(1, 300_001)][-len(lines) + 1 :]
    assert len(lines) > 100_000
    assert lines[1:] == [*last, "bye"][1:]
    assert a.output().splitlines()[-1] == "bye"


def test_a_file_of_another_owner_in_place_of_the_older_log_stays(a: Run) -> None:
    folder = a.root / "logs" / "train_logs"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "a.log.1").write_text("mine\n")
    assert a.run("seq 1 500000", log_cap=str(1 << 20)) == 0
    assert (folder / "a.log.1").read_text() == "mine\n"
    assert len(list(folder.glob("a.log.*.1"))) == 1
