"""The state that several servers share in their database: files, tokens, uploads and the certificate authority."""

from __future__ import annotations

import os
import time
from hashlib import sha256
from pathlib import Path

import pytest

from support.peers.postgres import Postgres, postgres
from support.running.local_scheduler import until
from weft.access.auth.certificates import init
from weft.access.auth.shared_authority import SharedAuthority
from weft.access.auth.token_tables import PostgresTokenTable
from weft.access.auth.tokens import DATABASE_FILE, Tokens, follow_tokens, open_tokens
from weft.errors import Deposed, InputError, NotFound, NotPermitted, Refused, WeftError
from weft.history.journal.postgres import blobs as blob_table
from weft.history.journal.postgres.blobs import BlobTable
from weft.history.journal.postgres.files import FileTable
from weft.history.journal.postgres.lease import LeaderLease
from weft.history.journal.postgres.replicas import replica_problems
from weft.server.leadership.file_mirror import FileFollower, FileMirror


@pytest.fixture
def url(database: Postgres) -> str:
    return database.schema_url()


def led(url: str, holder: str, lease_s: float = 60.0) -> FileTable:
    """Return the table of files as the next leader sees it."""
    table, lease = FileTable(url), LeaderLease(url, holder, "", lease_s)
    epoch = lease.take()
    assert epoch is not None
    table.lead(epoch, holder)
    lease.close()
    return table


def test_files_of_the_leader_come_to_the_other_server_and_go_again(url: str, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "jobs" / "1").mkdir(parents=True)
    there.mkdir()
    mirror, follower = FileMirror(led(url, "a"), here), FileFollower(FileTable(url), there)
    (here / "settings.json").write_text("{}")
    mirror.store(here / "settings.json")
    (here / "jobs" / "1" / "tail").write_bytes(b"\x00the end")
    (here / "jobs" / "12").write_bytes(b"another job")
    mirror.changed(here / "jobs" / "1" / "tail")
    mirror.changed(here / "jobs" / "12")

    def copied(name: str) -> bool:
        follower.follow()
        return (there / name).exists()

    until(lambda: copied("jobs/1/tail") and copied("jobs/12"))
    assert (there / "settings.json").read_text() == "{}"
    assert (there / "jobs/1/tail").read_bytes() == b"\x00the end"
    mirror.removed(here / "jobs" / "1")
    until(lambda: not copied("jobs/1/tail"))
    assert not (there / "jobs/1").exists()
    assert copied("jobs/12")
    mirror.close()


def test_a_deposed_leader_changes_no_file(url: str, tmp_path: Path) -> None:
    old = led(url, "a", lease_s=0.0)
    time.sleep(0.01)
    led(url, "b").put([("settings.json", b"of b")])
    with pytest.raises(Deposed):
        old.put([("settings.json", b"of a")])
    old.remove(["settings.json"])
    assert old.read("settings.json") == b"of b"
    FileFollower(old, tmp_path).follow()
    assert (tmp_path / "settings.json").read_bytes() == b"of b"


def test_limits_that_an_admin_has_edited_here_are_newer_than_the_stored_ones(url: str, tmp_path: Path) -> None:
    table = led(url, "a")
    table.put([("limits.json", b"stored"), ("settings.json", b"stored")])
    for name in ("limits.json", "settings.json"):
        (tmp_path / name).write_text("edited")
        os.utime(tmp_path / name, (time.time() + 60, time.time() + 60))
    FileFollower(table, tmp_path).follow()
    assert (tmp_path / "limits.json").read_text() == "edited"
    assert (tmp_path / "settings.json").read_text() == "stored"


def test_messages_that_a_killed_leader_did_not_copy_are_gone_when_it_follows(url: str, tmp_path: Path) -> None:
    table = led(url, "a")
    table.put([("notify/position.json", b"{}"), ("notify/000000000001.json", b"copied")])
    (tmp_path / "notify").mkdir()
    uncopied = tmp_path / "notify" / "000000000002.json"
    uncopied.write_text("sent by the next leader")
    follower = FileFollower(table, tmp_path)
    follower.follow()
    assert not uncopied.exists()
    assert (tmp_path / "notify" / "000000000001.json").read_bytes() == b"copied"
    uncopied.write_text("of a later lead")
    follower.follow()
    assert uncopied.exists(), "it is copied soon"


def test_messages_stay_if_the_database_has_no_position(url: str, tmp_path: Path) -> None:
    (tmp_path / "notify").mkdir()
    (tmp_path / "notify" / "000000000001.json").write_text("of a server that had its journal elsewhere")
    table = led(url, "a")
    table.put([("settings.json", b"{}")])
    FileFollower(table, tmp_path).follow()
    assert (tmp_path / "notify" / "000000000001.json").exists()


