"""The latency of services, from the metrics of their routers: a histogram and the one before it."""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from weft.endpoints.addresses import is_loopback
from weft.endpoints.credentials import Credentials
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

    def __init__(self, credentials: Credentials | None = None) -> None:
        """`credentials`: for routers with TLS, which ask for a token."""
        self._credentials = credentials
        self._before: Buckets = {}

    def read(self, services: Sequence[ServiceView]) -> Latencies:
        """Return the quantiles of the requests since the last call; None: a service had none."""
        found: Buckets = {}
        for scheme, address in {urlsplit(service.url)[:2] for service in services}:
            try:
                found |= parse(self._fetch(f"{scheme}://{address}"))
            except (OSError, http.client.HTTPException, ValueError):
                continue
        quantiles = {}
        for service, buckets in found.items():
            recent = _since(buckets, self._before.get(service))
            quantiles[service] = (quantile(recent, 0.5), quantile(recent, 0.95))
        self._before = found
        return quantiles

    def _fetch(self, router: str) -> str:
        """Return the metrics of a router; empty if it may not be asked."""
        connection, secure = self._connect(router), router.startswith("https:")
        if connection is None:
            return ""
        token = {"Authorization": f"Bearer {self._credentials.token}"} if secure and self._credentials else {}
        try:
            connection.request("GET", "/-/metrics", headers=token)
            return connection.getresponse().read(MAX_BYTES).decode(errors="replace")
        finally:
            connection.close()

    def _connect(self, router: str) -> http.client.HTTPConnection | None:
        """Return a connection to a router on this machine, or to one with a certificate of the cluster: no other may
        see the token."""
        parts = urlsplit(router)
        host, port, ca = parts.hostname, parts.port, self._credentials.ca if self._credentials is not None else None
        if not host or not port:
            return None
        if parts.scheme == "https" and ca is not None:
            trust = ssl.create_default_context(cadata=ca.decode())
            return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=trust)
        if parts.scheme == "http" and is_loopback(host):
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
        return None


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
