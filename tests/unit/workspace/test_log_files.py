"""Logs in a folder that others can write to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from weft.workspace.task.log_files import find_log_path, head_of, open_log, open_task_log, tasks_folder


def write(folder: Path, owner: str, text: str) -> Path:
    handle, path = open_log(str(folder), "exp.log", owner)
    os.write(handle, text.encode())
    os.close(handle)
    assert path == find_log_path(str(folder), "exp.log", owner)
    return Path(path)


def test_made_for_its_owner_alone_and_appended_to(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    assert write(folder, "me", "one\n") == write(folder, "me", "two\n") == folder / "exp.log"
    assert (folder / "exp.log").read_text() == "# log of me\none\ntwo\n"
    assert stat.S_IMODE((folder / "exp.log").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_two_owners_have_two_files(tmp_path: Path) -> None:
    mine, theirs = write(tmp_path, "me", "mine\n"), write(tmp_path, "them", "theirs\n")
    assert mine != theirs
    assert theirs.name.startswith("exp.")
    assert (mine.read_text(), theirs.read_text()) == ("# log of me\nmine\n", "# log of them\ntheirs\n")
    assert write(tmp_path, "them", "more\n") == theirs


@pytest.mark.parametrize("kind", ["file", "link", "hard link", "folder", "fifo", "dangling"])
def test_what_is_somebody_elses_is_left_alone(tmp_path: Path, kind: str) -> None:
    precious, at = tmp_path / "precious", tmp_path / "exp.log"
    precious.write_bytes(head_of("me") + b"precious\n")
    before = precious.read_bytes()
    if kind == "file":
        at.write_text("something else\n")
    elif kind == "link":
        at.symlink_to(precious)
    elif kind == "hard link":
        at.hardlink_to(precious)
    elif kind == "folder":
        at.mkdir()
    elif kind == "fifo":
        os.mkfifo(at)
    else:
        at.symlink_to(tmp_path / "nowhere")
    path = write(tmp_path, "me", "mine\n")
    assert path != at
    assert path.read_text() == "# log of me\nmine\n"
    assert precious.read_bytes() == before
    assert not (tmp_path / "nowhere").exists()


def test_many_at_once_write_one_head(tmp_path: Path) -> None:
    code = "import sys; from weft.workspace.task.log_files import open_log; input(); print(open_log(*sys.argv[1:])[1])"
    command = [sys.executable, "-c", code, str(tmp_path), "exp.log", "me"]
    them = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(8)
    ]
    for each in them:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    assert {each.communicate(timeout=60)[0] for each in them} == {f"{tmp_path}/exp.log\n"}
    assert (tmp_path / "exp.log").read_text() == "# log of me\n"


def test_an_empty_file_of_ones_own_is_taken(tmp_path: Path) -> None:
    """Left by one that died between making it and writing its head."""
    (tmp_path / "exp.log").touch()
    assert write(tmp_path, "me", "mine\n") == tmp_path / "exp.log"
    assert (tmp_path / "exp.log").read_text() == "# log of me\nmine\n"


def test_where_there_is_no_place_at_all(tmp_path: Path) -> None:
    (tmp_path / "exp.log").mkdir()
    Path(find_log_path(str(tmp_path), "exp.log", "me")).mkdir()
    with pytest.raises(FileExistsError):
        open_log(str(tmp_path), "exp.log", "me")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_folder_that_another_user_made_first(tmp_path: Path) -> None:
    assert tasks_folder(str(tmp_path)) == f"{tmp_path}/train_logs"
    (tmp_path / "train_logs").mkdir()
    assert tasks_folder(str(tmp_path)) == f"{tmp_path}/train_logs"
    os.chown(tmp_path / "train_logs", 12345, 12345)
    assert tasks_folder(str(tmp_path)) == f"{tmp_path}/train_logs-0"
    (tmp_path / "train_logs").rmdir()
    (tmp_path / "train_logs").symlink_to(tmp_path / "elsewhere")
    os.lchown(tmp_path / "train_logs", 12345, 12345)
    assert tasks_folder(str(tmp_path)) == f"{tmp_path}/train_logs-0"
    handle, path = open_task_log(str(tmp_path), "a.log", "me")
    os.close(handle)
    assert path == f"{tmp_path}/train_logs-0/a.log"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a link away")
def test_another_users_link_in_the_place_of_both_folders_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    for name in ("train_logs", "train_logs-0"):
        (tmp_path / name).symlink_to(tmp_path / "precious")
        os.lchown(tmp_path / name, 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        open_task_log(str(tmp_path), "a.log", "me")
    assert list((tmp_path / "precious").iterdir()) == []
    (tmp_path / "train_logs").unlink()
    (tmp_path / "train_logs").symlink_to(tmp_path / "precious")  # one's own link is one's own wish
    handle, path = open_task_log(str(tmp_path), "a.log", "me")
    os.close(handle)
    assert path == f"{tmp_path}/train_logs/a.log"
    assert (tmp_path / "precious" / "a.log").exists()
