"""A journal that is damaged: back to the backup, and on with what runs have done since."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.running.local_scheduler import Site, is_alive, site, until
from weft.access.client import Client
from weft.history.journal import open_journal, store_at
from weft.model import Wake
from weft.server.maintenance import BACKUP_DELAY_S, BACKUP_PERIOD_S, Maintenance


@pytest.fixture
def here() -> Iterator[Site]:
    with site({"gpus": "0,1"}) as made:
        yield made


def status(client: Client, job: str) -> tuple[str, int | None]:
    found = client.jobs([job]).jobs[0]
    return found.status, found.exit_code


def test_a_backup_is_whole_and_made_beside_whoever_appends(here: Site) -> None:
    here.paths.make()
    with open_journal(here.paths.journal_url) as journal:
        journal.append(Wake(1.0))
        journal.backup()
        journal.append(Wake(2.0))
        journal.backup()
        journal.append(Wake(3.0))
    copy = Path(store_at(here.paths.journal_url).backup_location)
    assert copy.stat().st_mode & 0o777 == 0o600
    with open_journal(f"sqlite://{copy}", readonly=True) as journal:
        assert list(journal.read()) == [Wake(1.0), Wake(2.0)]


def test_one_is_made_each_day(here: Site) -> None:
    here.paths.make()
    controller: Any = SimpleNamespace(paths=here.paths)
    maintenance, copy = Maintenance(controller), Path(store_at(here.paths.journal_url).backup_location)
    with open_journal(here.paths.journal_url) as journal:
        journal.append(Wake(1.0))
        asyncio.run(maintenance._back_up())
        assert not copy.exists(), "not right after the start"
        maintenance._opened_at = time.monotonic() - BACKUP_DELAY_S
        asyncio.run(maintenance._back_up())
        first = copy.stat()
        asyncio.run(maintenance._back_up())
        assert copy.stat().st_ino == first.st_ino, "not twice a day"
        os.utime(copy, (0, time.time() - BACKUP_PERIOD_S))
        asyncio.run(maintenance._back_up())
        assert copy.stat().st_mtime > time.time() - BACKUP_PERIOD_S


def test_what_runs_have_done_since_the_backup_is_found(here: Site) -> None:
    with here.client() as client:
        before = here.submit(client, "true")
        client.wait(before)
        went_on = here.submit(client, "sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 7")
        until(lambda: status(client, went_on)[0] == "running")
        waited = here.submit(client, "sh", "-c", "test $WEFT_RUN = 2", retries="1", gpu_ids="1")
        until(lambda: status(client, waited)[0] in ("starting", "running", "done"))
        store_at(here.paths.journal_url).backup()
        client.wait(waited)
        (here.root / "go").touch()
        assert client.wait(went_on).exit_code == 7
        unknown = here.submit(client, "sh", "-c", "exit 5", name="since")
        client.wait(unknown)
        alive = here.submit(client, "sleep", "300", gpu_ids="1")
        pid = until(lambda: _pid(here, alive))
        here.kill9()
    database = Path(here.paths.journal_url)
    database.with_name("state.db-wal").unlink()
    database.write_bytes(b"\0" * 100_000)
    failed = here.weft("queue")
    assert (failed.returncode, "weft up --restore" in failed.stderr) == (4, True)
    assert "is damaged" in here.weft("doctor").stdout
    restored = here.weft("up", "--restore", check=True)
    assert "restored the backup of 20" in restored.stderr
    with here.client() as client:
        assert [status(client, job) for job in (before, went_on, waited, unknown)] == [
            ("done", 0), ("failed", 7), ("done", 0), ("failed", 5),
        ]  # fmt: skip
        assert client.jobs(["since"]).jobs[0].id == unknown
        assert (status(client, alive)[0], is_alive(pid), _pid(here, alive)) == ("running", True, pid)
        assert int(here.submit(client, "true")) > int(alive)
        assert here.weft("up", "--restore").returncode == 6, "not while one runs"
        client.change("cancel", [alive])
        client.wait(alive)


def test_there_may_be_no_backup(here: Site) -> None:
    done = here.weft("up", "--restore")
    assert (done.returncode, "there is no backup at" in done.stderr) == (3, True)


def _pid(here: Site, job: str) -> int | None:
    try:
        return int(json.loads((here.paths.jobs / job / "1" / "started.json").read_bytes().rstrip(b"\0"))["leader"][1])
    except (OSError, ValueError, KeyError):
        return None
