"""The use that runs made of the resources that they held."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one run, or of several runs added up. Figures that are not known are 0."""

    sampled_s: float = 0.0
    """Seconds for which the utilisation of its GPUs is known."""
    busy_s: float = 0.0
    """The utilisation of its GPUs, averaged over them and integrated over these seconds."""
    memory_mb: int = 0
    """The most memory in use on one of its GPUs."""
    metered_s: float = 0.0
    """Seconds for which the energy is known."""
    energy_j: float = 0.0
    """The energy of all its GPUs."""
    cpu_s: float = 0.0
    """CPU time of its processes; of runs that ended."""
    rss_mb: int = 0
    """The most main memory of one of its processes."""

    def plus(self, other: Use) -> Use:
        return Use(
            self.sampled_s + other.sampled_s, self.busy_s + other.busy_s, max(self.memory_mb, other.memory_mb),
            self.metered_s + other.metered_s, self.energy_j + other.energy_j, self.cpu_s + other.cpu_s,
            max(self.rss_mb, other.rss_mb),
        )  # fmt: skip
