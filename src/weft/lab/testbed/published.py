"""Published figures of testbeds, for the trace that each belongs to.

Source: Zhao et al., "Multi-Resource Interleaving for Deep Learning Training" (Muri), SIGCOMM 2022, tables 3 and 4:
8 nodes of 8 V100, 400 jobs (`cluster_trace.csv` of github.com/Rivendile/Muri).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from weft.sim.traces.trace import TraceJob

SOURCE: Final = "Muri, SIGCOMM 2022, tables 3 and 4"
MURI_TRACE: Final = "0d528f6c360ee3fce5681d31961a62cd92dca1174af6dfd8ca3fdc821882a23f"
"""The fingerprint of the 400 jobs."""
MURI_GPUS: Final = 64


class Published(NamedTuple):
    avg_jct_s: float
    makespan_s: float
    p99_jct_s: float
    jct_ratio: float
    """Average JCT relative to the variant of Muri that knows as much about durations."""
    makespan_ratio: float


MURI_TESTBED: Final[Mapping[str, Published]] = {
    "srtf": Published(249_140.18, 4_156_633.26, 2_723_588.79, 2.12, 1.56),
    "srsf": Published(238_612.09, 4_223_121.82, 3_138_494.38, 2.03, 1.59),
    "muri-s": Published(117_634.55, 2_662_548.29, 822_571.68, 1.0, 1.0),
    "tiresias": Published(336_533.17, 3_959_796.87, 2_812_808.29, 2.59, 1.48),
    "themis": Published(461_456.23, 3_924_818.88, 2_876_142.92, 3.56, 1.47),
    "muri-l": Published(129_744.66, 2_666_872.44, 1_106_155.68, 1.0, 1.0),
}
BASELINES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("srtf", "srsf", "muri-s"), "muri-s"),
    **dict.fromkeys(("tiresias", "themis", "muri-l"), "muri-l"),
}
"""The policy to which the published ratios of each policy relate."""


def fingerprint(jobs: Sequence[TraceJob]) -> str:
    """Return a digest of the arrivals, sizes and lengths of jobs."""
    lines = "".join(f"{each.submit_s:.3f} {each.job.gpus} {each.work_s:.3f}\n" for each in jobs)
    return hashlib.sha256(lines.encode()).hexdigest()


def published_figures(jobs: Sequence[TraceJob], gpus: int, policy: str) -> Published | None:
    """Return the figures that were published for these jobs on this many GPUs; None if there are none."""
    if gpus != MURI_GPUS or policy not in MURI_TESTBED or fingerprint(jobs) != MURI_TRACE:
        return None
    return MURI_TESTBED[policy]
