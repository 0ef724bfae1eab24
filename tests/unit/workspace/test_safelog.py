"""Logs in a folder that others can write to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from weft.workspace.safelog import head_of, open_log, path_of


def write(folder: Path, owner: str, text: str) -> Path:
    handle, path = open_log(str(folder), "exp.log", owner)
    os.write(handle, text.encode())
    os.close(handle)
    assert path == path_of(str(folder), "exp.log", owner)
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


def test_where_there_is_no_place_at_all(tmp_path: Path) -> None:
    (tmp_path / "exp.log").mkdir()
    Path(path_of(str(tmp_path), "exp.log", "me")).mkdir()
    with pytest.raises(FileExistsError):
        open_log(str(tmp_path), "exp.log", "me")
