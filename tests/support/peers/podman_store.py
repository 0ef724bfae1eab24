"""A podman with images and containers of a test's own, in a folder that goes with the tests.

Its image has no files: containers see the programs and libraries of this machine, read-only. So nothing is fetched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.running.loopback_namespace import needed

IMAGE = "localhost/weft-test:1"
SHARED = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc")
"""Folders of this machine that make an empty image usable."""
CONTAINERS_CONF = """[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
volumes = [{volumes}]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "file"
tmp_dir = "{folder}/tmp"
"""
STORAGE_CONF = """[storage]
driver = "vfs"
graphroot = "{folder}/root"
runroot = "{folder}/run"
"""


@dataclass
class PodmanStore:
    folder: Path

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead podman to this store."""
        return {
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self.folder / "storage.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }

    def podman(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["podman", *words], env={**os.environ, **self.env}, capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout.strip()

    def containers(self, *filters: str) -> list[str]:
        """The names of all containers, those that have ended included."""
        words = [part for each in filters for part in ("--filter", each)]
        return self.podman("ps", "--all", "--format", "{{.Names}}", *words).split()

    def write(self, *, shared: tuple[str, ...] = SHARED) -> None:
        volumes = ", ".join(f'"{path}:{path}:ro"' for path in shared if os.path.exists(path))
        (self.folder / "containers.conf").write_text(CONTAINERS_CONF.format(folder=self.folder, volumes=volumes))
        (self.folder / "storage.conf").write_text(STORAGE_CONF.format(folder=self.folder))


def make_store() -> Iterator[PodmanStore]:
    needed("podman", shutil.which("podman") is not None, "make test installs it (Debian: podman runc catatonit)")
    store = PodmanStore(Path(tempfile.mkdtemp(prefix="weft-p-")))
    try:
        store.write()
        context = store.folder / "context"
        context.mkdir()
        (context / "Containerfile").write_text("FROM scratch\nCOPY marker /marker\nCOPY marker /etc/weft-test\n")
        (context / "marker").write_text("weft\n")
        done = subprocess.run(
            ["podman", "build", "--tag", IMAGE, str(context)], env={**os.environ, **store.env}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        needed("a podman that works", done.returncode == 0, done.stderr[-500:])
        yield store
    finally:
        if (store.folder / "containers.conf").exists():
            store.podman("rm", "--all", "--force", "--time", "0", check=False)
        shutil.rmtree(store.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def podman() -> Iterator[PodmanStore]:
    yield from make_store()
