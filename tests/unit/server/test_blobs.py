"""Uploaded files that no job needs any more."""

from __future__ import annotations

import os
from pathlib import Path

from weft.endpoints.blob_folder import STALE_S
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
