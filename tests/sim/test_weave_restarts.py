"""Runs that only change partners do not restart: Muri's testbed trace, where its folder is there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.model import Rewoven
from weft.sim.clusters.reader import read_cluster
from weft.sim.simulation import Setting, simulate
from weft.sim.traces.trace import read_trace

REFERENCE = Path(__file__).resolve().parents[2].parent / "shared" / "reference"
DATA = Path(os.environ.get("WEFT_REFERENCE", REFERENCE)) / "muri"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"Muri's traces are not here: no folder {DATA}")


@pytest.mark.parametrize("policy", ["muri-l", "muri-s"])
def test_at_most_4000_restarts_on_the_testbed_trace(policy: str) -> None:
    jobs = read_trace(DATA / "cluster_trace.csv").jobs
    done = simulate(Setting(read_cluster(str(DATA / "n8g8.csv")), jobs, policy))
    assert all(job.status == "done" for job in done.state.jobs.values())
    assert sum(job.run for job in done.state.jobs.values()) - len(jobs) <= 4000
    assert any(isinstance(fact, Rewoven) for fact in done.journal.read())
