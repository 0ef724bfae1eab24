"""The tokens that a scheduler knows, each as a hash: who holds it, what for, until when.

A token is `weft.ID.SECRET`; the id is no secret and names it in lists. A join token, `weft-join.ID.SECRET.FINGERPRINT`,
is good once, for a token of one's own; the fingerprint says which certificate authority the scheduler must show.
The file is SQLite, so that commands on the scheduler's machine and the scheduler itself can both write to it.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.endpoints.paths import make_private
from weft.endpoints.private_files import read_private, write_private
from weft.errors import InputError, NotFound, NotPermitted, WeftError
from weft.server.auth.identity import ROLES, Caller, Role

FILE: Final = "auth.db"
OWN: Final = "weft"
JOIN: Final = "weft-join"
LONGEST: Final = 400
LONGEST_NAME: Final = 64
BUSY_S: Final = 5.0
SHORTEST_S, LONGEST_S = 1.0, 30 * 86400.0
"""How long a join token may be good."""
SCHEMA: Final = """
create table if not exists tokens (
    id text primary key, kind text not null, hash blob not null, role text not null, user text not null,
    node text not null default '', made_at real not null, made_by text not null, expires_at real, used_at real,
    revoked_at real
) strict
"""
_ALLOWED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")


class Presented(NamedTuple):
    """A token as it was shown."""

    kind: str
    id: str
    secret: str
    fingerprint: str = ""


def parse(text: str) -> Presented | None:
    """None: it does not look like one."""
    parts = text.split(".") if len(text) <= LONGEST and text.isascii() else []
    if (len(parts), parts[:1]) not in ((3, [OWN]), (4, [JOIN])) or not all(parts[1:3]):
        return None
    return Presented(*parts)


class Tokens:
    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        make_private(folder)
        self.path, self._now = folder / FILE, now
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        with self._explained():
            self._db = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            self._db.row_factory = sqlite3.Row
            self._db.execute(SCHEMA)

    def close(self) -> None:
        self._db.close()

    # ---- giving out

    def invite(self, role: str, user: str, *, expires_s: float, by: str, fingerprint: str = "") -> str:
        """A join token."""
        _check(role, user)
        if not SHORTEST_S <= expires_s <= LONGEST_S:
            raise InputError(f"a join token cannot be good for {expires_s:.0f} s", hint="from 1s to 30d")
        made, secret = self._add(JOIN, role, user, by=by, expires_at=self._now() + expires_s)
        return f"{JOIN}.{made}.{secret}.{fingerprint}"

    def join(self, text: str, node: str = "") -> tuple[str, Caller]:
        """Takes a join token for one of one's own; whoever comes second with it is refused."""
        found = self._known(parse(text), JOIN)
        node = _check_node(node) if found["role"] == "worker" else ""
        with self._explained():
            self._db.execute("begin immediate")
            try:
                if node and self._is_taken(node):
                    raise NotPermitted(
                        f"node {node} has a token already\n  revoke that one (weft auth list, weft auth revoke ID), "
                        "or join as another: --node NAME"
                    )
                used = self._db.execute(
                    "update tokens set used_at = ? where id = ? and used_at is null", (self._now(), found["id"])
                )
                if not used.rowcount:
                    raise _spent()
                made, secret = self._add(OWN, found["role"], found["user"], node=node, by=f"join {found['id']}")
            except BaseException:
                self._db.execute("rollback")
                raise
            self._db.execute("commit")
        return f"{OWN}.{made}.{secret}", Caller(found["user"], found["role"], node, made)

    def _is_taken(self, node: str) -> bool:
        standing = "kind = ? and role = 'worker' and node = ? and revoked_at is null"
        return self._db.execute(f"select 1 from tokens where {standing}", (OWN, node)).fetchone() is not None

    def own(self, path: Path, user: str) -> str:
        """The owner's token, in a file for clients of the same user: the one that is there, if it is good."""
        try:
            text = read_private(path).decode(errors="replace").strip()
            self.verify(text)
        except (FileNotFoundError, NotPermitted):
            made, secret = self._add(OWN, "admin", user, by="server")
            text = f"{OWN}.{made}.{secret}"
            write_private(path, f"{text}\n".encode())
        return text

    def _add(
        self, kind: str, role: str, user: str, *, by: str, node: str = "", expires_at: float | None = None
    ) -> tuple[str, str]:
        made, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        with self._explained():
            self._db.execute(
                "insert into tokens (id, kind, hash, role, user, node, made_at, made_by, expires_at) "
                "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (made, kind, _hashed(secret), role, user, node, self._now(), by, expires_at),
            )
        return made, secret

    # ---- looking at

    def verify(self, text: str) -> Caller:
        """Who holds this token; raises NotPermitted with what to do."""
        found = self._known(parse(text), OWN)
        return Caller(found["user"], found["role"], found["node"], found["id"])

    def stands(self, key: str) -> bool:
        """Whether a token that was good still is."""
        with self._explained():
            found = self._db.execute("select * from tokens where id = ?", (key,)).fetchone()
        return found is not None and not _why_not(found, self._now())

    def _known(self, shown: Presented | None, kind: str) -> sqlite3.Row:
        if shown is None:
            raise NotPermitted("that is not a token of Weft\n  copy it whole; weft auth token makes one")
        if shown.kind != kind:
            raise NotPermitted(
                "a join token opens nothing by itself\n  weft auth join HOST:PORT TOKEN takes it for one that does"
                if kind == OWN
                else "that is not a join token\n  weft auth token makes one"
            )
        with self._explained():
            found = self._db.execute("select * from tokens where id = ? and kind = ?", (shown.id, kind)).fetchone()
        right = hmac.compare_digest(found["hash"] if found else _NOBODY, _hashed(shown.secret))
        if found is None or not right:
            raise NotPermitted("the scheduler does not know this token\n  ask for a new one and weft auth join again")
        if why := _why_not(found, self._now()):
            raise _spent() if why == "used" else NotPermitted(f"this token {why}\n  ask for a new one: weft auth token")
        row: sqlite3.Row = found
        return row

    def all(self) -> list[dict[str, Any]]:
        """Without hashes: what a person may see."""
        with self._explained():
            rows = self._db.execute("select * from tokens order by made_at, rowid").fetchall()
        now = self._now()
        return [
            {"id": row["id"], "kind": "join" if row["kind"] == JOIN else "own", "role": row["role"],
             "user": row["user"], "node": row["node"], "made_at": row["made_at"], "made_by": row["made_by"],
             "expires_at": row["expires_at"], "state": _why_not(row, now).removeprefix("is ") or "good"}
            for row in rows
        ]  # fmt: skip

    def revoke(self, key: str) -> dict[str, Any]:
        """By its id; from now on it opens nothing."""
        with self._explained():
            self._db.execute("update tokens set revoked_at = coalesce(revoked_at, ?) where id = ?", (self._now(), key))
        for each in self.all():
            if each["id"] == key:
                return each
        raise NotFound(f"there is no token {key[:40]!r}\n  weft auth list shows their ids")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise WeftError(f"{self.path}: {error}\n  is it whole, and its disk not full?") from None


_NOBODY: Final = bytes(32)


def _hashed(secret: str) -> bytes:
    """Secrets are 256 random bits: nothing slower than SHA-256 would make them harder to guess."""
    return hashlib.sha256(secret.encode()).digest()


def _why_not(row: sqlite3.Row, now: float) -> str:
    if row["revoked_at"] is not None:
        return "is revoked"
    if row["used_at"] is not None:
        return "used"
    return "is expired" if row["expires_at"] is not None and now >= row["expires_at"] else ""


def _spent() -> NotPermitted:
    return NotPermitted("this join token was used already: it is good once\n  ask for a new one: weft auth token")


def _check(role: str, user: str) -> Role:
    if role not in ROLES:
        raise InputError(f"unknown role {role[:40]!r}", hint=f"known: {', '.join(ROLES)}")
    if not (0 < len(user) <= LONGEST_NAME and set(user) <= _ALLOWED):
        raise InputError(f"{user[:80]!r} cannot be the name of a user", hint="letters, digits and . _ - @")
    return role


def _check_node(node: str) -> str:
    if not (0 < len(node) <= LONGEST_NAME and set(node) <= _ALLOWED):
        raise InputError(f"{node[:80]!r} cannot be the name of a node", hint="letters, digits and . _ -")
    return node
