"""A journal in PostgreSQL: it reconnects, never shows passwords, and restores from the tables of its backups."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import pytest

from support.peers.postgres import Postgres
from support.running.secured_cluster import free_port
from weft.errors import Deposed, JournalError, NotFound
from weft.history.journal import open_journal, store_at
from weft.history.journal.postgres.journal import PostgresJournal
from weft.model import Fact, Wake


@pytest.fixture
def url(database: Postgres) -> str:
    return database.schema_url()


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as made:
        made.append(Wake(0.0))
        yield made


def facts_at(url: str) -> list[Fact]:
    with open_journal(url, readonly=True) as reader:
        return list(reader.read())


def end_connections(database: Postgres) -> None:
    database.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'weft'")


def test_a_database_that_is_away_is_one_clear_error() -> None:
    pytest.importorskip("psycopg")
    began = time.monotonic()
    with pytest.raises(JournalError, match=r"cannot create tables in postgresql://ada@127\.0\.0\.1:\d+/weft") as found:
        open_journal(f"postgresql://ada:secret@127.0.0.1:{free_port()}/weft")
    assert "secret" not in str(found.value)
    assert time.monotonic() - began < 10.0


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(JournalError, match=r"pip install 'weft\[postgres\]'"):
        open_journal("postgresql://ada@127.0.0.1/weft")


def test_a_reader_creates_no_tables(url: str) -> None:
    assert not store_at(url).exists()
    with pytest.raises(JournalError, match="does not exist"):
        open_journal(url, readonly=True)
    assert not store_at(url).exists()


def test_a_table_of_others_is_no_journal(database: Postgres, url: str) -> None:
    database.execute("CREATE TABLE weft_meta (key text PRIMARY KEY, value text)", url)
    with pytest.raises(JournalError, match="not a Weft journal"):
        open_journal(url)


def test_the_connection_is_made_again_after_it_broke(database: Postgres, url: str, journal: PostgresJournal) -> None:
    end_connections(database)
    with pytest.raises(JournalError, match="cannot append to"):
        journal.append(Wake(1.0))
    journal.append(Wake(2.0))
    assert facts_at(url) == [Wake(0.0), Wake(2.0)]


def test_a_leader_waits_for_its_database(database: Postgres, url: str, journal: PostgresJournal) -> None:
    database.execute("UPDATE weft_leader SET epoch = 1, holder = 'a'", url)
    journal.lead(1, "a", lambda: True)
    journal.append(Wake(1.0))
    end_connections(database)
    journal.append(Wake(2.0), Wake(3.0))
    assert facts_at(url) == [Wake(0.0), Wake(1.0), Wake(2.0), Wake(3.0)]


def test_an_append_whose_answer_was_lost_is_not_repeated(url: str, journal: PostgresJournal) -> None:
    class Deaf:
        """The session, but the first answer is lost on the way back."""

        def __init__(self) -> None:
            self._session, self.lost = journal._writer, 0

        def run(self, *statement: object) -> object:
            answer = self._session.run(*statement)  # type: ignore[arg-type]
            if not self.lost:
                self.lost += 1
                from weft.history.journal.postgres.session import ConnectionLost

                raise ConnectionLost("the answer is lost")
            return answer

        def __getattr__(self, name: str) -> object:
            return getattr(self._session, name)

    journal.lead(0, "", lambda: True)
    deaf = Deaf()
    journal._writer = deaf  # type: ignore[assignment]
    journal.append(Wake(1.0), Wake(2.0))
    journal.append(Wake(3.0))
    assert deaf.lost == 1
    assert facts_at(url) == [Wake(0.0), Wake(1.0), Wake(2.0), Wake(3.0)]


def test_a_deposed_writer_adds_nothing(database: Postgres, url: str, journal: PostgresJournal) -> None:
    database.execute("UPDATE weft_leader SET epoch = epoch + 1, holder = 'another'", url)
    with pytest.raises(Deposed, match="another server has taken over"):
        journal.append(Wake(1.0))
    assert facts_at(url) == [Wake(0.0)]


def test_a_gap_is_found_and_the_backup_fills_it(database: Postgres, url: str, journal: PostgresJournal) -> None:
    store = store_at(url)
    assert store.backup_at() is None
    with pytest.raises(NotFound, match="there is no backup"):
        store.restore()
    journal.append(Wake(1.0), Wake(2.0))
    store.backup()
    assert abs((store.backup_at() or 0.0) - time.time()) < 60.0
    database.execute("DELETE FROM weft_facts WHERE position = 2", url)
    assert store.check().check == "1 facts are missing"
    with pytest.raises(JournalError, match="rows of weft_facts are missing"):
        facts_at(url)
    store.restore()
    assert store.check().check == "ok"
    assert facts_at(url) == [Wake(0.0), Wake(1.0), Wake(2.0)]
    with pytest.raises(Deposed):
        journal.append(Wake(9.0))
    assert database.execute("SELECT count(*) FROM weft_damaged_facts", url) == [(2,)]
    with open_journal(url) as restored:
        restored.append(Wake(3.0))
    assert len(facts_at(url)) == 4
