"""Small things that commands print: hints, counts, and screens on terminals without a cursor."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable

import pytest

from weft.cli import main as cli
from weft.cli import tables
from weft.cli.commands import gpus, show
from weft.cli.main import build_parser, main
from weft.views.answers.jobs import JobDetailView
from weft.views.answers.nodes import BlockView, GpuView


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["run", "--gpsu", "1"], "  the nearest are --gpus, --"),
        (["qeue"], "  the nearest are queue, "),
        (["xyzzy"], "  see weft --help"),
    ],
)
def test_the_hint_about_an_unknown_word_suggests_near_ones(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err.splitlines()[1].startswith(hint)


def test_an_interrupt_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt(_words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_run", interrupt)
    assert main(["wait", "7"]) == 130
    assert capsys.readouterr().err == ""
    assert main(["wait", "7", "--json"]) == 130
    assert '"code": "interrupted"' in capsys.readouterr().err


def test_run_does_not_offer_arrays() -> None:
    assert "--array" not in build_parser("run").format_help()
    assert "--array" in build_parser("submit").format_help()


@pytest.mark.parametrize(
    ("failures", "retries", "shown"), [(2, 2, "3, 2 of 2 retries used"), (1, 1, "2, 1 of 1 retry used")]
)
def test_used_retries_are_counted(failures: int, retries: int, shown: str) -> None:
    assert ("runs", shown) in show._pairs(JobDetailView(run=failures + 1, failures=failures, retries=retries))


def test_memory_after_a_job_ran_out_of_it_is_not_called_measured_alone() -> None:
    shown = dict(show._pairs(JobDetailView(gpus=1, memory_mb=4096, measured_mb=6144)))["GPUs"]
    assert shown == "1, 4096 MB each, 6144 MB measured, or estimated after it ran out of memory"


def test_the_command_of_a_task_is_shown_without_its_runner() -> None:
    command = ["python", "-I", "-S", "/x/weft/workspace/run_task.py", "log=/tmp/a", "--", "python", "train.py"]
    pairs = dict(show._pairs(JobDetailView(command=command, log="/jobs/7/1/output.log")))
    assert (pairs["command"], pairs["log"]) == ("python train.py", "/jobs/7/1/output.log")
    assert dict(show._pairs(JobDetailView(command=["ls", "--", "-x"])))["command"] == "ls -- -x"


@pytest.mark.parametrize(("memory_mb", "state"), [(9216, "IDLE"), (24576, "BLOCKED"), (None, "BLOCKED")])
def test_a_gpu_that_a_stranger_shares_is_not_blocked(memory_mb: int | None, state: str) -> None:
    gpu = GpuView(node="n", memory_mb=24576, blocked=[BlockView("ForeignProcess", memory_mb, "pid 7 (python)")])
    texts = [cell.text for cell in gpus._row(gpu)]
    assert texts[-2] == state
    assert "pid 7 (python)" in texts[-1]


@pytest.mark.parametrize(("term", "moves"), [("dumb", False), ("xterm", True)])
def test_a_terminal_without_a_cursor_gets_no_codes(term: str, moves: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", term)
    shown = on_terminal(lambda: tables.redraw(["one", "two"]), monkeypatch)
    assert "one" in shown
    assert ("\x1b[" in shown) == moves


def on_terminal(draw: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what a function prints on a terminal."""
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        draw()
        terminal.flush()
        shown = os.read(ours, 4096).decode()
    os.close(ours)
    return shown
