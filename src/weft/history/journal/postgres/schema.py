"""The tables. They are in the first schema of the search path; `?options=-csearch_path%3DNAME` selects another."""

from __future__ import annotations

import os
from typing import Any, Final

from weft.errors import JournalError
from weft.history.journal.codec import FORMAT, check_format
from weft.history.journal.postgres.session import Session

CREATION_LOCK: Final = 0x77656674
"""The advisory lock under which the tables are created: two servers may start at once."""
TABLES: Final = (
    "CREATE TABLE weft_meta (key text PRIMARY KEY, value text NOT NULL)",
    "CREATE TABLE weft_facts (position bigint PRIMARY KEY, epoch bigint NOT NULL, body text NOT NULL)",
    "CREATE TABLE weft_snapshot (position bigint PRIMARY KEY, body text NOT NULL)",
    "CREATE TABLE weft_leader ("
    "one boolean PRIMARY KEY DEFAULT true CHECK (one), epoch bigint NOT NULL, holder text NOT NULL,"
    " address text NOT NULL, lease_s double precision NOT NULL, renewed_at timestamptz NOT NULL)",
    "CREATE SEQUENCE weft_file_versions",
    "CREATE TABLE weft_files (name text PRIMARY KEY, body bytea, version bigint NOT NULL,"
    " changed_at timestamptz NOT NULL)",
    "CREATE INDEX weft_files_by_version ON weft_files (version)",
    "CREATE TABLE weft_tokens ("
    'id text PRIMARY KEY, kind text NOT NULL, hash bytea NOT NULL, role text NOT NULL, "user" text NOT NULL,'
    " node text NOT NULL DEFAULT '', made_at double precision NOT NULL, made_by text NOT NULL,"
    " expires_at double precision, used_at double precision, revoked_at double precision)",
    "CREATE TABLE weft_blobs (name text PRIMARY KEY, bytes bigint NOT NULL, used_at timestamptz NOT NULL)",
    "CREATE TABLE weft_blob_parts (name text REFERENCES weft_blobs ON DELETE CASCADE, number integer,"
    " body bytea NOT NULL, PRIMARY KEY (name, number))",
    "INSERT INTO weft_leader VALUES (true, 0, '', '', 0, clock_timestamp())",
    "INSERT INTO weft_meta VALUES ('weft', 'journal')",
    f"INSERT INTO weft_meta VALUES ('format', '{FORMAT}')",
)


def has_tables(session: Session) -> bool:
    return session.rows("open", "SELECT to_regclass('weft_meta') IS NOT NULL")[0][0] is True


def create(session: Session) -> None:
    """Create the tables where there are none."""
    with session.transaction("create tables in") as db:
        db.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
        if db.execute("SELECT to_regclass('weft_meta') IS NOT NULL").fetchone()[0]:
            return
        for statement in TABLES:
            db.execute(statement)
        db.execute("INSERT INTO weft_meta VALUES ('name', %s)", (os.urandom(8).hex(),))


def check(session: Session) -> dict[str, str]:
    """Return the table of settings. Raise if it is not a journal, or has another format."""
    meta: dict[Any, Any] = dict(session.rows("open", "SELECT key, value FROM weft_meta"))
    if meta.get("weft") != "journal":
        raise JournalError(f"cannot open {session.where}: a database, but not a Weft journal")
    found = str(meta.get("format"))
    check_format(int(found) if found.isdecimal() else found, session.where)
    return meta
