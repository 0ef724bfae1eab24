"""Blobs as the parts of an upload."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weft.access.wire import messages as m

PART_BYTES: Final = 256 << 10


def blob_parts(blob: bytes, name: str) -> Iterator[m.BlobPart]:
    """Yield the name of a blob, then its content."""
    yield m.BlobPart(sha256=name)
    for at in range(0, len(blob), PART_BYTES):
        yield m.BlobPart(bytes=blob[at : at + PART_BYTES])
