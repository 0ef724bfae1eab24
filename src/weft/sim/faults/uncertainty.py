"""The settings of uncertainty in a simulation: estimates, node failures, crashes."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from weft.errors import InputError
from weft.sim.faults import estimates

DEFAULT_REPAIR_S: Final = 3600.0
MIN_TIME_S: Final = 1.0
MAX_TIME_S: Final = 1e12


@dataclass(frozen=True)
class Uncertainty:
    estimates: str = "exact"
    """`exact`, `lognormal:SIGMA` or `unknown`."""
    mtbf_s: float | None = None
    """Mean time between failures of a node; None: nodes do not fail."""
    repair_s: float = DEFAULT_REPAIR_S
    """Mean time to repair a node."""
    crash_rate: float = 0.0
    """The probability that a run crashes."""

    def __post_init__(self) -> None:
        estimates.parse_sigma(self.estimates)
        for name, value in (("a time between failures", self.mtbf_s), ("a repair time", self.repair_s)):
            if value is not None and not MIN_TIME_S <= value <= MAX_TIME_S:
                raise InputError(f"{name} of {value} s", hint=f"expected from {MIN_TIME_S:g} to {MAX_TIME_S:g} s")
        if not (math.isfinite(self.crash_rate) and 0 <= self.crash_rate <= 1):
            raise InputError(f"a crash rate of {self.crash_rate}", hint="expected a probability from 0 to 1")

    def as_json(self) -> dict[str, Any]:
        """Return the settings that differ from their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}


CERTAIN: Final = Uncertainty()
