"""Files that submitters upload, stored under their SHA-256. A file is checked before it gets its name."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO, Final

import grpc

from weft.access.endpoints.blob_folder import STALE_S, prune_blobs
from weft.access.endpoints.paths import make_private
from weft.access.wire import messages as m
from weft.errors import InputError, NotFound, Refused, WeftError
from weft.history.journal.postgres.blobs import BlobTable
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler

MAX_BLOB_BYTES: Final = 1 << 30
MAX_TOTAL_BYTES: Final = 64 << 30
"""The limit for all blobs together."""
MIN_FREE_MB: Final = 256
"""Uploads leave this much of the disk to the journal."""
PART_BYTES: Final = 1 << 18
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class Blobs:
    """The blob store, in one folder. `shared` stores the blobs for other servers, which do not have the folder."""

    def __init__(
        self,
        folder: Path,
        *,
        max_blob_bytes: int = MAX_BLOB_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
        shared: BlobTable | None = None,
    ) -> None:
        make_private(folder)
        self._folder, self._max_blob, self._max_total = folder, max_blob_bytes, max_total_bytes
        self._shared = shared
        self.prune(None)

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Callable[..., Any]] = {"Put": self.put, "Get": self.get}
        return handler(methods.__getitem__, "Blobs")

    def prune(self, used: Collection[str] | None) -> None:
        """Remove unfinished uploads, and blobs that no job uses. None: the used ones are not known."""
        prune_blobs(self._folder, used)
        if self._shared is not None and used is not None:
            self._shared.prune(used, STALE_S)

    async def put(self, parts: AsyncIterator[m.BlobPart], context: Any) -> m.BlobName:
        try:
            return m.BlobName(sha256=await self._put(parts))
        except WeftError as error:
            await abort(context, error)
        except OSError as error:
            await abort(
                context, Refused(f"the blob could not be stored: {error.strerror}\n  free some space and try again")
            )

    async def _put(self, parts: AsyncIterator[m.BlobPart]) -> str:
        path = self._folder / f"{secrets.token_hex(16)}.part"
        digest, size, wanted = hashlib.sha256(), 0, ""
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                async for part in parts:
                    if part.sha256 and not size:
                        wanted = _checked_name(part.sha256)
                        if (self._folder / wanted).exists() and (self._shared is None or wanted in self._shared.names):
                            os.utime(self._folder / wanted)
                            return wanted
                    size += len(part.bytes)
                    if size > self._max_blob:
                        raise InputError(
                            f"the blob has more than {self._max_blob >> 20:,} MB", hint="leave large files out"
                        )
                    await asyncio.to_thread(_add, file, digest, part.bytes)
                    self._check_free()
                await asyncio.to_thread(_sync, file)
            name = digest.hexdigest()
            if wanted and name != wanted:
                raise InputError(
                    f"the uploaded blob is {name}, not {wanted}: it changed on the way", hint="send it again"
                )
            if self._size() + size > self._max_total:
                raise Refused(
                    f"the scheduler stores at most {self._max_total >> 30} GB of blobs\n  weft clean frees some"
                )
            path.replace(self._folder / name)
            if self._shared is not None:
                await asyncio.to_thread(self._shared.store, self._folder / name)
            return name
        finally:
            path.unlink(missing_ok=True)

    def _check_free(self) -> None:
        disk = os.statvfs(self._folder)
        if disk.f_bavail * disk.f_frsize < MIN_FREE_MB << 20:
            raise Refused(
                f"less than {MIN_FREE_MB} MB of disk space is left at {self._folder}\n"
                "  nothing was stored; free some space"
            )

    def _size(self) -> int:
        return sum(entry.stat().st_size for entry in os.scandir(self._folder) if _NAME.fullmatch(entry.name))

    async def get(self, name: m.BlobName, context: Any) -> AsyncIterator[m.BlobPart]:
        try:
            path = self._folder / _checked_name(name.sha256)
            if self._shared is not None and not path.exists():
                await asyncio.to_thread(self._shared.fetch, path)
            if not path.exists():
                raise NotFound(f"there is no blob {name.sha256}\n  submit the job again")
            with path.open("rb") as file:
                while text := await asyncio.to_thread(file.read, PART_BYTES):
                    yield m.BlobPart(bytes=text)
        except WeftError as error:
            await abort(context, error)


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name[:80]!r} is not a SHA-256", hint="64 digits, 0-9 and a-f")
    return name


def _add(file: BinaryIO, digest: Any, text: bytes) -> None:
    digest.update(text)
    file.write(text)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
