"""Files of submitters, named by the SHA-256 of what is in them: written beside, checked, then put in place."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, BinaryIO, Final

import grpc

from weft.endpoints.paths import make_private
from weft.errors import InputError, NotFound, Refused, WeftError
from weft.server.rpc.errors import abort
from weft.server.rpc.handlers import handler
from weft.wire import messages as m

MOST_BYTES: Final = 1 << 30
"""Of one blob."""
ALL_BYTES: Final = 64 << 30
"""Of all."""
PART: Final = 1 << 18
STALE_S: Final = 3600.0
"""What is not needed goes after so long."""
PRUNE_S: Final = 600.0
_NAME: Final = re.compile(r"[0-9a-f]{64}")


class Blobs:
    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES, all_bytes: int = ALL_BYTES) -> None:
        make_private(folder)
        self._folder, self._most, self._all = folder, most_bytes, all_bytes
        self.prune(None)

    def handler(self) -> grpc.GenericRpcHandler:
        methods: dict[str, Callable[..., Any]] = {"Put": self.put, "Get": self.get}
        return handler(methods.__getitem__, "Blobs")

    def prune(self, used: Collection[str] | None) -> None:
        """What was begun and never finished goes, and what no job needs; None: nobody knows yet. Not what is new: it
        comes before its job."""
        for entry in os.scandir(self._folder):
            idle = entry.name.endswith(".part") or (used is not None and entry.name not in used)
            if idle and time.time() - entry.stat().st_mtime > STALE_S:
                os.unlink(entry.path)

    async def put(self, parts: AsyncIterator[m.BlobPart], context: Any) -> m.BlobName:
        try:
            return m.BlobName(sha256=await self._put(parts))
        except WeftError as error:
            await abort(context, error)
        except OSError as error:
            await abort(context, Refused(f"it could not be kept: {error.strerror}\n  free some space and try again"))

    async def _put(self, parts: AsyncIterator[m.BlobPart]) -> str:
        path = self._folder / f"{secrets.token_hex(16)}.part"
        digest, size, wanted = hashlib.sha256(), 0, ""
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                async for part in parts:
                    if part.sha256 and not size:
                        wanted = _checked(part.sha256)
                        if (self._folder / wanted).exists():
                            os.utime(self._folder / wanted)
                            return wanted
                    size += len(part.bytes)
                    if size > self._most:
                        raise InputError(f"a blob of more than {self._most >> 20:,} MB", hint="leave large files out")
                    await asyncio.to_thread(_add, file, digest, part.bytes)
                await asyncio.to_thread(_sync, file)
            name = digest.hexdigest()
            if wanted and name != wanted:
                raise InputError(f"what came is {name}, not {wanted}: it changed on the way", hint="send it again")
            if self._size() + size > self._all:
                raise Refused(f"the scheduler keeps {self._all >> 30} GB of files at most\n  weft clean frees some")
            path.replace(self._folder / name)
            return name
        finally:
            path.unlink(missing_ok=True)

    def _size(self) -> int:
        return sum(entry.stat().st_size for entry in os.scandir(self._folder) if _NAME.fullmatch(entry.name))

    async def get(self, name: m.BlobName, context: Any) -> AsyncIterator[m.BlobPart]:
        try:
            path = self._folder / _checked(name.sha256)
            if not path.exists():
                raise NotFound(f"there is no blob {name.sha256}\n  submit the job again")
            with path.open("rb") as file:
                while text := await asyncio.to_thread(file.read, PART):
                    yield m.BlobPart(bytes=text)
        except WeftError as error:
            await abort(context, error)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(f"{name[:80]!r} is not the SHA-256 of anything", hint="64 digits, 0-9 and a-f")
    return name


def _add(file: BinaryIO, digest: Any, text: bytes) -> None:
    digest.update(text)
    file.write(text)


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
