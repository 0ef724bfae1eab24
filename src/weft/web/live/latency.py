"""The latency of services, from the metrics of the router on this machine: a histogram and the one before it."""

from __future__ import annotations

import http.client
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from weft.endpoints.addresses import is_loopback
from weft.web.live.board import Latencies
from weft.wire.views.services import ServiceView

TIMEOUT_S: Final = 2.0
MAX_BYTES: Final = 4 << 20
LINE: Final = re.compile(r'^weft_router_request_seconds_bucket\{le="([^"]+)",service="([^"]+)"\} (\S+)$', re.MULTILINE)
LINE_REVERSED: Final = re.compile(
    r'^weft_router_request_seconds_bucket\{service="([^"]+)",le="([^"]+)"\} (\S+)$', re.MULTILINE
)
Buckets = dict[str, list[tuple[float, float]]]
"""For each service: upper bounds in seconds, and how many requests took at most as long."""


class LatencyReader:
    """Reads the histogram again and again. Runs in a thread."""

    def __init__(self) -> None:
        self._before: Buckets = {}
        self._last: Latencies = {}

    def read(self, services: Sequence[ServiceView]) -> Latencies:
        """Return the quantiles of the requests since the last call; of a service without any, those of before."""
        found: Buckets = {}
        for host, port in _routers(services):
            try:
                found |= parse(_fetch(host, port))
            except (OSError, http.client.HTTPException, ValueError):
                continue
        quantiles = {}
        for service, buckets in found.items():
            recent = _since(buckets, self._before.get(service))
            quantiles[service] = (quantile(recent, 0.5), quantile(recent, 0.95))
        self._before, self._last = found, quantiles
        return quantiles


def _routers(services: Sequence[ServiceView]) -> set[tuple[str, int]]:
    """Return the addresses of routers on this machine: those elsewhere need a token."""
    found = set()
    for service in services:
        parts = urlsplit(service.url)
        if parts.scheme == "http" and parts.hostname and parts.port and is_loopback(parts.hostname):
            found.add((parts.hostname, parts.port))
    return found


def _fetch(host: str, port: int) -> str:
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/-/metrics")
        return connection.getresponse().read(MAX_BYTES).decode(errors="replace")
    finally:
        connection.close()


def parse(text: str) -> Buckets:
    found: Buckets = {}
    for bound, service, count in LINE.findall(text):
        found.setdefault(service, []).append((float(bound.replace("+Inf", "inf")), float(count)))
    for service, bound, count in LINE_REVERSED.findall(text):
        found.setdefault(service, []).append((float(bound.replace("+Inf", "inf")), float(count)))
    return {service: sorted(buckets) for service, buckets in found.items()}


def _since(buckets: list[tuple[float, float]], before: list[tuple[float, float]] | None) -> list[tuple[float, float]]:
    """Return the histogram without the requests of before. A router that started again has fewer: then all count."""
    old: Mapping[float, float] = dict(before or ())
    rest = [(bound, count - old.get(bound, 0.0)) for bound, count in buckets]
    return buckets if any(count < 0 for _, count in rest) else rest


def quantile(buckets: Sequence[tuple[float, float]], part: float) -> float | None:
    """Return a quantile, interpolated within its bucket as Prometheus does; None: there were no requests."""
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    low, below = 0.0, 0.0
    for bound, count in buckets:
        if count >= part * total:
            if bound == float("inf"):
                return low
            return low + (bound - low) * (part * total - below) / max(count - below, 1e-9)
        low, below = bound, count
    return low
