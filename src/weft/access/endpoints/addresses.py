"""Addresses of cluster schedulers, HOST:PORT, and whether an address is on this machine."""

from __future__ import annotations

import re
import socket
from typing import Final, NamedTuple

from weft.errors import InputError

DEFAULT_PORT: Final = 50051
MAX_HOST_CHARS: Final = 253
_HOST: Final = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?"
_BRACKETS: Final = r"\[([0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)\](?::([0-9]{1,5}))?"
_PLAIN: Final = r"([^:]+):([0-9]{1,5})"
EXAMPLES: Final = "such as localhost:50051, gpu-head:50051 or [::1]:50051"
MAX_SERVERS: Final = 8


class Address(NamedTuple):
    """The address of a scheduler, or of its first server if it has several."""

    host: str
    port: int = DEFAULT_PORT
    others: tuple[Address, ...] = ()
    """The other servers of the same scheduler, one of which leads."""

    def __str__(self) -> str:
        first = f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
        return ",".join((first, *map(str, self.others)))

    @property
    def is_loopback(self) -> bool:
        """True if all servers are on this machine."""
        return all(is_loopback(each.host) for each in self.servers)

    @property
    def servers(self) -> tuple[Address, ...]:
        """All servers, each as an address of one."""
        return (Address(self.host, self.port), *self.others)


def parse_scheduler(text: str, where: str = "") -> Address:
    """Parse the address of a scheduler. Several servers are separated by commas: the first has the others."""
    if text.count(",") >= MAX_SERVERS:
        raise InputError(f"{text[:80]!r} names too many servers", where=where, hint=f"at most {MAX_SERVERS}")
    first, *others = (parse_address(each, where) for each in text.split(","))
    return first._replace(others=tuple(dict.fromkeys(each for each in others if each != first)))


def parse_address(text: str, where: str = "") -> Address:
    """Parse HOST:PORT, or HOST alone. `where` names the source of the text in errors."""
    found = re.fullmatch(_PLAIN, text.strip()) or re.fullmatch(_BRACKETS, text.strip())
    host, port = (found[1], found[2] or str(DEFAULT_PORT)) if found else (text.strip(), str(DEFAULT_PORT))
    fits = _is_ip(host) if ":" in host else len(host) <= MAX_HOST_CHARS and re.fullmatch(_HOST, host)
    if not fits or not 0 < int(port) < 65536:
        raise InputError(f"{text[:80]!r} is not a scheduler address", where=where, hint=EXAMPLES)
    return Address(host, int(port))


def _is_ip(host: str) -> bool:
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Return whether the name resolves to loopback addresses alone. Return False if it does not resolve."""
    import ipaddress

    return bool(found := _resolve(host)) and all(ipaddress.ip_address(each).is_loopback for each in found)


def is_this_machine(host: str) -> bool:
    """Return whether the name resolves to addresses of this machine alone."""
    return bool(found := _resolve(host)) and all(map(_is_local_ip, found))


def is_known_host(host: str) -> bool:
    """Return whether the name resolves to an address."""
    return bool(_resolve(host))


def _is_local_ip(number: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in number else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((number, 0))  # nothing is sent
        except OSError:
            return False
    return True


def _resolve(host: str) -> list[str]:
    if _is_ip(host):
        return [host]
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(each[4][0]).partition("%")[0] for each in found))


def resolve_local(where: Address, timeout_s: float = 1.0) -> Address:
    """Resolve a name of this machine to the IP address on which the scheduler listens.

    Traffic to that address stays on this machine even if the name later resolves elsewhere.
    """
    found = [Address(each, where.port) for each in _resolve(where.host)]
    for each in found[:-1]:
        try:
            socket.create_connection((each.host, each.port), timeout=timeout_s).close()
        except OSError:
            continue
        return each
    return found[-1] if found else where
