"""Jobs in containers of podman without root: a real user with no further user ids in /etc/subuid."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.peers.podman_store import IMAGE, PodmanStore
from support.running.local_scheduler import until
from support.running.loopback_namespace import needed
from support.running.other_users import User, users


def podman_of(user: User, *words: str) -> str:
    where = [f"{name}={value}" for name, value in user.env.items()]
    done = user.run("env", *where, "podman", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def end_processes(uid: int) -> None:
    """End what podman leaves behind for its user: a process that keeps the namespace."""
    for each in Path("/proc").iterdir():
        with suppress(OSError):
            if each.name.isdecimal() and each.stat().st_uid == uid:
                os.kill(int(each.name), signal.SIGKILL)


pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def user() -> Iterator[User]:
    needed("podman", shutil.which("podman") is not None, "make test installs it (Debian: podman runc catatonit)")
    with users(1) as (_, (one,)):
        config = one.root / ".config" / "containers"
        context = one.root / "context"
        for folder in (config, context, one.root / "r"):
            folder.mkdir(parents=True)
        PodmanStore(config).write()
        shutil.move(config / "storage.conf", config / "storage.conf.root")
        (config / "storage.conf").write_text(
            f'[storage]\ndriver = "vfs"\ngraphroot = "{one.root}/images"\nrunroot = "{one.root}/run"\n'
        )
        (context / "Containerfile").write_text("FROM scratch\nCOPY marker /marker\nCOPY marker /etc/weft-test\n")
        (context / "marker").write_text("weft\n")
        for each in one.root.rglob("*"):
            os.chown(each, one.uid, one.uid)
        try:
            podman_of(one, "build", "--isolation", "chroot", "--tag", IMAGE, str(context))
            yield one
        finally:
            one.weft("down", "--kill", code=None)
            end_processes(one.uid)


def test_a_job_runs_in_a_container_without_root_and_its_files_belong_to_the_user(user: User) -> None:
    script = "cat /marker; id -u; echo made > made; exit 3"
    done = user.weft("run", "--gpus", "0", "--image", IMAGE, "--", "sh", "-c", script, code=3)
    assert done.stdout.split() == ["weft", "0"], "root in the container is the user outside"
    assert (user.root / "made").stat().st_uid == user.uid
    user.weft("submit", "--gpus", "0", "--image", IMAGE, "--", "sleep", "600")
    until(lambda: podman_of(user, "ps", "--quiet"))
    user.weft("cancel", "-y", "@")
    until(lambda: not podman_of(user, "ps", "--all", "--quiet"))
