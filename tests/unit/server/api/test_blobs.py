"""Uploaded files: those that no job needs any more, and those that would fill the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from weft.access.endpoints.blob_folder import STALE_S
from weft.access.wire.messages import BlobPart
from weft.errors import Refused
from weft.server.api import blobs as api
from weft.server.api.blobs import Blobs


def test_what_no_job_needs_goes_once_it_is_old(tmp_path: Path) -> None:
    folder = tmp_path / "blobs"
    blobs = Blobs(folder)
    for name in ("used", "unused", "new", "half.part"):
        (folder / name).write_bytes(b"x")
        if name != "new":
            os.utime(folder / name, (0, os.stat(folder / name).st_mtime - STALE_S - 60))
    blobs.prune({"used"})
    assert sorted(path.name for path in folder.iterdir()) == ["new", "used"]


def test_uploads_leave_room_for_the_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def parts() -> AsyncIterator[BlobPart]:
        for _ in range(3):
            yield BlobPart(bytes=b"x")

    blobs = Blobs(tmp_path)
    asyncio.run(blobs._put(parts()))
    monkeypatch.setattr(api, "MIN_FREE_MB", 1 << 40)
    with pytest.raises(Refused, match="nothing was stored; free some space"):
        asyncio.run(blobs._put(parts()))
    assert len(list(tmp_path.iterdir())) == 1