def test_tokens_are_valid_on_all_servers_and_revoked_on_all(url: str, tmp_path: Path) -> None:
    first, second = (Tokens(tmp_path, table=lambda: PostgresTokenTable(url)) for _ in range(2))
    invitation = first.invite("user", "ada", expires_s=60.0, by="root")
    second.refresh()
    token, who = second.join(invitation)
    assert (who.user, who.role) == ("ada", "user")
    with pytest.raises(NotPermitted, match="already used"):
        second.join(invitation)
    first.refresh()
    assert first.verify(token) == who
    first.revoke(who.key)
    second.refresh()
    with pytest.raises(NotPermitted, match="revoked"):
        second.verify(token)
    worker = first.join(first.invite("worker", "ada", expires_s=60.0, by="root"), "n1")[1]
    assert worker.node == "n1"
    with pytest.raises(NotPermitted, match="has a token already"):
        first.join(first.invite("worker", "ada", expires_s=60.0, by="root"), "n1")
    (tmp_path / DATABASE_FILE).write_text(url)
    (tmp_path / DATABASE_FILE).chmod(0o600)
    commands = open_tokens(tmp_path)
    assert [each["id"] for each in commands.all()] == [each["id"] for each in second.all()]
    for each in (first, second, commands):
        each.close()


def test_a_router_learns_of_new_and_revoked_tokens(url: str, tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_text(url)
    (tmp_path / DATABASE_FILE).chmod(0o600)
    there = Tokens(tmp_path, table=lambda: PostgresTokenTable(url))
    follower = follow_tokens(tmp_path)
    token = there.issue_pool_token("a100", "ada")

    def is_known() -> bool:
        try:
            return follower.verify(token).role == "worker"
        except NotPermitted:
            return False

    until(is_known)
    there.revoke(token.split(".")[1])
    until(lambda: not is_known())
    there.close()
    follower.close()


def test_uploaded_files_come_back_from_the_database(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blob_table, "PART_BYTES", 1000)
    content = bytes(range(256)) * 13
    name = sha256(content).hexdigest()
    (tmp_path / name).write_bytes(content)
    first = BlobTable(url)
    first.store(tmp_path / name)
    first.store(tmp_path / name)
    second = BlobTable(url)
    assert second.names == {name}
    (tmp_path / name).unlink()
    second.fetch(tmp_path / name)
    assert (tmp_path / name).read_bytes() == content
    with pytest.raises(NotFound):
        second.fetch(tmp_path / ("0" * 64))
    second.prune([name], 0.0)
    assert second.names == {name}
    second.prune([], 0.0)
    assert not second.names
    monkeypatch.setattr(blob_table, "MAX_STORED_BYTES", 10)
    with pytest.raises(Refused, match="--blobs DIR"):
        first.store(tmp_path / name)


def test_servers_have_certificates_of_one_authority_whose_key_is_encrypted(
    database: Postgres, url: str, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    first, _ = init(tmp_path / "a", ["head-a"], SharedAuthority(url, key))
    second, _ = init(tmp_path / "b", ["head-b"], SharedAuthority(url, key))
    assert first.fingerprint == second.fingerprint
    assert first.key != second.key
    assert not list(tmp_path.rglob("ca.key"))
    ((stored,),) = database.execute("SELECT value FROM weft_meta WHERE key = 'ca.key'", url)
    assert str(stored).startswith("-----BEGIN ENCRYPTED PRIVATE KEY-----")
    with pytest.raises(InputError, match="is missing"):
        init(tmp_path / "c", ["head-c"], SharedAuthority(url, tmp_path / "elsewhere"))
    (tmp_path / "wrong").write_text("0" * 64)
    (tmp_path / "wrong").chmod(0o600)
    with pytest.raises(WeftError, match="is not the key of the authority"):
        init(tmp_path / "c", ["head-c"], SharedAuthority(url, tmp_path / "wrong"))


def test_a_database_without_replicas_has_no_problem(url: str) -> None:
    assert replica_problems(url) == []


def test_a_replica_that_commits_do_not_wait_for_is_a_problem() -> None:
    with postgres() as database, database.replica():
        database.execute("CREATE ROLE plain LOGIN")  # may not read the state of replicas
        plain = database.url.replace("weft@", "plain@")
        (problem,) = replica_problems(plain)
        assert "1 replica, and none is synchronous" in problem
        database.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        database.execute("SELECT pg_reload_conf()")
        until(lambda: replica_problems(plain) == [])
