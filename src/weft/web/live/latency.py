"""The latency of services, from the metrics of their routers: a histogram and the one before it."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from weft.access.endpoints.addresses import is_loopback
from weft.access.endpoints.credentials import Credentials
from weft.views.answers.services import ServiceView
from weft.web.live.board import Latencies

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
        """Return the quantiles of the requests since the last call; None: a service had none. A service whose router
        does not answer is left out."""
        routers: dict[str, set[str]] = {}
        for service in services:
            routers.setdefault(service.url.removesuffix(f"/{service.name}"), set()).add(service.name)
        quantiles = {}
        for router, names in routers.items():
            try:
                found = parse(self._fetch(router))
            except (OSError, http.client.HTTPException, ValueError):
                continue
            for name in names & found.keys():
                recent = _since(found[name], self._before.get(name))
                quantiles[name] = (quantile(recent, 0.5), quantile(recent, 0.95))
                self._before[name] = found[name]
        return quantiles

    def _fetch(self, router: str) -> str:
        """Return the metrics of a router on this machine, or of one with a certificate of the cluster: no other may see
        the token. The text of other routers is empty."""
        parts, credentials = urlsplit(router), self._credentials
        host, port, deadline = parts.hostname, parts.port, time.monotonic() + TIMEOUT_S
        connection, headers = http.client.HTTPConnection(host or "", port, timeout=TIMEOUT_S), dict[str, str]()
        if parts.scheme == "https" and host and credentials is not None and credentials.ca is not None:
            trust = ssl.create_default_context(cadata=credentials.ca.decode())
            connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=trust)
            headers["Authorization"] = f"Bearer {credentials.token}"
        elif parts.scheme != "http" or not host or not is_loopback(host):
            return ""
        try:
            connection.request("GET", "/-/metrics", headers=headers)
            answer, text = connection.getresponse(), bytearray()
            while len(text) < MAX_BYTES and time.monotonic() < deadline and (part := answer.read1(1 << 16)):
                text += part
            return text.decode(errors="replace")
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
