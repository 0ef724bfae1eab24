"""Reader of the file of `--services`: services, and the requests that each of them gets in a simulation.

docs/reference/services-file.md describes the file. Every error names its line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from weft.access.services.description import KEYS, LIVE_KEYS, parse_above_zero, read_service, seconds
from weft.inputs.files import read_text
from weft.inputs.yaml import YamlMapping, YamlValue, parse_yaml
from weft.model import Service
from weft.scheduling.plugins import registry
from weft.scheduling.scaling.port import ScaleBounds
from weft.sim.serving.arrivals import Arrivals, from_rps, gamma, read_llm_trace, read_rps
from weft.sim.serving.grid import example_grid, read_grid
from weft.sim.serving.service import SimulatedService
from weft.sim.serving.workload import ServiceWorkload

SIMULATED_KEYS: Final = ("requests", "cold_start", "latency", "token_time")
"""The keys that a simulation needs in addition to the description of a service."""
MAX_SERVICES: Final = 1000


def read_services(path: str, seed: int) -> list[ServiceWorkload]:
    """Read the services of a file, with their requests; `seed` is that of drawn requests."""
    root = parse_yaml(read_text(path), path).mapping("a file of services", ("services",))
    items = root.require("services").items("a list of services")
    if not items or len(items) > MAX_SERVICES:
        raise root.value.error(f"{len(items)} services", f"expected from 1 to {MAX_SERVICES:,}")
    found: dict[str, ServiceWorkload] = {}
    for at, item in enumerate(items):
        workload = _read_workload(item, Path(path).parent, seed + at)
        if workload.service.name in found:
            raise item.error(f"service {workload.service.name} occurs twice", "give each service another name")
        found[workload.service.name] = workload
    return list(found.values())


def _read_workload(value: YamlValue, folder: Path, seed: int) -> ServiceWorkload:
    entry = value.mapping("a service", KEYS + SIMULATED_KEYS + LIVE_KEYS)
    service = read_service(entry)
    arrivals = _arrivals(entry.require("requests"), folder, seed)
    with value.locating():
        simulated = _simulated(entry, service, arrivals, folder)
    return ServiceWorkload(service, simulated, arrivals, registry.load_scaler(service.scale.scaler), value.where)


def _simulated(entry: YamlMapping, service: Service, arrivals: Arrivals, folder: Path) -> SimulatedService:
    rule, slots, share = service.scale, service.concurrency, service.template.share
    bounds = ScaleBounds(rule.min_replicas, rule.max_replicas, rule.to_zero_after_s)
    if arrivals.tokens is not None:
        token_s = seconds(entry, "token_time", 0.0417)
        mean_s = token_s * sum(max(each, 1) for each in arrivals.tokens) / len(arrivals.tokens)
        return SimulatedService(
            service.name, share, slots=slots, token_s=token_s, slo_s=service.slo_s or 1.0,
            cold_start_s=seconds(entry, "cold_start", 30.0), throughput=rule.throughput or slots / mean_s,
            bounds=bounds,
        )  # fmt: skip
    latency = entry.get("latency")
    grid = example_grid() if latency is None else read_grid(str(folder / latency.text()))
    profiled = grid.capacity(slots, share.request)
    return SimulatedService(
        service.name, share, grid, slots, slo_s=service.slo_s or 0.25,
        cold_start_s=seconds(entry, "cold_start", 10.0), throughput=rule.throughput or profiled, profiled=profiled,
        bounds=bounds,
    )  # fmt: skip


def _arrivals(value: YamlValue, folder: Path, seed: int) -> Arrivals:
    given = value.mapping("requests", ("rps", "times", "rate", "variation", "duration", "trace"))
    rps, trace, rate = given.get("rps"), given.get("trace"), given.get("rate")
    if sum(each is not None for each in (rps, trace, rate)) != 1:
        raise value.error("requests need one source", "give rps: FILE, trace: FILE, or rate: N and duration: 10m")
    used = {"rps": ("rps", "times"), "trace": ("trace",), "rate": ("rate", "variation", "duration")}
    source = "rps" if rps is not None else "trace" if trace is not None else "rate"
    for key, unused in given.entries.items():
        if key not in used[source]:
            raise unused.error(f"{key} does not go with {source}", f"{source} takes {', '.join(used[source])}")
    if trace is not None:
        return read_llm_trace(str(folder / trace.text()))
    if rps is not None:
        times = given.get("times")
        return from_rps(read_rps(str(folder / rps.text())), 1.0 if times is None else parse_above_zero(times), seed)
    assert rate is not None
    variation = given.get("variation")
    return gamma(
        parse_above_zero(rate), 1.0 if variation is None else parse_above_zero(variation),
        seconds(given, "duration", 3600.0), seed,
    )  # fmt: skip
