"""Replaying a journal: facts per CPU second, from memory and from JSON lines on disk."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Figure, least
from benchmarks.workloads import philly, run
from weft.history.journal.jsonl import JsonlJournal
from weft.model import Fact
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry


def figures() -> Iterator[Figure]:
    facts = list(run(philly().jobs, "56x8", "srsf").journal.read())
    yield Figure(
        "replay of a journal in memory", len(facts) / least(lambda: _replay(facts)), "facts/CPU s", 300_000.0, True
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        started = time.process_time()
        with JsonlJournal(path) as journal:
            journal.append(*facts)
        yield Figure("writing it as JSON lines", len(facts) / (time.process_time() - started), "facts/CPU s")
        yield Figure("replay from JSON lines", len(facts) / least(lambda: _read_and_replay(path), 2), "facts/CPU s")


def _replay(facts: list[Fact]) -> float:
    scheduler = Scheduler(registry.load_policy("srsf"), registry.load_placement("packed"))
    started = time.process_time()
    scheduler.replay(facts)
    return time.process_time() - started


def _read_and_replay(path: Path) -> float:
    scheduler = Scheduler(registry.load_policy("srsf"), registry.load_placement("packed"))
    started = time.process_time()
    with JsonlJournal(path, readonly=True) as journal:
        scheduler.replay(journal.read())
    return time.process_time() - started
