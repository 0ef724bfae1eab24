"""The `weft` command as a process: signals, pipes, terminals, and what it costs to start."""

from __future__ import annotations

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.pseudo_terminals import read_all

pytestmark = pytest.mark.usefixtures("here")
WEFT = Path(sys.executable).with_name("weft")
HEAVY = (
    "numpy", "rich", "yaml", "rustworkx", "matplotlib", "multiprocessing", "asyncio", "sqlite3",
    "weft.sim", "weft.scheduling.core", "weft.history.journal", "weft.lab.report",
)  # fmt: skip
PATIENCE_S = 60


def weft(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def wait_until(true: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert process.poll() is None, f"it ended first, with {process.communicate()}"
        assert time.monotonic() < end
        time.sleep(0.002)


def cpu_s(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("word", ["version", "--help"])
def test_starting_is_cheap(word: str) -> None:
    code = f"import sys; from weft.cli.main import main; main([{word!r}]); print(*sys.modules)"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    loaded = set(done.stdout.split())
    assert "weft.cli.main" in loaded
    assert not loaded.intersection(HEAVY)
    spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent_s < 0.3, "0.07 on a quiet machine"


def test_exit_codes_and_streams(here: Path) -> None:
    done = weft("sim", "demo", "--cluster", "4x8", "--policy", "srtf", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    wrong = weft("sim", "nosuch.csv", "--cluster", "4x8", "--out", "out")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("weft: error: nosuch.csv: no such file\n")
    assert not list(here.iterdir())


def test_a_reader_that_goes_away_is_no_error() -> None:
    with subprocess.Popen([WEFT, "policies"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141


CLOSED = {
    "stdout": (">&-", ["sim", "demo"], (0, "", "")),
    "stdout of JSON": (">&-", ["sim", "demo", "--json"], (0, "", "")),
    "stdout of help": (">&-", ["--help"], (0, "", "")),
    "stdin": (
        "<&-",
        ["sim", "demo", "--explain", "0"],
        (0, "job 0 is starting at 0 s\n  None: run 1 on n0[0] since 0 s\n", ""),
    ),
    "stderr": ("2>&-", ["sim", "nosuch", "--cluster", "4x8"], (2, "", "")),
    "both": (">&- 2>&-", ["sim", "demo", "--out", "out"], (0, "", "")),
    "all": ("<&- >&- 2>&-", ["sim", "nosuch", "--cluster", "4x8"], (2, "", "")),
}


@pytest.mark.parametrize(("how", "words", "expected"), CLOSED.values(), ids=CLOSED)
def test_a_closed_stream_changes_nothing_else(how: str, words: list[str], expected: tuple[int, str, str]) -> None:
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {how}', "sh", WEFT, *words], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == expected


def test_a_closed_stderr_leaves_stdout_alone() -> None:
    words = ["sim", "demo", "--json"]
    done = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", WEFT, *words], capture_output=True, check=False)
    assert done.returncode == 0
    assert json.loads(done.stdout)["finished"] == 200


@pytest.mark.parametrize("words", [["sim", "demo"], ["compare", "demo"], ["policies"], ["--help"]], ids=lambda w: w[0])
def test_a_reader_of_one_line_gets_it_and_nobody_complains(words: list[str]) -> None:
    script = '"$@" | head -1'
    done = subprocess.run(["sh", "-c", script, "sh", WEFT, *words], capture_output=True, text=True, check=False)
    assert (done.stdout.count("\n"), done.stderr) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_pipe_is_one_line() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([WEFT, "policies"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("weft: error: No space left on device")
    assert "Traceback" not in done.stderr


def on_a_terminal(*words: str, **environment: str) -> str:
    """Return what the command prints where stdout is a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100", **environment}
    with subprocess.Popen([WEFT, *words], stdout=theirs, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(theirs)
        shown = read_all(ours)
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


def test_a_terminal_gets_a_table() -> None:
    words = ("compare", "demo", "--policies", "fifo,srtf")
    shown = on_a_terminal(*words, NO_COLOR="")
    assert "avg JCT" in shown
    assert "*\x1b[0m" in shown, "the best is marked"
    assert "\x1b[" not in on_a_terminal(*words, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(*words, "--color", "never", NO_COLOR="")


@pytest.fixture
def long_trace(here: Path) -> str:
    """Some seconds of work, and a journal that takes a while to write."""
    done = weft("trace", "generate", "--jobs", "15000", "--seed", "1", "--cluster", "2x8", "--load", "2", "-o", "t.csv")
    assert done.returncode == 0, done.stderr
    assert [entry.name for entry in here.iterdir()] == ["t.csv"]
    return "t.csv"


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("while_writing", [False, True], ids=["while simulating", "while writing"])
def test_an_interrupt_leaves_nothing(
    here: Path, long_trace: str, sent: signal.Signals, code: int, while_writing: bool
) -> None:
    words = [str(WEFT), "sim", long_trace, "--cluster", "2x8", "--policy", "srtf", "--out", "out"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if while_writing:
            wait_until(lambda: bool(list(here.glob(".out.partial-*/journal.jsonl"))), process)
        else:
            wait_until(lambda: cpu_s(process) > 1.0, process)
        process.send_signal(sent)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert out == ""
    assert "Traceback" not in err
    if sent is signal.SIGINT:
        assert err == ""
    assert [entry.name for entry in here.iterdir()] == ["t.csv"]
