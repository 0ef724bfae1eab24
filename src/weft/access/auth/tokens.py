"""The token store: the hash, user, role and expiry of each token.

A token is `weft.ID.SECRET`. The id is not secret; lists show it. A join token, `weft-join.ID.SECRET.FINGERPRINT`, can
be exchanged once for such a token. The fingerprint is that of the server's certificate authority. The store is a table
(`token_tables`), so that the server and commands on its machine can both write to it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.access.auth.identity import ROLES, Caller, Role
from weft.access.auth.token_tables import PostgresTokenTable, Row, SqliteTokenTable, TokenTable
from weft.access.endpoints.private_files import read_private, write_private
from weft.errors import InputError, NotFound, NotPermitted, WeftError

FOLLOW_S: Final = 1.0
"""The period at which another process than the server learns of new and revoked tokens in a shared database."""
DATABASE_FILE: Final = "database"
"""The file in a server's folder with the URL of the database that it shares with others, for commands of its user."""
OWN: Final = "weft"
JOIN: Final = "weft-join"
MAX_TOKEN_CHARS: Final = 400
MAX_NAME_CHARS: Final = 64
MIN_EXPIRY_S, MAX_EXPIRY_S = 1.0, 30 * 86400.0
"""The least and most seconds for which a join token may be valid."""
_ALLOWED: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-@")


class Presented(NamedTuple):
    """The parts of a token that a caller presents."""

    kind: str
    id: str
    secret: str
    fingerprint: str = ""


def open_tokens(folder: Path) -> Tokens:
    """Open the tokens of the server in this folder: those of all servers, if it shares a database."""
    try:
        url = read_private(folder / DATABASE_FILE).decode().strip()
    except FileNotFoundError:
        return Tokens(folder)
    return Tokens(folder, table=lambda: PostgresTokenTable(url))


def follow_tokens(folder: Path) -> Tokens:
    """Open the tokens for a process that only verifies them, such as a router. Tokens of a shared database are read
    again and again in a thread; without the database, the last ones stay."""
    tokens = open_tokens(folder)
    if tokens.is_remote:
        threading.Thread(target=_follow, args=(tokens,), name="tokens", daemon=True).start()
    return tokens


def _follow(tokens: Tokens) -> None:
    while not tokens.closed.wait(FOLLOW_S):
        with suppress(WeftError):
            tokens.refresh()


def parse(text: str) -> Presented | None:
    """Split a token into its parts; None if it does not look like one."""
    parts = text.split(".") if len(text) <= MAX_TOKEN_CHARS and text.isascii() else []
    if (len(parts), parts[:1]) not in ((3, [OWN]), (4, [JOIN])) or not all(parts[1:3]):
        return None
    return Presented(*parts)


