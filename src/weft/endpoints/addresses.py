"""Where a scheduler of a cluster is reached: HOST:PORT, and whether that is this very machine."""

from __future__ import annotations

import re
import socket
from typing import Final, NamedTuple

from weft.errors import InputError

PORT: Final = 50051
LONGEST_HOST: Final = 253
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_BRACKETS: Final = re.compile(r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\](?::([0-9]{1,5}))?")
_PLAIN: Final = re.compile(r"([^:]+):([0-9]{1,5})")
HINT: Final = "such as localhost:50051, gpu-head:50051 or [::1]:50051"


class Address(NamedTuple):
    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


def address(text: str, where: str = "") -> Address:
    """HOST:PORT, or HOST alone."""
    found = _BRACKETS.fullmatch(text.strip()) or _PLAIN.fullmatch(text.strip())
    host, port = (found[1], found[2] or str(PORT)) if found else (text.strip(), str(PORT))
    fits = _is_ip(host) if ":" in host else len(host) <= LONGEST_HOST and _HOST.fullmatch(host)
    if not fits or not 0 < int(port) < 65536:
        raise InputError(f"{text[:80]!r} is not an address of a scheduler", where=where, hint=HINT)
    return Address(host, int(port))


def _is_ip(host: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether all that this name stands for never leaves the machine. One that resolves to nothing may."""
    import ipaddress

    return bool(found := _resolved(host)) and all(ipaddress.ip_address(each).is_loopback for each in found)


def is_here(host: str) -> bool:
    """Whether all that this name stands for is this machine, as the kernel sees it."""
    return bool(found := _resolved(host)) and all(map(_is_own, found))


def _is_own(number: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in number else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((number, 0))  # nothing is sent
        except OSError:
            return False
    return True


def _resolved(host: str) -> list[str]:
    if _is_ip(host):
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))


def numeric(where: Address, timeout_s: float = 1.0) -> Address:
    """Of a name on this machine, the number where somebody listens: what is sent there stays here, whatever the name
    comes to mean meanwhile."""
    found = [Address(each, where.port) for each in _resolved(where.host)]
    for each in found[:-1]:
        try:
            socket.create_connection((each.host, each.port), timeout=timeout_s).close()
        except OSError:
            continue
        return each
    return found[-1] if found else where
