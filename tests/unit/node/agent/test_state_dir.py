"""The state of runs on an agent's disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from weft.node.agent.state_dir import AgentDir
from weft.node.engine.output.logs import RUNS_KEPT
from weft.node.engine.shim import run_files

LAST = RUNS_KEPT + 5


def folder_with_runs(tmp_path: Path, untold: int) -> AgentDir:
    """Runs of job 7, all of them ended; the scheduler knows of all ends but one."""
    folder = AgentDir(tmp_path / "state", tmp_path / "run")
    folder.make()
    os.makedirs(folder.jobs / "7" / run_files.CHECKPOINTS)
    for run in range(1, LAST + 1):
        os.makedirs(folder.run_dir("7", run))
        Path(folder.run_dir("7", run), run_files.EXIT).write_text("{}")
        if run != untold:
            folder.mark_confirmed("7", run)
    return folder


def test_only_the_last_runs_of_a_job_are_kept_and_those_whose_end_nobody_knows(tmp_path: Path) -> None:
    folder = folder_with_runs(tmp_path, untold=2)
    folder.remove_old_runs("7", LAST)
    kept = sorted(int(name) for name in os.listdir(folder.jobs / "7") if name.isdecimal())
    assert kept == [2, *range(LAST - RUNS_KEPT + 1, LAST + 1)]
    assert (folder.jobs / "7" / run_files.CHECKPOINTS).is_dir()


def test_a_run_whose_folder_is_gone_is_not_started_by_an_order_that_comes_late(tmp_path: Path) -> None:
    folder = folder_with_runs(tmp_path, untold=0)
    folder.remove_old_runs("7", LAST)
    assert not os.path.exists(folder.run_dir("7", 1))
    assert folder.is_claimed("7", 1)
    assert not folder.is_claimed("7", LAST + 1)
    assert not folder.is_claimed("8", 1)


def test_all_users_enter_folders_for_them_whatever_the_umask() -> None:
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        before = os.umask(0o077)
        try:
            AgentDir(Path(root, "wk", "w1"), Path(root, "run", "weft", "1"), for_all_users=True).make()
        finally:
            os.umask(before)
        modes = [oct(Path(root, name).stat().st_mode & 0o777) for name in ("wk", "wk/w1/jobs", "run/weft/1")]
        assert modes == ["0o711"] * 3
