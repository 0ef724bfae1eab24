"""A service in a simulation: as the scheduler knows it, as its replicas behave, and the requests that it gets."""

from __future__ import annotations

from dataclasses import dataclass

from weft.model import Service
from weft.scheduling.scaling.port import Autoscaler
from weft.sim.serving.arrivals import Arrivals
from weft.sim.serving.service import SimulatedService


@dataclass(frozen=True)
class ServiceWorkload:
    service: Service
    simulated: SimulatedService
    arrivals: Arrivals
    scaler: Autoscaler
    where: str = ""
    """The file and line that describe it."""
