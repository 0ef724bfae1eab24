"""Whether this user runs the scheduler of a cluster on this machine, at the usual port: then commands mean that one.

The kernel says who listens: nothing is sent, and nobody else can pose as it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from weft.endpoints.addresses import PORT, Address
from weft.endpoints.paths import server_folder, user_paths

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

LISTENS: Final = "0A"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def own_server(env: Mapping[str, str] = os.environ) -> Address | None:
    """It, unless this user's own scheduler of one machine runs, or died and left jobs that need it."""
    if not (server_folder(PORT, env) / "token").exists():
        return None
    here = user_paths(env)
    if here.last_words().isdecimal() or here.answers():
        return None
    mine = [at for at, uid in listeners(PORT) if uid == os.getuid()]
    if not mine:
        return None
    local = any(each.is_loopback or each.is_unspecified for each in mine)
    return Address("localhost" if local else str(mine[0]), PORT)


def listeners(port: int) -> list[tuple[IPv4Address | IPv6Address, int]]:
    """Who listens at a port: at which address, and which user."""
    return [found for table in _TABLES for found in _in_table(table, port)]


def _in_table(table: str, port: int) -> Iterator[tuple[IPv4Address | IPv6Address, int]]:
    try:
        with open(table, encoding="ascii") as lines:
            next(lines, "")
            for line in lines:
                _, local, _, state, _, _, _, uid, *_ = line.split()
                if state != LISTENS:
                    return  # the kernel names those that listen first
                number, _, at = local.rpartition(":")
                if int(at, 16) == port:
                    yield _address(number), int(uid)
    except (OSError, ValueError):
        return


def _address(number: str) -> IPv4Address | IPv6Address:
    """As the kernel writes it: words of four bytes, each in this machine's own order."""
    from ipaddress import IPv6Address, ip_address

    words = [int(number[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(number), 8)]
    found = ip_address(b"".join(words))
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
