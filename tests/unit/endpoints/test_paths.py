"""The state of a scheduler as its lock shows it."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from weft.access.endpoints.paths import (
    Paths,
    _temporary_folder,
    absolute,
    server_folder,
    server_folder_name,
    user_paths,
)


@pytest.fixture
def here(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "state", tmp_path / "run" / "weft")


@pytest.mark.parametrize(("words", "died"), [("4711", True), ("stopped", False), ("", False)])
def test_a_scheduler_died_if_its_pid_is_left(here: Paths, words: str, died: bool) -> None:
    here.make()
    here.lock.write_text(words)
    assert here.has_died() is died


def test_a_scheduler_that_holds_its_lock_is_alive(here: Paths) -> None:
    here.make()
    here.lock.write_text("4711")
    with here.lock.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not here.has_died()
    assert here.has_died()


def test_no_scheduler_died_where_none_ran(here: Paths) -> None:
    assert not here.has_died()


def test_a_scheduler_with_a_full_backlog_answers(tmp_path: Path) -> None:
    """Nothing accepts: the probe must neither wait nor take the scheduler for dead."""
    paths = Paths(tmp_path, tmp_path)
    waiting: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(paths.socket))
        listening.listen(0)
        try:
            while len(waiting) < 10:
                client = socket.socket(socket.AF_UNIX)
                client.setblocking(False)
                waiting.append(client)
                client.connect(str(paths.socket))
        except BlockingIOError:
            pass
        assert len(waiting) < 10
        assert paths.answers()
        for client in waiting:
            client.close()


@pytest.mark.parametrize("parts", [("/a//b/", "c"), ("a", "./b"), ("/a/../b",), (".",), ("/",), ("/a/.", "/b")])
def test_a_path_as_text_is_as_pathlib_makes_it(
    parts: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute(*parts) == str(Path(*parts).absolute())


def test_paths_as_text_are_those_of_the_properties(here: Paths, tmp_path: Path) -> None:
    assert here.socket_name == str(here.socket)
    assert here.journal_url == str(here.state / "state.db")
    assert here == Paths(str(here.state), str(here.runtime))
    assert hash(here) == hash(Paths(here.state, here.runtime))
    assert here != Paths(here.state, here.runtime, "elsewhere.db")
    env = {"XDG_STATE_HOME": str(tmp_path)}
    assert server_folder_name(7, env) == str(server_folder(7, env))


@pytest.mark.parametrize("given", [{}, {"TMPDIR": "a"}, {"TMPDIR": "missing", "TMP": "a"}, {"TMPDIR": "file"}])
def test_without_a_runtime_folder_sockets_are_where_tempfile_puts_files(
    given: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    code = "import tempfile; print(tempfile.gettempdir())"
    expected = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert _temporary_folder() == expected


def test_a_recorded_runtime_folder_counts_while_this_users_socket_is_in_it(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path / "s"), "XDG_RUNTIME_DIR": str(tmp_path / "r")}
    derived = user_paths(env)
    other = Paths(derived.state, tmp_path / "other")
    other.make()
    other.record_runtime()
    assert user_paths(env) == derived, "no socket"
    other.socket.touch()
    assert user_paths(env) == derived, "a file"
    other.socket.unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(other.socket_name)
        assert user_paths(env) == other
        if os.getuid() == 0:
            os.chown(other.socket_name, 65534, 65534)
            assert user_paths(env) == derived, "the socket of another user"
