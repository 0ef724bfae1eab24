"""The service that a request is for: by host name, by path, or by the model that its body names."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

MODEL_PREFIX: Final = b"/v1/"
"""The paths of OpenAI's API: the model in the body selects the service."""
MODEL_LIST: Final = b"/v1/models"
OWN_PREFIX: Final = b"/-/"
"""The router's own pages."""
HOST: Final = rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]"
_ADDRESS: Final = re.compile(rb"https?://(?P<host>%b+)(?P<path>([/?].*)?)" % HOST, re.IGNORECASE | re.DOTALL)
Kind = Literal["service", "model", "models", "page", "unknown"]


class Target(NamedTuple):
    kind: Kind
    service: str = ""
    target: bytes = b""
    """The path and query that the replica gets."""
    prefix: bytes = b""
    """The part of the path that the router removed."""


def split_target(target: bytes, host: bytes) -> tuple[bytes, bytes] | None:
    """Return the host of a request, and its path and query; None if the target is neither a path nor an http address.

    The host of an address wins over the Host header (RFC 9112, 3.2.2).
    """
    if target[:1] == b"/":
        return host, target
    if address := _ADDRESS.fullmatch(target):
        path = address["path"]
        return address["host"], path if path[:1] == b"/" else b"/" + path
    return (host, b"/") if target == b"*" else None


def host_name(host: bytes) -> bytes:
    """Return the name of a Host header in lower case, without its port."""
    if host[:1] == b"[":
        return host[1:].partition(b"]")[0].lower()
    return host.partition(b":")[0].lower()


def find_target(target: bytes, host: bytes, names: dict[bytes, str], hosts: dict[bytes, str]) -> Target:
    """Return the service of a request. `names` maps path segments to services, `hosts` host names."""
    if hosts and (service := hosts.get(host_name(host))) is not None:
        return Target("service", service, target)
    end = _segment_end(target)
    service = names.get(target[1:end])
    if service is not None:
        rest = target[end:]
        return Target("service", service, rest if rest[:1] == b"/" else b"/" + rest, target[:end])
    path = target.partition(b"?")[0]
    if path == MODEL_LIST or path.startswith(MODEL_LIST + b"/"):
        return Target("models", "", path)
    if path.startswith(MODEL_PREFIX):
        return Target("model", "", target)
    return Target("page", "", path) if path.startswith(OWN_PREFIX) else Target("unknown")


def _segment_end(target: bytes) -> int:
    """Return where the first segment of a path ends."""
    slash, query = target.find(b"/", 1), target.find(b"?", 1)
    ends = [at for at in (slash, query) if at > 0]
    return min(ends) if ends else len(target)
