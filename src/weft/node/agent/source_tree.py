"""The source tree of a job: fetched by its hash and unpacked into the folder of its run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterable
from typing import TYPE_CHECKING, Final

from weft.errors import WeftError
from weft.node.engine.users.accounts import Account
from weft.node.engine.users.file_rights import rights_of

if TYPE_CHECKING:
    import tarfile

TREE_DIR: Final = "tree"
MAX_PACKED_BYTES: Final = 2 << 30
MAX_EXPANSION: Final = 100
"""Largest ratio of unpacked to packed size; `SLACK_BYTES` are allowed in addition."""
SLACK_BYTES: Final = 64 << 20
MAX_FILES: Final = 200_000
_HASH: Final = re.compile(r"[0-9a-f]{64}")


class BadSnapshot(WeftError):
    """The source tree cannot be fetched or is invalid. The job fails with this reason."""


def is_hash(text: str) -> bool:
    return _HASH.fullmatch(text) is not None


async def unpack(
    name: str, parts: AsyncIterable[bytes], folder: str, work: str = "", account: Account | None = None
) -> str:
    """Fetch a tree into `folder`, unpack it in `work`, and return its path. It exists only once the tree is complete.

    The tree belongs to `account` and is unpacked with its rights; None: with those of this process.
    """
    tree, packed = os.path.join(work or folder, TREE_DIR), os.path.join(folder, f"{TREE_DIR}.tar")
    if not is_hash(name):
        raise BadSnapshot(f"{name[:80]!r} is not the hash of a snapshot")
    with rights_of(account):
        if os.path.isdir(tree):
            return tree
    try:
        await receive_blob(name, parts, packed)
        await asyncio.to_thread(_extract_as, account, packed, tree)
    finally:
        if os.path.exists(packed):
            os.unlink(packed)
    return tree


async def receive_blob(name: str, parts: AsyncIterable[bytes], path: str) -> None:
    """Write a blob to a file; raise BadSnapshot if it is not what its name says."""
    digest, size = hashlib.sha256(), 0
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as file:
        async for part in parts:
            size += len(part)
            if size > MAX_PACKED_BYTES:
                raise BadSnapshot(f"the blob is larger than {MAX_PACKED_BYTES >> 20} MB")
            digest.update(part)
            file.write(part)
    if digest.hexdigest() != name:
        raise BadSnapshot(f"the blob has the hash {digest.hexdigest()[:12]} instead of {name[:12]}: it is damaged")


def _extract_as(account: Account | None, packed: str, tree: str) -> None:
    import tarfile  # with the compressors it takes 0.5 MB, and few workers need it

    partial = f"{tree}.tmp"
    limit = _Limit(SLACK_BYTES + MAX_EXPANSION * os.stat(packed).st_size, MAX_FILES)
    try:
        # opened before the rights change: it imports modules, which a user may not be able to read
        with tarfile.open(packed) as tar, rights_of(account):
            try:
                shutil.rmtree(partial, ignore_errors=True)
                os.mkdir(partial, 0o700)
                tar.extractall(partial, filter=limit.check)
                os.rename(partial, tree)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except tarfile.FilterError as error:
        raise BadSnapshot(f"the snapshot contains a forbidden entry: {error}") from None
    except tarfile.TarError as error:
        raise BadSnapshot(f"the snapshot is not a tar file: {error}") from None


class _Limit:
    """Limits the unpacked size. tarfile's data filter keeps all files inside the tree."""

    def __init__(self, max_bytes: int, files: int) -> None:
        from tarfile import data_filter

        self._left, self._files, self._filter = max_bytes, files, data_filter

    def check(self, member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        self._left -= member.size
        self._files -= 1
        if self._left < 0 or self._files < 0:
            raise BadSnapshot(
                f"the snapshot unpacks to more than {MAX_FILES:,} files or {MAX_EXPANSION} times its size"
            )
        return self._filter(member, path)
