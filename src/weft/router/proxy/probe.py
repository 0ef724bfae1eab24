"""The question whether a replica that failed is well again."""

from __future__ import annotations

import asyncio
from typing import Final

from weft.access.endpoints.addresses import Address

PROBE_TIMEOUT_S: Final = 5.0


async def answers(address: Address, path: str, timeout_s: float = PROBE_TIMEOUT_S) -> bool:
    """Return whether the replica answers a GET of this path, whatever the status."""
    writer: asyncio.StreamWriter | None = None
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n".encode())
            return await reader.readexactly(5) == b"HTTP/"
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return False
    finally:
        if writer is not None:
            writer.transport.abort()
