"""Real commands, run end to end: what they are given, how they end, what is written down."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from support.running.process_engine import PATH, Desk, desk, launch, shell
from weft.errors import InputError
from weft.node.engine.events import RunExited
from weft.node.engine.exit_rules import exit_event
from weft.node.engine.launch_spec import LaunchSpec


def run(folder: Path, wanted: LaunchSpec) -> tuple[RunExited, Desk]:
    async def one() -> tuple[RunExited, Desk]:
        async with desk(folder) as found:
            return await found.run(wanted), found

    return asyncio.run(one())


@pytest.mark.parametrize(
    ("script", "code", "signal", "how", "shown"),
    [
        ("exit 0", 0, None, "done", 0),
        ("exit 3", 3, None, "failed", 3),
        ("exit 85", 85, None, "requeued", 85),
        ("exit 75", 75, None, "requeued", 75),
        ("exit 42", 42, None, "requeued", 42),
        ("kill -9 $$", None, 9, "failed", 137),
        ("kill -TERM $$", None, 15, "failed", 143),
    ],
)
def test_ends_with_its_own_code(
    tmp_path: Path, script: str, code: int | None, signal: int | None, how: str, shown: int
) -> None:
    ended, _ = run(tmp_path, shell(script))
    assert (ended.code, ended.signal, ended.why) == (code, signal, "")
    fact = exit_event(ended, requeue_exits=(42,))
    assert (fact.how, fact.code) == (how, shown)


def test_both_streams_go_to_one_private_log(tmp_path: Path) -> None:
    _, found = run(tmp_path, shell("echo out; echo err >&2; echo again; umask; exec ls /proc/self/fd"))
    assert found.log().splitlines() == ["out", "err", "again", "0022", *"0123"]
    for path in found.path(".").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    for folder in (found.path("."), found.jobs / "1", found.jobs / "1" / "checkpoints"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_files_say_what_happened(tmp_path: Path) -> None:
    ended, found = run(tmp_path, shell("sleep 0.05; exit 7", params=(("epochs", "3"),)))
    assert sorted(path.name for path in found.path(".").iterdir()) == [
        "exit.json", "output.log", "params.json", "spec.json",
    ]  # fmt: skip
    record = json.loads(found.path("exit.json").read_text())
    assert (record["code"], record["why"], record["job"], record["run"]) == (7, "", "1", 1)
    assert 0.04 < ended.ran_s < 5
    assert json.loads(found.path("params.json").read_text()) == {"epochs": "3"}
    assert json.loads(found.path("spec.json").read_text())["argv"][0] == "/bin/sh"


LIBC_OWN = 1 << 31 | 1 << 32
"""Signals 32 and 33 belong to the C library, which leaves them ignored in whatever it spawns."""


def test_signals_and_session_are_the_commands_own(tmp_path: Path) -> None:
    script = "grep -E 'Sig(Blk|Ign)' /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; echo $$; kill 0"
    ended, found = run(tmp_path, shell(script))
    blocked, ignored, group, pid = found.log().splitlines()
    assert int(blocked.split()[1], 16) == 0
    assert int(ignored.split()[1], 16) & ~LIBC_OWN == 0
    assert group == f"{pid} {pid}"
    assert ended.signal == 15


@pytest.mark.parametrize(
    ("wanted", "code", "why", "said"),
    [
        (launch("no-such-program"), 127, "not-found", "program 'no-such-program' not found"),
        (launch("/no/such/program"), 127, "not-found", "/no/such/program"),
        (launch("/etc/passwd"), 126, "not-executable", "/etc/passwd"),
        (launch("/etc"), 126, "not-executable", "/etc"),
        (launch("true", chdir="/no/such/place"), 126, "bad-directory", "/no/such/place"),
        (launch("true", chdir="/etc/passwd"), 126, "bad-directory", "/etc/passwd"),
        (launch("true", env=(("PATH", "/nowhere"),)), 127, "not-found", "/nowhere"),
    ],
)
def test_a_command_that_cannot_start_says_why(
    tmp_path: Path, wanted: LaunchSpec, code: int, why: str, said: str
) -> None:
    ended, found = run(tmp_path, wanted)
    assert (ended.code, ended.why, ended.started_at) == (code, why, 0.0)
    assert said in ended.detail
    assert said in found.log()
    assert exit_event(ended).how == "failed"


def test_a_script_without_interpreter_is_no_shell_script(tmp_path: Path) -> None:
    script, lost = tmp_path / "plain", tmp_path / "lost"
    script.write_text("echo hello\n")
    lost.write_text("#!/no/such/interpreter\n")
    for path in (script, lost):
        path.chmod(0o755)
    assert "#!" in run(tmp_path, launch(str(script)))[0].detail
    assert "interpreter" in run(tmp_path, launch(str(lost), job="2"))[0].detail


HOSTILE = (
    "a b",
    "new\nline",
    "'quotes\"",
    "$(touch pwned)",
    "`id`",
    ";",
    "ünïcødé ☃",
    "--",
    "-rf",
    "\x1b[31m",
    "\udcff",
)


def test_arguments_and_names_arrive_as_they_are(tmp_path: Path) -> None:
    name = "a/b'\"\n$(x)\x1b[0m"
    script = r'printf "%s\0" "$WEFT_JOB_NAME" "$@"'
    _, found = run(tmp_path, launch("/bin/sh", "-c", script, "sh", *HOSTILE, name=name))
    said = found.path("output.log").read_bytes().split(b"\0")[:-1]
    assert said == [os.fsencode(text) for text in (name, *HOSTILE)]


@pytest.mark.parametrize(
    "wanted",
    [
        launch("echo", "a\0b"),
        launch(""),
        LaunchSpec("1", 1, ()),
        launch("true", job="../x"),
        launch("true", job=".."),
        launch("true", job="a/b"),
        launch("true", job="new\nline"),
        launch("true", run=0),
        launch("true", env=(("A=B", "c"),)),
        launch("true", env=(("A", "\0"),)),
        launch("true", gpus=(0, 1), gpu_uuids=("GPU-1",)),
        launch("true", time_limit_s=float("nan")),
        launch("true", grace_s=-1.0),
    ],
)
def test_orders_that_make_no_sense_are_refused(tmp_path: Path, wanted: LaunchSpec) -> None:
    async def one() -> None:
        async with desk(tmp_path) as found:
            with pytest.raises(InputError):
                found.engine.start(wanted)
            assert not found.engine.runs

    asyncio.run(one())


def test_a_run_is_started_once(tmp_path: Path) -> None:
    async def one() -> None:
        async with desk(tmp_path) as found:
            found.engine.start(shell("sleep 5"))
            with pytest.raises(InputError, match="already"):
                found.engine.start(shell("sleep 5"))

    asyncio.run(one())


def test_checkpoints_outlive_runs(tmp_path: Path) -> None:
    async def two() -> None:
        async with desk(tmp_path) as found:
            await found.run(shell("echo half > $WEFT_CKPT_DIR/model; exit 85"))
            await found.run(shell("cat $WEFT_CKPT_DIR/model; echo $WEFT_RUN", run=2))
            assert found.log(run=2).split() == ["half", "2"]

    asyncio.run(two())


def test_nothing_of_the_schedulers_environment_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SCHEDULER", "1")
    _, found = run(tmp_path, launch("env", env=(PATH, ("MINE", "x y\nz"))))
    names = {line.partition("=")[0] for line in found.log().splitlines() if "=" in line}
    assert {name for name in names if not name.startswith("WEFT_")} == {
        "PATH", "MINE", "CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
    }  # fmt: skip


def test_an_order_of_any_length(tmp_path: Path) -> None:
    ended, found = run(tmp_path, launch("/bin/sh", "-c", 'printf %s "$1" | wc -c', "sh", "x" * 100_000))
    assert (ended.code, found.log().strip()) == (0, "100000")
    assert [path.name for path in (tmp_path / "runtime").iterdir()] == ["bell.sock"]


def test_memory_and_cpu_are_counted_over_the_whole_tree(tmp_path: Path) -> None:
    busy = "import time\nx = bytearray(60 << 20)\nwhile time.process_time() < 0.2: pass"
    ended, _ = run(tmp_path, shell(f"python3 -c '{busy}' & wait"))
    assert ended.cpu_s >= 0.2
    assert ended.max_rss_mb >= 60


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"


@pytest.mark.parametrize(("code", "why"), [(1, "oom"), (0, "")])
def test_running_out_of_gpu_memory_is_recognised(tmp_path: Path, code: int, why: str) -> None:
    ended, _ = run(tmp_path, shell(f"echo '{OOM}' >&2; exit {code}"))
    assert ended.why == why


def test_two_hundred_at_once(tmp_path: Path) -> None:
    async def many() -> None:
        async with desk(tmp_path) as found:
            for number in range(200):
                found.engine.start(shell(f"sleep 0.5; exit {number % 100}", job=str(number)))
            ended = [await found.exited(str(number)) for number in range(200)]
            assert [one.code for one in ended] == [number % 100 for number in range(200)]
            assert all(len(found.seen(RunExited, str(number))) == 1 for number in range(200))

    asyncio.run(many())
