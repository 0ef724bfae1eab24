"""Files for their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.access.endpoints.private_files import read_private, write_private
from weft.errors import WeftError


def test_it_is_private_from_the_start_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "token", b"secret")
    finally:
        os.umask(before)
    assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
    assert read_private(tmp_path / "token") == b"secret"


def test_it_is_replaced_whole_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    write_private(tmp_path / "token", b"a" * 1000)
    write_private(tmp_path / "token", b"b")
    assert read_private(tmp_path / "token") == b"b"
    assert os.listdir(tmp_path) == ["token"]


def test_a_link_is_neither_read_nor_written_through(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("x")
    (tmp_path / "token").symlink_to(tmp_path / "theirs")
    with pytest.raises(WeftError, match="not a link"):
        read_private(tmp_path / "token")
    write_private(tmp_path / "token", b"mine")
    assert (tmp_path / "theirs").read_text() == "x"
    assert read_private(tmp_path / "token") == b"mine"


def test_what_others_may_read_is_refused(tmp_path: Path) -> None:
    write_private(tmp_path / "token", b"x")
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(WeftError, match="chmod 600"):
        read_private(tmp_path / "token")


def test_a_pipe_does_not_make_it_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    with pytest.raises(WeftError, match="not a file that you own"):
        read_private(tmp_path / "token")


def test_none_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(tmp_path / "token")
