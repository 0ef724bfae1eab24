"""The service that a request is for: by host name, by path, or by the model that its body names."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

MODEL_PATHS: Final = frozenset((b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings"))
MODEL_LIST: Final = b"/v1/models"
OWN_PREFIX: Final = b"/-/"
"""The router's own pages."""
Kind = Literal["service", "model", "models", "page", "unknown"]


class Target(NamedTuple):
    kind: Kind
    service: str = ""
    target: bytes = b""
    """The path and query that the replica gets."""
    prefix: bytes = b""
    """The part of the path that the router removed."""


def origin_form(target: bytes) -> bytes | None:
    """Return the path and query of a request target; None if it is neither a path nor an http address."""
    if target[:1] == b"/":
        return target
    for scheme in (b"http://", b"https://"):
        if target[: len(scheme)].lower() == scheme:
            slash = target.find(b"/", len(scheme))
            query = target.find(b"?", len(scheme))
            if slash < 0 or 0 <= query < slash:
                return b"/" + (target[query:] if query >= 0 else b"")
            return target[slash:]
    return b"/" if target == b"*" else None


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
    if path in MODEL_PATHS:
        return Target("model", "", target)
    if path == MODEL_LIST or path.startswith(MODEL_LIST + b"/"):
        return Target("models", "", path)
    return Target("page", "", path) if path.startswith(OWN_PREFIX) else Target("unknown")


def _segment_end(target: bytes) -> int:
    """Return where the first segment of a path ends."""
    slash, query = target.find(b"/", 1), target.find(b"?", 1)
    ends = [at for at in (slash, query) if at > 0]
    return min(ends) if ends else len(target)
