"""The journal of a server: a lost or damaged one is refused, restored, and completed from the workers."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from support.running.live_cluster import Cluster
from support.running.live_cluster import cluster as new_cluster
from support.running.local_scheduler import until
from weft.history.journal import store_at

WAIT = ("sh", "-c", "echo begun; while ! test -e {}; do sleep 0.1; done; exit 7")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with new_cluster("n1", "n2", gpus=3) as made:
        yield made


class Story:
    """Jobs before and after the backup of a server that was killed then."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.go = cluster, cluster.root / "go"
        loop = [word.format(self.go) for word in WAIT]
        self.done = cluster.submit("true")
        cluster.wait(self.done)
        self.running = cluster.submit(*loop)
        cluster.until_status(self.running, "running")
        store_at(cluster.folder / "state.db").backup()
        self.older = cluster.root / "older.db"
        shutil.copy(cluster.folder / "state.db.backup", self.older)
        self.alive = cluster.submit(*loop, flags=("--name", "alive"))
        self.failed = cluster.submit("sh", "-c", "exit 5")
        assert cluster.wait(self.failed) == 5
        self.gang = cluster.submit(*loop, flags=("--gpus", "4"))
        for job in (self.alive, self.gang):
            cluster.until_status(job, "running")
        self.waiting = cluster.submit("true", flags=("--gpus", "4"))
        cluster.kill9("server")
        self.kept = cluster.root / "kept"
        shutil.copytree(cluster.folder, self.kept, ignore=shutil.ignore_patterns("run"))

    def damage(self, how: str) -> None:
        """Damage the journal as it was when the server was killed."""
        database = self.cluster.folder / "state.db"
        for name in ("state.db", "state.db-wal", "journal.mark", "state.db.backup"):
            shutil.copy(self.kept / name, database.with_name(name))
        wal = database.with_name("state.db-wal")
        database.with_name("state.db-shm").unlink(missing_ok=True)
        match how:
            case "cut":
                checkpoint(database)
                database.write_bytes(database.read_bytes()[:-8192])
            case "flipped":
                checkpoint(database)
                flip(database)
            case "deleted":
                database.unlink()
                wal.unlink()
            case "empty":
                database.write_bytes(b"")
                wal.unlink()
            case "without its log":
                wal.unlink()
            case "without half its log":
                wal.write_bytes(wal.read_bytes()[: wal.stat().st_size // 2])
            case "older":
                shutil.copy(self.older, database)
                wal.unlink()


def checkpoint(database: Path) -> None:
    with closing(sqlite3.connect(database)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def flip(database: Path) -> None:
    """Flip one bit of a fact."""
    content = bytearray(database.read_bytes())
    content[content.index(b'"Submitted","at":') + 20] ^= 1
    database.write_bytes(content)


def knows(cluster: Cluster, job: str) -> bool:
    return cluster.call("show", job).returncode == 0


@pytest.fixture(scope="module")
def story(cluster: Cluster) -> Story:
    return Story(cluster)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("cut", "malformed"),
        ("flipped", "position 1[0-9]?: the fact is damaged"),
        ("deleted", "is gone: it had"),
        ("empty", "is gone: it had"),
        ("without its log", "is gone: it had"),
        ("without half its log", "is cut off or an older copy"),
        ("older", "is cut off or an older copy"),
    ],
)
def test_a_damaged_journal_is_refused_with_the_remedy(story: Story, how: str, says: str) -> None:
    story.damage(how)
    refused = story.cluster.call("server", "--port", str(story.cluster.port))
    assert refused.returncode == 1
    assert "weft server --restore goes back to" in refused.stderr
    assert "state.db.backup, the backup of 20" in refused.stderr
    assert re.search(says, refused.stderr), refused.stderr
    assert (story.kept / "journal.mark").read_bytes() == (story.cluster.folder / "journal.mark").read_bytes()


def test_a_restored_server_adopts_what_its_workers_have(story: Story) -> None:
    cluster = story.cluster
    story.damage("deleted")
    cluster.options = (*cluster.options, "--restore")
    cluster.serve()
    assert "restored the backup of" in cluster.out("server")
    for job in (story.alive, story.gang, story.failed):
        until(partial(knows, cluster, job))
    for job in (story.alive, story.gang):
        cluster.until_status(job, "running")
    assert cluster.until_status(story.failed, "failed")["exit_code"] == 5
    new = cluster.submit("true")
    assert int(new) > int(story.waiting), "no number is used twice"
    story.go.touch()
    for job in (story.running, story.alive, story.gang):
        assert cluster.until_status(job, "failed")["exit_code"] == 7
        assert cluster.job(job)["run"] == 1
    assert "adopted from workers" in cluster.weft("doctor", code=1)
    cluster.weft("resume")
    assert cluster.wait(new) == 0


def test_doctor_names_a_dead_node_until_it_is_drained() -> None:
    with new_cluster("n1", "n2") as here:
        assert "node n2" not in here.weft("doctor", code=None)
        here.kill9("n2")
        until(lambda: "node n2 is silent for" in here.weft("doctor", code=None))
        assert here.call("doctor").returncode == 1
        here.weft("drain", "n2")
        assert "node n2" not in here.weft("doctor", code=None)
