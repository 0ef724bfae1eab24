"""The certificate authority of several servers: in their database, with its key encrypted by a file that they share."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from weft.access.endpoints.private_files import read_private, write_private
from weft.errors import InputError
from weft.history.journal.postgres import schema
from weft.history.journal.postgres.session import Session

MIN_KEY_BYTES: Final = 16
_LOAD: Final = "SELECT key, value FROM weft_meta WHERE key IN ('ca.pem', 'ca.key')"
_STORE: Final = "INSERT INTO weft_meta VALUES (%s, %s) ON CONFLICT (key) DO NOTHING"


class SharedAuthority:
    def __init__(self, url: str, key_file: Path) -> None:
        self.key_file = key_file
        self._session = Session(url)
        schema.create(self._session)

    def password(self, *, must_exist: bool) -> bytes:
        """Return what encrypts the key. Make the file if it is missing, unless a key is encrypted by it already."""
        try:
            found = read_private(self.key_file).strip()
        except FileNotFoundError:
            if must_exist:
                raise InputError(
                    "the database has an authority, and the file that encrypts its key is missing",
                    where=str(self.key_file), hint="copy it from the server on which weft auth init ran first",
                ) from None  # fmt: skip
            found = secrets.token_hex(32).encode()
            write_private(self.key_file, found + b"\n")
        if len(found) < MIN_KEY_BYTES:
            raise InputError(
                f"the key has {len(found)} bytes", where=str(self.key_file), hint=f"{MIN_KEY_BYTES} or more, at random"
            )
        return found

    def load(self) -> tuple[bytes, bytes] | None:
        """Return the certificate and the encrypted key; None if there is no authority yet."""
        found = dict(self._session.rows("read", _LOAD))
        return (found["ca.pem"].encode(), found["ca.key"].encode()) if len(found) == 2 else None

    def store(self, certificate: bytes, key: bytes) -> tuple[bytes, bytes]:
        """Store an authority, unless another server was faster. Return the one that is stored."""
        with self._session.transaction("write to") as db:
            db.execute("LOCK TABLE weft_meta IN SHARE ROW EXCLUSIVE MODE")
            for name, value in (("ca.pem", certificate), ("ca.key", key)):
                db.execute(_STORE, (name, value.decode()))
        found = self.load()
        assert found is not None
        return found

    def close(self) -> None:
        self._session.close()
