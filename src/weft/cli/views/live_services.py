"""Deployed services as text: their details, their replicas, and why they are as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from weft.cli import tables
from weft.cli.tables import Cell, Column
from weft.text import plural

if TYPE_CHECKING:
    from weft.access.client import Client
    from weft.views.answers.services import ServiceView

REPLICA_COLUMNS: Final = (
    Column("REPLICA", max_width=30), Column("STATUS"), Column("VERSION", right=True), Column("GPUS", max_width=30),
    Column("ADDRESS"), Column("JOB"),
)  # fmt: skip


def named_services(client: Client, refs: Iterable[str]) -> list[ServiceView]:
    """Return the services of these names; empty unless all of them are services."""
    known = {each.name: each for each in client.services().services}
    names = list(refs)
    return [known[name] for name in names] if all(name in known for name in names) else []


def replica_rows(services: Iterable[ServiceView]) -> list[list[Cell]]:
    return [
        [Cell(f"{each.name}/{replica.index}"), Cell(replica.status), Cell(str(replica.version)),
         Cell(replica.gpus or "-"), Cell(replica.address or "-"), Cell(replica.job)]
        for each in services
        for replica in each.replicas
    ]  # fmt: skip


def print_services(services: Iterable[ServiceView], color: str) -> None:
    """Print the details of each service, and its replicas."""
    for at, service in enumerate(services):
        if at:
            print()
        tables.print_pairs([(label, Cell(value)) for label, value in _pairs(service)], color)
        if service.replicas:
            print()
            tables.print_table(REPLICA_COLUMNS, replica_rows([service]), color)


def _pairs(service: ServiceView) -> list[tuple[str, str]]:
    bounds = f"{service.min_replicas}..{service.max_replicas} by {service.scaler}"
    return [
        ("service", service.name),
        ("user", service.user),
        ("url", service.url or "no router serves it"),
        ("version", str(service.version)),
        ("replicas", f"{service.ready} ready of {service.wanted} wanted, {bounds}"),
        ("why", service.why),
        ("waits", service.waiting_for),
        ("failing", service.failing),
        ("requests", f"{service.rate:.1f}/s, {service.in_flight:g} at replicas, {service.queued} waiting"),
        ("capacity", f"{service.capacity:g}/s of each replica" if service.capacity else ""),
        ("slo", f"{1000 * service.slo_s:g} ms" if service.slo_s else ""),
        ("models", ", ".join(service.models)),
    ]


def explain_lines(service: ServiceView) -> list[str]:
    """Return why a service has the replicas it has, and what the missing ones wait for."""
    status = [replica.status for replica in service.replicas]
    why = f" ({service.why})" if service.why else ""
    lines = [f"service {service.name}: {plural(service.wanted, 'replica')} wanted{why}"]
    words = ("ready", "starting", "waiting", "draining", *(["unreachable"] if "unreachable" in status else []))
    counts = ", ".join(f"{status.count(word)} {word}" for word in words)
    lines.append(f"  {counts}")
    if service.waiting_for:
        lines.append(f"  {service.waiting_for}")
        lines.append(f"  held by {service.held_by}" if service.held_by else "  no node could hold a replica")
        lines += [f"  {text}" for text in service.pools]
    if service.failing:
        lines.append(f"  {service.failing}")
    lines.append(f"  {service.rate:.1f} requests/s, {service.in_flight:g} at replicas, {service.queued} waiting")
    return lines