class Tokens:
    """The token store of one server, in its folder, or of several servers, in the table that they share."""

    def __init__(
        self, folder: Path, now: Callable[[], float] = time.time, table: Callable[[], TokenTable] | None = None
    ) -> None:
        self._now = now
        self.closed = threading.Event()
        self._table = SqliteTokenTable(folder) if table is None else table()

    @property
    def is_remote(self) -> bool:
        """True: calls other than `verify` and `is_valid` wait for a network."""
        return self._table.is_remote

    def refresh(self) -> None:
        """Learn what other processes changed."""
        self._table.refresh()

    def close(self) -> None:
        self.closed.set()
        self._table.close()

    # ---- issuing

    def invite(self, role: str, user: str, *, expires_s: float, by: str, fingerprint: str = "") -> str:
        """Create a join token."""
        _check_role(role, user)
        if not MIN_EXPIRY_S <= expires_s <= MAX_EXPIRY_S:
            raise InputError(f"a join token cannot be valid for {expires_s:.0f} s", hint="from 1s to 30d")
        made, secret = self._add(JOIN, role, user, by=by, expires_at=self._now() + expires_s)
        return f"{JOIN}.{made}.{secret}.{fingerprint}"

    def join(self, text: str, node: str = "") -> tuple[str, Caller]:
        """Exchange a join token for a token of its user. A join token can be used once."""
        found = self._find(parse(text), JOIN)
        node = _check_node(node) if found["role"] == "worker" else ""
        with self._table.exclusive():
            if node and self._is_taken(node):
                raise NotPermitted(
                    f"node {node} has a token already\n  revoke that one (weft auth list, weft auth revoke ID), "
                    "or join as another: --node NAME"
                )
            used = self._table.change(
                "update tokens set used_at = ? where id = ? and used_at is null", (self._now(), found["id"])
            )
            if not used:
                raise _already_used()
            made, secret = self._add(OWN, found["role"], found["user"], node=node, by=f"join {found['id']}")
        return f"{OWN}.{made}.{secret}", Caller(found["user"], found["role"], node, made)

    def issue_pool_token(self, pool: str, by: str) -> str:
        """Create a token for all workers of a pool, which they may use any number of times until it is revoked."""
        made, secret = self._add(OWN, "worker", by, node=f"{pool}-*", by=f"pool {pool}")
        return f"{OWN}.{made}.{secret}"

    def revoke_pool_tokens(self, pool: str) -> None:
        """Revoke the tokens of a pool that is gone."""
        self._table.change(
            "update tokens set revoked_at = ? where revoked_at is null and role = 'worker' and node = ?",
            (self._now(), f"{pool}-*"),
        )

    def _is_taken(self, node: str) -> bool:
        standing = "kind = ? and role = 'worker' and node = ? and revoked_at is null"
        return bool(self._table.rows(f"select id from tokens where {standing}", (OWN, node)))

    def write_owner_token(self, path: Path, user: str) -> str:
        """Return the owner's token, from a file for clients of the same user. Write a new one if it is not valid."""
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
        self._table.change(
            'insert into tokens (id, kind, hash, role, "user", node, made_at, made_by, expires_at) '
            "values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (made, kind, _hashed(secret), role, user, node, self._now(), by, expires_at),
        )
        return made, secret

    # ---- checking and listing

    def verify(self, text: str) -> Caller:
        """Return the caller that a token belongs to. Raise NotPermitted if it is not valid."""
        found = self._find(parse(text), OWN)
        return Caller(found["user"], found["role"], found["node"], found["id"])

    def is_valid(self, key: str) -> bool:
        """Return whether the token with this id is still valid."""
        found = self._table.find(key)
        return found is not None and not _invalid_because(found, self._now())

    def _find(self, shown: Presented | None, kind: str) -> Row:
        if shown is None:
            raise NotPermitted("this is not a Weft token\n  copy all of it; weft auth token makes one")
        if shown.kind != kind:
            raise NotPermitted(
                "a join token cannot be used for calls\n  weft auth join HOST:PORT TOKEN exchanges it for one that can"
                if kind == OWN
                else "this is not a join token\n  weft auth token makes one"
            )
        found = self._table.find(shown.id)
        right = hmac.compare_digest(bytes(found["hash"]) if found else _NO_HASH, _hashed(shown.secret))
        if found is None or not right or found["kind"] != kind:
            raise NotPermitted("the scheduler does not know this token\n  ask for a new one and weft auth join again")
        if why := _invalid_because(found, self._now()):
            raise (
                _already_used()
                if why == "used"
                else NotPermitted(f"this token {why}\n  ask for a new one: weft auth token")
            )
        return found

    def all(self) -> list[dict[str, Any]]:
        """Return all tokens, without their hashes."""
        rows = self._table.rows("select * from tokens order by made_at, id")
        now = self._now()
        return [
            {"id": row["id"], "kind": "join" if row["kind"] == JOIN else "own", "role": row["role"],
             "user": row["user"], "node": row["node"], "made_at": row["made_at"], "made_by": row["made_by"],
             "expires_at": row["expires_at"], "state": _invalid_because(row, now).removeprefix("is ") or "good"}
            for row in rows
        ]  # fmt: skip

    def revoke(self, key: str) -> dict[str, Any]:
        """Revoke the token with this id."""
        self._table.change("update tokens set revoked_at = coalesce(revoked_at, ?) where id = ?", (self._now(), key))
        for each in self.all():
            if each["id"] == key:
                return each
        raise NotFound(f"there is no token {key[:40]!r}\n  weft auth list shows their ids")


_NO_HASH: Final = bytes(32)


def _hashed(secret: str) -> bytes:
    """Hash a secret. It has 256 random bits, so a slow hash would not make it harder to guess."""
    return hashlib.sha256(secret.encode()).digest()


def _invalid_because(row: Row, now: float) -> str:
    if row["revoked_at"] is not None:
        return "is revoked"
    if row["used_at"] is not None:
        return "used"
    return "is expired" if row["expires_at"] is not None and now >= row["expires_at"] else ""


def _already_used() -> NotPermitted:
    return NotPermitted("this join token was already used: it is valid once\n  ask for a new one: weft auth token")


def _check_role(role: str, user: str) -> Role:
    if role not in ROLES:
        raise InputError(f"unknown role {role[:40]!r}", hint=f"known: {', '.join(ROLES)}")
    if not (0 < len(user) <= MAX_NAME_CHARS and set(user) <= _ALLOWED):
        raise InputError(f"invalid user name {user[:80]!r}", hint="letters, digits and . _ - @")
    return role


def _check_node(node: str) -> str:
    if not (0 < len(node) <= MAX_NAME_CHARS and set(node) <= _ALLOWED):
        raise InputError(f"invalid node name {node[:80]!r}", hint="letters, digits and . _ -")
    return node
