"""A PostgreSQL of a test's own: real processes in a folder of their own, on loopback, as a user other than root."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from support.running.local_scheduler import until
from support.running.loopback_namespace import needed
from support.running.secured_cluster import free_port

HINT = "make test installs it for root (Debian: postgresql)"
_NUMBERS = itertools.count(1)


def programs() -> Path | None:
    """Return the folder of the newest PostgreSQL's programs. Debian keeps them out of the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: float(each.parts[-3]))
    elsewhere = shutil.which("postgres")
    return found[-1].parent if found else Path(elsewhere).parent if elsewhere else None


def need_postgres() -> None:
    needed("psycopg", find_spec("psycopg") is not None, "make test installs it (pip install 'weft[postgres]')")
    needed("PostgreSQL", programs() is not None, HINT)


class Postgres:
    """A database server. `url` names a database with nothing in it but what tests put there."""

    def __init__(self, root: Path, settings: dict[str, str]) -> None:
        self.root, self.port = root, free_port()
        self._settings = {
            "listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": "", "fsync": "off",
            "max_connections": "50", "shared_buffers": "16MB", "log_min_messages": "warning", "wal_level": "replica",
            **settings,
        }  # fmt: skip
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"postgresql://weft@127.0.0.1:{self.port}/postgres"

    def schema_url(self, name: str = "") -> str:
        """Return the URL of a new schema, in which a journal finds no tables."""
        name = name or f"s{os.getpid()}_{next(_NUMBERS)}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?options=-csearch_path%3D{name}"

    def execute(self, statement: str, url: str = "") -> list[tuple[object, ...]]:
        import psycopg

        with psycopg.connect(url or self.url, autocommit=True) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def initialise(self) -> None:
        self.run("initdb", "--no-sync", "--auth=trust", "--username=weft", "--encoding=UTF8", "--locale=C")

    def run(self, program: str, *options: str) -> None:
        folder = programs()
        assert folder is not None
        subprocess.run(
            [str(folder / program), "-D", str(self.root / "data"), *options], check=True, cwd=self.root, timeout=60,
            stdout=subprocess.DEVNULL, **_as_other_user(),
        )  # fmt: skip

    def start(self) -> None:
        folder = programs()
        assert folder is not None
        options = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with (self.root / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(folder / "postgres"), "-D", str(self.root / "data"), *options], cwd=self.root, stdout=log,
                stderr=log, **_as_other_user(),
            )  # fmt: skip
        until(self.answers)

    def answers(self) -> bool:
        import psycopg

        with contextlib.suppress(psycopg.Error):
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        return False

    def stop(self, number: int = signal.SIGINT) -> None:
        """Stop it: with SIGINT in order, with SIGQUIT as a crash does."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(30)
            self._process = None

    @contextlib.contextmanager
    def replica(self) -> Iterator[None]:
        """Run a second server that follows this one, without being waited for."""
        folder, programs_ = self.root / "replica", programs()
        assert programs_ is not None
        copy = (
            "-h",
            "127.0.0.1",
            "-p",
            str(self.port),
            "-U",
            "weft",
            "-D",
            str(folder),
            "-R",
            "-c",
            "fast",
            "--no-sync",
        )
        subprocess.run(
            [str(programs_ / "pg_basebackup"), *copy], check=True, cwd=self.root, timeout=60, **_as_other_user()
        )
        options = self._settings | {"port": str(free_port())}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.root / "replica.log").open("ab") as log:
            process = subprocess.Popen(
                [str(programs_ / "postgres"), "-D", str(folder), *words], cwd=self.root, stdout=log, stderr=log,
                **_as_other_user(),
            )  # fmt: skip
        try:
            until(lambda: self.execute("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"))
            yield
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(30)

    def crash_and_restart(self) -> None:
        self.stop(signal.SIGQUIT)
        self.start()


def _as_other_user() -> dict[str, Any]:
    """Return the options of a process that must not be root's: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)
            return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    return {}


@contextlib.contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """Start a database server with these settings."""
    need_postgres()
    root = Path(tempfile.mkdtemp(prefix="weft-postgres-"))
    other = _as_other_user()
    if other:
        os.chown(root, other["user"], other["group"])
    made = Postgres(root, settings)
    try:
        made.initialise()
        made.start()
        yield made
    finally:
        made.stop(signal.SIGQUIT)
        shutil.rmtree(root, ignore_errors=True)
