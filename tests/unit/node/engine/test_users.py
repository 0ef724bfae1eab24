"""Runs of the process engine with other accounts: preemption, weaves, and the rights on files of one thread."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.errors import InputError
from weft.node.engine import weaves
from weft.node.engine.engine import ProcessEngine
from weft.node.engine.events import Report, RunExited, RunStarted
from weft.node.engine.launch_spec import LaunchSpec
from weft.node.engine.shim import run_files
from weft.node.engine.users import device_filter, run_folder
from weft.node.engine.users.accounts import Account, find_account, separates_users
from weft.node.engine.users.file_rights import rights_of
from weft.node.engine.weave_spec import WeaveSpec

ANN, BEN = Account(61901, 61901, (61901,)), Account(61902, 61902, (61902, 61901))
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can switch users")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users can enter."""
    made = Path(tempfile.mkdtemp(prefix="weft-a-"))
    made.chmod(0o711)
    (made / "jobs").mkdir()
    (made / "jobs").chmod(0o711)  # whatever the umask
    yield made
    shutil.rmtree(made)


def test_only_root_runs_jobs_as_their_submitters_and_pilots_never_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert separates_users(None, {})
    assert not separates_users(None, {}, is_pilot=True)
    assert not separates_users(None, {"WEFT_RUN_AS": "worker"})
    assert separates_users("submitter", {"WEFT_RUN_AS": "worker"})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not separates_users(None, {})
    with pytest.raises(InputError, match="only root"):
        separates_users("submitter", {})
    with pytest.raises(InputError, match="neither submitter nor worker"):
        separates_users(None, {"WEFT_RUN_AS": "me"})


@pytest.mark.parametrize("name", ["root", "no-such-user", "", "../etc", "a\0b"])
def test_root_and_unknown_users_have_no_account(name: str) -> None:
    with pytest.raises(InputError, match=r"root's rights|no account"):
        find_account(name)


def test_accounts_of_the_system_run_no_jobs_unless_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = pwd.struct_passwd(("backup", "x", 34, 34, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: entry)
    with pytest.raises(InputError, match=r"the account has the number 34, below 1000\n.*--min-uid 34"):
        find_account("backup")
    assert find_account("backup", 34).uid == 34


def test_a_filter_denies_the_devices_that_it_names() -> None:
    """Two instructions for each device, jumps that end at the answer, and the answer at the end."""
    one, two = device_filter.assemble([(195, 0)]), device_filter.assemble([(195, 0), (195, 1)])
    assert len(two) - len(one) == 16
    assert one[-16:] == two[-16:]


@needs_root
def test_rights_are_those_of_one_thread_and_end_with_their_block(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / "word").write_text("x")
    seen, changed, groups = list[str](), threading.Event(), os.getgroups()

    def read() -> None:
        changed.wait()
        seen.append((closed / "word").read_text())

    thread = threading.Thread(target=read)
    thread.start()
    with rights_of(ANN):
        with pytest.raises(PermissionError):
            (closed / "word").read_text()
        changed.set()
        thread.join()
    assert seen == ["x"]
    assert (closed / "word").read_text() == "x"
    assert os.getgroups() == groups


class Node:
    """A process engine, and what it reports."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reports = folder, list[Report]()
        self.engine = ProcessEngine("n1", folder / "jobs", folder / "r", self.reports.append)

    async def until(self, kind: type[Report], job: str) -> Report:
        for _ in range(6000):
            for report in self.reports:
                if isinstance(report, kind) and report.job == job:
                    return report
            await asyncio.sleep(0.01)
        raise AssertionError(f"{job} is not {kind.__name__}: {self.reports}")

    def log(self, job: str) -> str:
        return (self.folder / "jobs" / job / "1" / run_files.LOG).read_text()


def spec(job: str, script: str, account: Account, weave: WeaveSpec | None = None) -> LaunchSpec:
    env = (("PATH", "/usr/bin:/bin"),)
    return LaunchSpec(job, 1, ("sh", "-c", script), env, account=account, weave=weave)


@needs_root
def test_a_preempted_run_of_another_user_sees_the_request_and_saves_its_work(folder: Path) -> None:
    async def scenario() -> None:
        node = Node(folder)
        await node.engine.open()
        try:
            script = "trap 'test -e $WEFT_PREEMPT_FILE && echo seen; echo x > $WEFT_DONE_FILE; exit 85' TERM; echo up; "
            node.engine.start(spec("1", f"{script} while :; do sleep 0.05; done", ANN))
            await node.until(RunStarted, "1")
            while "up" not in node.log("1"):
                await asyncio.sleep(0.01)
            assert node.engine.stop("1", 1, "preempted")
            ended = await node.until(RunExited, "1")
        finally:
            await node.engine.close()
        assert isinstance(ended, RunExited)
        assert (ended.code, ended.why, ended.done) == (85, "preempted", True)
        assert "seen" in node.log("1")

    asyncio.run(scenario())


@needs_root
def test_members_of_one_user_share_a_weave_and_members_of_two_do_not(folder: Path) -> None:
    places = [WeaveSpec("w1", place, 3, "fair", 10.0) for place in range(3)]
    script = "cat $WEFT_WEAVE_FILE; test -w $WEFT_WEAVE_DIR/state && echo MINE; ls $WEFT_WEAVE_DIR/../.. && echo LISTED"

    async def scenario() -> None:
        node = Node(folder)
        await node.engine.open()
        try:
            for place, (job, who) in enumerate((("1", ANN), ("2", ANN), ("3", BEN))):
                node.engine.start(spec(job, f"{script}; sleep 0.3", who, places[place]))
            for job in ("1", "2", "3"):
                await node.until(RunExited, job)
        finally:
            await node.engine.close()
        said = [node.log(job) for job in ("1", "2", "3")]
        assert all("MINE" in each and "LISTED" not in each for each in said), said
        assert f"weaves/.{ANN.uid}/w1" in said[0]
        assert f"weaves/.{ANN.uid}/w1" in said[1]
        assert f"weaves/.{BEN.uid}/w1" in said[2]
        assert not list(folder.glob("weaves/.*/w1")), "the weaves of ended runs stay"

    asyncio.run(scenario())


@needs_root
def test_a_weave_that_its_user_tampers_with_does_not_hold_up_the_node(folder: Path) -> None:
    made = weaves.prepare(folder, WeaveSpec("w1", 0, 2, "fair", 10.0), ANN)
    (made / "state").unlink()
    os.mkfifo(made / "state")
    os.mkfifo(made / "0.life")
    from weft.train.weave.directory import read_counters

    with rights_of(run_folder.account_of_file(str(made))):
        assert read_counters(made) == []
    assert weaves.collect(folder, ()) == ["w1"]
