"""The router's metrics in the text format of Prometheus. Counters are plain numbers until a client asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from weft.router.service import BUCKETS_S, RoutedService

if TYPE_CHECKING:
    from weft.router.app import Router


def render_metrics(router: Router) -> bytes:
    """Return all metrics as text."""
    from prometheus_client import CollectorRegistry, generate_latest

    registry = CollectorRegistry()
    registry.register(_Collector(router))
    return generate_latest(registry)


class _Collector:
    def __init__(self, router: Router) -> None:
        self._router = router

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        router = self._router
        yield GaugeMetricFamily("weft_router_connections", "Open connections of clients.", len(router.clients))
        yield CounterMetricFamily("weft_router_connections_opened", "Accepted connections.", router.connections_opened)
        yield CounterMetricFamily(
            "weft_router_connections_refused", "Connections above the limit.", router.connections_refused
        )
        yield GaugeMetricFamily("weft_router_held_bytes", "Bytes of bodies in memory.", router.held_bytes)
        yield GaugeMetricFamily("weft_router_table", "Number of the table in use.", router.table.number)
        refused = CounterMetricFamily("weft_router_refusals", "Answers of the router itself.", labels=["reason"])
        for reason, count in router.refusals.items():
            refused.add_metric([reason], count)
        yield refused
        yield from self._services()

    def _services(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        services = self._router.services.values()
        codes = CounterMetricFamily(
            "weft_router_requests",
            "Requests that ended, by status; 499: the client left, 599: the answer was cut.",
            labels=["service", "code"],
        )
        for service in services:
            for code, count in sorted(service.codes.items()):
                codes.add_metric([service.name, str(code)], count)
        yield codes
        seconds = HistogramMetricFamily(
            "weft_router_request_seconds", "From head to end of answer.", labels=["service"]
        )
        for service in services:
            seconds.add_metric([service.name], _buckets(service), service.seconds_sum)
        yield seconds
        for name, text, attribute in (
            ("weft_router_arrivals", "Requests that reached a service.", "arrivals"),
            ("weft_router_retries", "Requests sent to another replica.", "retries"),
            ("weft_router_connect_errors", "Refused connections to replicas.", "connect_errors"),
        ):
            counter = CounterMetricFamily(name, text, labels=["service"])
            for service in services:
                counter.add_metric([service.name], getattr(service, attribute))
            yield counter
        for at, (name, text) in enumerate(
            (
                ("weft_router_in_flight", "Requests at replicas."),
                ("weft_router_queued", "Requests that wait for a replica."),
                ("weft_router_ready_replicas", "Replicas that get requests."),
                ("weft_router_ejected_replicas", "Replicas that get no requests because they fail."),
            )
        ):
            gauge = GaugeMetricFamily(name, text, labels=["service"])
            for service in services:
                load = service.load()
                ejected = sum(each.health.is_out() for each in load.replicas)
                gauge.add_metric([service.name], (load.in_flight, load.queued, load.ready, ejected)[at])
            yield gauge


def _buckets(service: RoutedService) -> list[tuple[str, float]]:
    bounds = (*(f"{bound:g}" for bound in BUCKETS_S), "+Inf")
    return list(zip(bounds, accumulate(service.buckets), strict=True))
