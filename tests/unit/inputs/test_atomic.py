"""Atomic replacement of files."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from weft.inputs.atomic import replacement, write_atomic

CRASH = """
import os, signal, sys
from weft.inputs.atomic import replacement
with replacement(sys.argv[1], durable=True) as temporary:
    with open(temporary, "w") as file:
        file.write("new")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("durable", [False, True])
def test_the_content_is_replaced_and_no_temporary_file_remains(tmp_path: Path, durable: bool) -> None:
    path = tmp_path / "file"
    write_atomic(path, b"old" * 1000, durable=durable)
    write_atomic(str(path), b"new", durable=durable)
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_a_relative_path_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomic("file", b"new", durable=True)
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_process_killed_between_write_and_replace_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    killed = subprocess.run([sys.executable, "-c", CRASH, str(path)], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert path.read_text() == "old"
    write_atomic(path, b"later")
    assert path.read_text() == "later", "the file of the killed process does no harm"


def test_an_error_leaves_the_old_file_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(IsADirectoryError), replacement(path) as temporary:
        os.write(os.open(tmp_path, os.O_WRONLY), Path(temporary).read_bytes())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(("mode", "umask", "expected"), [(0o600, 0, 0o600), (0o666, 0o022, 0o644), (0o666, 0, 0o666)])
def test_the_mode_and_the_umask_decide_who_may_read(tmp_path: Path, mode: int, umask: int, expected: int) -> None:
    before = os.umask(umask)
    try:
        write_atomic(tmp_path / "file", b"x", mode=mode)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected


def test_a_link_is_replaced_and_its_target_stays(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("theirs")
    (tmp_path / "file").symlink_to(tmp_path / "target")
    write_atomic(tmp_path / "file", b"mine")
    assert (tmp_path / "target").read_text() == "theirs"
    assert not (tmp_path / "file").is_symlink()


def test_readers_see_one_whole_content_or_the_other(tmp_path: Path) -> None:
    path = tmp_path / "file"
    contents = [b"a" * 100_000, b"b" * 50_000]
    write_atomic(path, contents[0])
    seen = set()
    pid = os.fork()
    if pid == 0:
        for turn in range(400):
            write_atomic(path, contents[turn % 2])
        os._exit(0)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        seen.add(path.read_bytes())
    assert seen <= set(contents)
