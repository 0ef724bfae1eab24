"""Commands about jobs as processes: Ctrl-C, terminals, shells, a scheduler that dies, and what they import and cost."""

from __future__ import annotations

import os
import pty
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from support.running.local_scheduler import until
from support.weft_cli import Weft

WEFT = [sys.executable, "-m", "weft"]
PATIENCE_S = 30
HEAVY = ("numpy", "rich", "yaml", "rustworkx", "matplotlib", "multiprocessing", "sqlite3", "weft.sim",
         "weft.scheduling.core", "weft.history.journal", "weft.lab.report", "weft.scheduling.plugins.registry",
         "weft.model.job", "weft.model.events")  # fmt: skip
WIRE = ("grpc", "google.protobuf", "weft.access.client", "asyncio")
SLOW = ("grpc", "asyncio", "ssl", "logging", "hashlib", "tempfile", "subprocess", "difflib", "importlib.metadata",
        "google.protobuf.internal.python_message", "weft.model.facts", "weft.node.engine", "weft.server", "dataclasses",
        "inspect", "pathlib", "textwrap", "shutil", "weft.views.answers.operations")  # fmt: skip
"""Modules that a call on the unix socket does not need."""


def begun(*words: str, **streams: int) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return subprocess.Popen([*WEFT, *words], text=True, **pipes)  # type: ignore[call-overload,no-any-return]


