"""Whether this user runs the scheduler of a cluster on this machine, at the usual port: then commands mean that one.

The kernel says who listens: nothing is sent, and nobody else can pose as it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final

from weft.wire.addresses import PORT, Address
from weft.wire.places import places, server_folder

LISTENS: Final = "0A"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def own_server(env: Mapping[str, str] = os.environ) -> Address | None:
    """It, unless this user's own scheduler of one machine runs, or died and left jobs that need it."""
    if not (server_folder(PORT, env) / "token").exists():
        return None
    here = places(env)
    if here.last_words().isdecimal() or here.answers():
        return None
    return Address("localhost", PORT) if os.getuid() in listeners(PORT) else None


def listeners(port: int) -> set[int]:
    """The users that listen at a port."""
    return {uid for table in _TABLES for uid in _in_table(table, port)}


def _in_table(table: str, port: int) -> Iterator[int]:
    try:
        with open(table, encoding="ascii") as lines:
            next(lines, "")
            for line in lines:
                _, local, _, state, _, _, _, uid, *_ = line.split()
                if state != LISTENS:
                    return  # the kernel names those that listen first
                if int(local.rpartition(":")[2], 16) == port:
                    yield int(uid)
    except (OSError, ValueError):
        return
