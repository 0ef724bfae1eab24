"""Uploaded files in the database, in parts, for servers that share no folder."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from weft.errors import NotFound, Refused
from weft.history.journal.postgres import schema
from weft.history.journal.postgres.session import Session
from weft.inputs.atomic import replacement

PART_BYTES: Final = 1 << 20
MAX_STORED_BYTES: Final = 256 << 20
_MARK: Final = (
    "INSERT INTO weft_blobs VALUES (%s, %s, clock_timestamp())"
    " ON CONFLICT (name) DO UPDATE SET used_at = clock_timestamp()"
)
_PRUNE: Final = (
    "DELETE FROM weft_blobs WHERE used_at < clock_timestamp() - make_interval(secs => %s) AND name <> ALL(%s::text[])"
)


class BlobTable:
    """Files by the SHA-256 of their content. Calls wait for the database; `names` are those known in memory."""

    def __init__(self, url: str) -> None:
        self._session = Session(url, timeout_s=60.0)
        schema.create(self._session)
        self.names = {str(name) for (name,) in self._session.rows("read", "SELECT name FROM weft_blobs")}

    def store(self, path: Path) -> None:
        """Store a file under its name."""
        size = path.stat().st_size
        if size > MAX_STORED_BYTES:
            raise Refused(
                f"the file has {size >> 20} MB, and the database takes at most {MAX_STORED_BYTES >> 20} MB\n"
                "  leave large files out, or start the servers with --blobs DIR, a folder that they share"
            )
        with self._session.transaction("write to") as db, path.open("rb") as file:
            db.execute(_MARK, (path.name, size))
            number = 0
            while part := file.read(PART_BYTES):
                db.execute(
                    "INSERT INTO weft_blob_parts VALUES (%s, %s, %s) ON CONFLICT DO NOTHING", (path.name, number, part)
                )
                number += 1
        self.names.add(path.name)

    def fetch(self, path: Path) -> None:
        """Write the file of this name. Raise NotFound if there is none."""
        found = self._session.rows("read", "SELECT bytes FROM weft_blobs WHERE name = %s", (path.name,))
        if not found:
            raise NotFound(f"there is no blob {path.name}\n  submit the job again")
        with replacement(path) as temporary, open(temporary, "wb") as file:
            for number in range(-(-int(found[0][0]) // PART_BYTES)):
                ((body,),) = self._session.rows(
                    "read", "SELECT body FROM weft_blob_parts WHERE name = %s AND number = %s", (path.name, number)
                )
                file.write(body)

    def prune(self, used: Collection[str], stale_s: float) -> None:
        """Remove files that no job uses, unless they are new: they arrive before their jobs."""
        self._session.run("write to", _PRUNE, (stale_s, list(used)))
        self.names = {str(name) for (name,) in self._session.rows("read", "SELECT name FROM weft_blobs")}

    def close(self) -> None:
        self._session.close()
