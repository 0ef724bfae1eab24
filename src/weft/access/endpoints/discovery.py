"""Discovery of the cluster scheduler that this user runs on this machine at the default port.

The kernel's socket tables name the listening user, so no message is sent and no other user can pose as the scheduler.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from weft.access.endpoints.addresses import DEFAULT_PORT, Address
from weft.access.endpoints.paths import server_folder_name, user_paths

if TYPE_CHECKING:
    from ipaddress import IPv4Address, IPv6Address

LISTEN_STATE: Final = "0A"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")


def find_own_server(env: Mapping[str, str] = os.environ) -> Address | None:
    """Return the user's cluster scheduler, unless a local one is running or died and left unfinished jobs."""
    if not os.path.exists(os.path.join(server_folder_name(DEFAULT_PORT, env), "token")):
        return None
    here = user_paths(env)
    if here.lock_text().isdecimal() or here.answers():
        return None
    mine = [at for at, uid in find_listeners(DEFAULT_PORT) if uid == os.getuid()]
    if not mine:
        return None
    local = any(each.is_loopback or each.is_unspecified for each in mine)
    return Address("localhost" if local else str(mine[0]), DEFAULT_PORT)


def find_listeners(port: int) -> list[tuple[IPv4Address | IPv6Address, int]]:
    """Return the address and user id of each socket that listens at a port."""
    return [found for table in _TABLES for found in _read_table(table, port)]


def _read_table(table: str, port: int) -> Iterator[tuple[IPv4Address | IPv6Address, int]]:
    try:
        with open(table, encoding="ascii") as lines:
            next(lines, "")
            for line in lines:
                _, local, _, state, _, _, _, uid, *_ = line.split()
                if state != LISTEN_STATE:
                    return  # the kernel lists listening sockets first
                number, _, at = local.rpartition(":")
                if int(at, 16) == port:
                    yield _parse_ip(number), int(uid)
    except (OSError, ValueError):
        return


def _parse_ip(number: str) -> IPv4Address | IPv6Address:
    """Parse an IP address as the kernel prints it: four-byte words in this machine's byte order."""
    from ipaddress import IPv6Address, ip_address

    words = [int(number[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(number), 8)]
    found = ip_address(b"".join(words))
    return found.ipv4_mapped or found if isinstance(found, IPv6Address) else found
