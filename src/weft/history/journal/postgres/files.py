"""Small files of a server in the database, so that the next leader has them: settings, limits, batches, checkpoints,
tails of logs. Each change gets a higher version, by which the other servers follow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from weft.errors import Deposed
from weft.history.journal.postgres import schema
from weft.history.journal.postgres.session import Session

_LED: Final = "WITH led AS (SELECT 1 FROM weft_leader WHERE epoch = %(epoch)s AND holder = %(holder)s FOR SHARE)"
_PUT: Final = (
    f"{_LED} INSERT INTO weft_files SELECT f.name, f.body, nextval('weft_file_versions'), clock_timestamp()"
    " FROM led, unnest(%(names)s::text[], %(bodies)s::bytea[]) AS f(name, body)"
    " ON CONFLICT (name) DO UPDATE SET body = excluded.body, version = excluded.version,"
    " changed_at = excluded.changed_at"
)
_REMOVE: Final = (
    f"{_LED} UPDATE weft_files SET body = NULL, version = nextval('weft_file_versions'),"
    " changed_at = clock_timestamp() FROM led, unnest(%(names)s::text[]) AS gone(path)"
    " WHERE (name = path OR starts_with(name, path || '/')) AND body IS NOT NULL"
)
_FORGET: Final = "DELETE FROM weft_files WHERE body IS NULL AND changed_at < clock_timestamp() - interval '1 day'"
PAGE_FILES: Final = 200


class StoredFile(NamedTuple):
    name: str
    body: bytes | None
    """None: the file was removed."""
    version: int
    changed_at: float
    """In seconds since 1970, by the clock of the database."""


class FileTable:
    """The files. Calls wait for the database; those of a deposed leader change nothing."""

    def __init__(self, url: str) -> None:
        self._session = Session(url)
        self._lead = {"epoch": -1, "holder": ""}
        schema.create(self._session)

    def lead(self, epoch: int, holder: str) -> None:
        """Write as the leader of this epoch from now on."""
        self._lead = {"epoch": epoch, "holder": holder}
        self._session.run("write to", _FORGET)

    def put(self, files: Iterable[tuple[str, bytes]]) -> None:
        given = dict(files)
        if not given:
            return
        parameters = {**self._lead, "names": list(given), "bodies": list(given.values())}
        if self._session.run("write to", _PUT, parameters)[0] != len(given):
            raise Deposed(f"cannot write to {self._session.where}: another server has taken over")

    def remove(self, names: Iterable[str]) -> None:
        """Remove these files, and all files in folders of these names."""
        self._session.run("write to", _REMOVE, {**self._lead, "names": list(names)})

    def changes(self, after: int) -> list[StoredFile]:
        """Return the next changes after a version, oldest first; at most PAGE_FILES."""
        found = self._session.rows(
            "read",
            "SELECT name, body, version, extract(epoch FROM changed_at)::float8 FROM weft_files"
            " WHERE version > %s ORDER BY version LIMIT %s",
            (after, PAGE_FILES),
        )
        return [StoredFile(name, None if body is None else bytes(body), *rest) for name, body, *rest in found]

    def read(self, name: str) -> bytes | None:
        found = self._session.rows("read", "SELECT body FROM weft_files WHERE name = %s AND body IS NOT NULL", (name,))
        return bytes(found[0][0]) if found else None

    def close(self) -> None:
        self._session.close()
