"""Philly on 56x8 in turns with a prototype of the core loop: jobs per CPU second as a share of the prototype's.

The prototype (`shared/yardstick/run.py` next to the reference traces) has no placements, memory or services. Both run
several times in turns, so that the share holds on a machine that is shared. Without the prototype there are no shares.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.figure import Figure
from benchmarks.workloads import REFERENCE, philly, run

PROTOTYPE = REFERENCE.parent / "yardstick" / "run.py"
POLICIES = {"fifo": "Fifo", "srsf": "Srsf"}
TURNS = 3
GOAL = 0.6
READ_GOAL_S = 1.2


def figures() -> Iterator[Figure]:
    started = time.process_time()
    jobs = philly().jobs
    yield Figure("reading philly, 82,247 rows", time.process_time() - started, "CPU s", READ_GOAL_S)
    if not PROTOTYPE.exists():
        return
    for policy, theirs in POLICIES.items():
        ours_s, theirs_s = [], []
        for _ in range(TURNS):
            theirs_s.append(_prototype_s(theirs))
            ours_s.append(run(jobs, "56x8", policy).cpu_s)
        share = min(theirs_s) / min(ours_s)
        yield Figure(f"philly on 56x8, {policy}, share of the prototype", share, "", GOAL, more_is_better=True)


def _prototype_s(policy: str) -> float:
    words = [sys.executable, str(PROTOTYPE), "56", policy]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = re.search(r"done, ([\d.]+) cpu s", said)
    assert found is not None, said
    return float(found[1])
