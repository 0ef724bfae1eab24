"""The network interface over which the processes of a gang reach each other."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from weft.node.engine.rendezvous import Gang

VARIABLES: Final = {"GLOO_SOCKET_IFNAME": "{}", "NCCL_SOCKET_IFNAME": "={}"}
"""Variables that name the interface for a library, and how. NCCL takes a name without `=` as a prefix."""
_SIOCGIFADDR: Final = 0x8915
_IF_INET6: Final = "/proc/net/if_inet6"


def gang_variables(gang: Gang, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the interface of this node's address, without those that are given."""
    missing = {name: form for name, form in VARIABLES.items() if name not in given}
    others = [member.address for member in gang.members if member is not gang.this_member]
    interface = find_interface(gang.this_member.address, others) if missing else ""
    return {name: form.format(interface) for name, form in missing.items()} if interface else {}


def find_interface(own: str, others: Sequence[str]) -> str:
    """Return the interface of this machine's address; empty if it has none.

    A host name may resolve to a loopback address here, as Debian sets it up. Other machines cannot reach that, so the
    interface that leads to them counts.
    """
    return choose_interface(
        resolve(own), [each for other in others for each in resolve(other)], list_addresses(), source_towards
    )


def choose_interface(
    own: Sequence[str], others: Sequence[str], interfaces: Mapping[str, str], source: Callable[[str], str]
) -> str:
    """Return the interface for these addresses. `source` returns the address that reaches another."""
    distant = next((each for each in others if not _is_loopback(each)), None)
    if distant is not None and all(map(_is_loopback, own)):
        own = [source(distant)]
    for address in own:
        if address in interfaces:
            return interfaces[address]
    return interfaces.get("127.0.0.1", "") if own and all(map(_is_loopback, own)) else ""


def resolve(address: str) -> list[str]:
    """Return the IP addresses of a host, in the system's order; none if it does not resolve."""
    try:
        found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def list_addresses() -> dict[str, str]:
    """Return the interfaces of this machine by their addresses."""
    found: dict[str, str] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an IPv4 address
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                found[socket.inet_ntoa(answer[20:24])] = name
    with suppress(OSError), open(_IF_INET6, encoding="ascii") as file:
        for line in file:
            digits, *_, name = line.split()
            found[str(ipaddress.IPv6Address(bytes.fromhex(digits)))] = name
    return found


def source_towards(address: str) -> str:
    """Return the address from which this machine sends to another; empty if there is no route. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