def on_a_terminal(*words: str, answer: str = "", **environment: str) -> tuple[str, int]:
    """Return what the command prints and returns where all streams are a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}
    with subprocess.Popen([*WEFT, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        if answer:
            os.write(ours, answer.encode())
        shown = b""
        with suppress(OSError):  # the other end is closed
            while chunk := os.read(ours, 4096):
                shown += chunk
    os.close(ours)
    return shown.decode().replace("\r\n", "\n"), process.returncode


# ---- run


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("echo hello; exit 0", 0, ""),
        ("echo hello; exit 7", 7, "is failed, exit code 7"),
        ("echo hello; kill -9 $$", 137, "is failed, exit code 137"),
    ],
)
@pytest.mark.usefixtures("weft")
def test_run_shows_what_a_job_writes_and_returns_its_code(script: str, code: int, said: str) -> None:
    process = begun("run", "--", "sh", "-c", script)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (out, process.returncode) == ("hello\n", code)
    assert said in err
    process = begun("run", "-q", "--", "sh", "-c", "echo $0; echo no >&2", "--json")
    assert process.communicate(timeout=PATIENCE_S) == ("--json\nno\n", "")


def test_ctrl_c_cancels_the_job(weft: Weft) -> None:
    process = begun("run", "--name", "patient", "--", "sh", "-c", "echo begun; sleep 60")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert "; Ctrl-C again does not wait for it" in err
    assert weft.show("patient")["status"] == "cancelled"


def is_connected(pid: int) -> bool:
    """Return whether the process has a socket open: it waits for an answer of the scheduler."""
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            if os.readlink(fd).startswith("socket:"):
                return True
    return False


def test_waiting_outlives_the_scheduler(weft: Weft) -> None:
    go = Path("go").absolute()
    script = f"echo one; until [ -e {go} ]; do sleep 0.05; done; echo two; exit 3"
    running = begun("run", "--name", "tough", "--", "sh", "-c", script)
    assert running.stdout is not None
    assert running.stdout.readline() == "one\n"
    waiting = begun("wait", "tough")
    until(lambda: is_connected(waiting.pid))
    weft.site.kill9()
    go.touch()
    out, _ = running.communicate(timeout=PATIENCE_S)
    assert (out, running.returncode) == ("two\n", 3)
    assert "exit code 3" in waiting.communicate(timeout=PATIENCE_S)[1]
    assert waiting.returncode == 3


# ---- terminals


def test_colours_follow_the_state_and_never_stand_alone(weft: Weft) -> None:
    job = weft.submit("--name", "x" * 60, "--", "sleep", "60")
    weft.submit("--hold", "--", "sleep", "60")
    until(lambda: weft.show(job)["status"] == "running")
    shown, _ = on_a_terminal("queue")
    assert "\x1b[32mR\x1b[0m" in shown
    assert "\x1b[33mH\x1b[0m" in shown
    assert "x" * 29 + "…" in shown
    for words, environment in ((["--color", "never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})):
        assert "\x1b" not in on_a_terminal("queue", *words, **environment)[0]
    assert "\x1b[32mR" in weft("queue", "--color", "always").out


def test_a_running_job_is_cancelled_only_when_sure(weft: Weft) -> None:
    job = weft.submit("--name", "dear", "--", "sleep", "60")
    until(lambda: weft.show(job)["status"] == "running")
    shown, code = on_a_terminal("cancel", job, answer="n\n")
    assert f"cancel 1 running job: {job} (dear)? [y/N]" in shown
    assert (code, weft.show(job)["status"]) == (1, "running")
    assert "nothing was cancelled" in on_a_terminal("cancel", "--all", answer="\n")[0]
    assert on_a_terminal("cancel", "-y", job)[1] == 0
    weft("wait", job, code=143)


def test_logs_on_a_terminal_are_harmless(weft: Weft) -> None:
    script = r"printf '\033[31mred\033[0m\033]0;evil\007\n 1%%\r99%%\nend'"
    job = weft.submit("--", "sh", "-c", script)
    weft("wait", job)
    assert on_a_terminal("logs", job)[0] == "red\n99%\nend\n"
    assert "\x1b[31mred" in on_a_terminal("logs", "--raw", job)[0]
    assert weft("logs", job).out == "\x1b[31mred\x1b[0m\x1b]0;evil\x07\n99%\nend"
    assert weft("logs", "-n", "2", job).out == "99%\nend"


def test_watching_redraws_until_ctrl_c(weft: Weft) -> None:
    process = begun("queue", "-w", "0.1", "--json")
    assert process.stdout is not None
    assert '"running": 0' in process.stdout.readline()
    job = weft.submit("--", "sleep", "60")
    until(lambda: f'"id": "{job}"' in (process.stdout.readline() if process.stdout else ""))
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=PATIENCE_S)[1] == ""
    assert process.returncode == 0


# ---- shells


def test_bash_completes_commands_flags_and_jobs(weft: Weft, tmp_path: Path) -> None:
    job = weft.submit("--hold", "--", "true")
    Path("weft").write_text(f'#!/bin/sh\nexec {sys.executable} -m weft "$@"\n')
    Path("weft").chmod(0o755)
    Path("c.bash").write_text(weft("completion", "bash").out)
    script = """. ./c.bash
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_weft; echo "${COMPREPLY[@]}"; }
try weft sub; try weft submit --gpu; try weft cancel ''; try weft completion z; try weft trace sh
try weft auth token --role u; try weft ps --color a; try weft submit --config c.b"""
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
                          capture_output=True, text=True, check=True)  # fmt: skip
    verbs, flags, jobs, shells, actions, roles, colours, files = done.stdout.splitlines()
    assert (roles, colours, files) == ("user", "auto always", "c.bash")
    assert (verbs, flags.split(), shells, actions) == (
        "submit", ["--gpus", "--gpu-ids", "--gpu-model"], "zsh", "show"
    )  # fmt: skip
    assert job in jobs.split()


@pytest.fixture
def shell_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a `weft` that knows three jobs, first on the path."""
    (tmp_path / "weft").write_text('#!/bin/sh\n[ "$1" = queue ] && printf "7\\n  12\\n13_2\\n"\n')
    (tmp_path / "weft").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_flags_and_jobs(weft: Weft, shell_folder: Path) -> None:
    (shell_folder / "c.fish").write_text(weft("completion", "fish").out)

    def completed(line: str) -> list[str]:
        code = f"source {shell_folder}/c.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "-c", code], capture_output=True, text=True, check=True)
        return [found.partition("\t")[0] for found in done.stdout.splitlines()]

    assert completed("weft sub") == ["submit"]
    assert completed("weft submit --gpu") == ["--gpus", "--gpu-ids", "--gpu-model"]
    assert completed("weft kill 7 1") == ["12", "13_2"]
    assert completed("weft auth token --role ") == ["user", "worker", "admin"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_reads_the_script_without_running_anything(weft: Weft, shell_folder: Path) -> None:
    script = weft("completion", "zsh").out
    (shell_folder / "_weft").write_text(script)
    (shell_folder / "weft").write_text("#!/bin/sh\necho ran >&2\n")
    code = f"compdef() {{}}; _arguments() {{}}; source {shell_folder}/_weft; print -l $_shtab_weft_cancel_options"
    done = subprocess.run(["zsh", "-f", "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    assert any(line.startswith("*:") and line.endswith(":_weft_jobs") for line in done.stdout.splitlines())
    assert all(word in script for word in ("submit", "gpu-ids", "weft queue -o id", "undrain"))


# ---- cost


def imported(*words: str) -> set[str]:
    code = f"import sys; from weft.cli.main import main; main({list(words)!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "light"),
    [
        (["version"], (*HEAVY, *WIRE, *SLOW, "socket", "datetime")),
        (["--help"], (*HEAVY, *WIRE, *SLOW, "socket", "datetime")),
        (["submit", "--help"], (*HEAVY, "grpc", "weft.access.client", "asyncio")),
        (["sweep", "--help"], (*HEAVY, "grpc", "weft.access.client", "asyncio")),
        (["router", "--help"], (*HEAVY, "grpc", "httptools", "asyncio")),
        (["load", "--help"], (*HEAVY, "grpc", "httptools", "asyncio")),
        (["policies"], ("numpy", "rich", "matplotlib", *WIRE)),
        (["completion", "bash"], ("grpc", "weft.access.client", "numpy", "rich", "matplotlib")),
        (["queue"], (*HEAVY, *SLOW, "weft.views.answers.nodes")),
        (["gpus"], (*HEAVY, *SLOW)),
        (["show", "1"], (*HEAVY, *SLOW)),
        (["submit", "--gpus", "0", "--", "true"], (*HEAVY, *SLOW)),
        (["logs", "1"], (*HEAVY, "grpc", "asyncio")),
        (["wait", "1"], (*HEAVY, "grpc", "asyncio")),
        (["submit", "--gpus", "x", "--", "true"], (*HEAVY, "grpc", "weft.access.client")),
    ],
    ids=" ".join,
)
def test_a_command_imports_only_what_it_needs(weft: Weft, words: list[str], light: tuple[str, ...]) -> None:
    weft("up")
    loaded = imported(*words)
    assert "weft.cli.main" in loaded
    assert not loaded.intersection(light)


def test_looking_is_cheap(weft: Weft) -> None:
    weft("up")
    spent = []
    for words in (["version"], ["queue"], ["queue"]):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*WEFT, *words], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert spent[0] < 0.12, "0.045 on a quiet machine"
    assert min(spent[1:]) < 0.2, "0.08 on a quiet machine"
