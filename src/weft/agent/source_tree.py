"""The tree of files that a job brings along: fetched by its hash, unpacked into the folder of its run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import tarfile
from collections.abc import AsyncIterable
from typing import Final

from weft.errors import WeftError

TREE: Final = "tree"
MOST_BYTES: Final = 2 << 30
MOST_TIMES: Final = 100
"""So many times as large as it came, and something besides, it may be unpacked."""
SLACK_BYTES: Final = 64 << 20
MOST_FILES: Final = 200_000
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class BadSnapshot(WeftError):
    """It cannot be had, or is not what it should be: the job fails, and says so."""


def is_name(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


async def unpack(name: str, parts: AsyncIterable[bytes], folder: str) -> str:
    """Where the tree is. Nothing of it is there unless all is."""
    tree, packed, beside = (os.path.join(folder, each) for each in (TREE, f"{TREE}.tar", f"{TREE}.tmp"))
    if os.path.isdir(tree):
        return tree
    if not is_name(name):
        raise BadSnapshot(f"{name[:80]!r} is not the name of a snapshot")
    try:
        await _receive(name, parts, packed)
        await asyncio.to_thread(_extract, packed, beside)
        os.rename(beside, tree)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
        if os.path.exists(packed):
            os.unlink(packed)
    return tree


async def _receive(name: str, parts: AsyncIterable[bytes], path: str) -> None:
    digest, size = hashlib.sha256(), 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        async for part in parts:
            size += len(part)
            if size > MOST_BYTES:
                raise BadSnapshot(f"the snapshot is larger than {MOST_BYTES >> 20} MB")
            digest.update(part)
            file.write(part)
    if digest.hexdigest() != name:
        raise BadSnapshot(f"the snapshot that came is not {name[:12]}, but {digest.hexdigest()[:12]}")


def _extract(packed: str, into: str) -> None:
    shutil.rmtree(into, ignore_errors=True)
    os.mkdir(into, 0o700)
    left = _Limit(SLACK_BYTES + MOST_TIMES * os.stat(packed).st_size, MOST_FILES)
    try:
        with tarfile.open(packed) as tar:
            tar.extractall(into, filter=left.check)
    except tarfile.FilterError as error:
        raise BadSnapshot(f"the snapshot holds what it must not: {error}") from None
    except tarfile.TarError as error:
        raise BadSnapshot(f"the snapshot is no tar file: {error}") from None


class _Limit:
    """Nothing leaves the tree (tarfile's own filter for data sees to that), and it does not grow without end."""

    def __init__(self, left_bytes: int, files: int) -> None:
        self._left, self._files = left_bytes, files

    def check(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        self._left -= member.size
        self._files -= 1
        if self._left < 0 or self._files < 0:
            raise BadSnapshot(f"the snapshot unpacks to more than {MOST_FILES:,} files or {MOST_TIMES} times its size")
        return tarfile.data_filter(member, path)
