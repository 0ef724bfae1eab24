"""Whole commands with parallel processes: Muri's figures, and Philly compared under six policies with a report."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.figure import Figure
from benchmarks.process import weft
from benchmarks.workloads import muri_trace, philly, run
from weft.history.metrics.figures import gather
from weft.lab.report.digest import make_digest
from weft.lab.report.gantt_picture import draw_gantt
from weft.lab.report.page import Chart, Report, render_page
from weft.lab.report.pictures import Series, draw_pictures
from weft.lab.report.stats import FIGURES, summarise
from weft.sim.traces.trace import Trace
from weft.sim.traces.writers import to_bytes

POLICIES: Final = "fifo,sjf,srtf,srsf,tiresias,balanced"


def figures() -> Iterator[Figure]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        trace = muri_trace("trace3")
        _write(trace, folder / "trace3.csv", "muri")
        spent = weft("figures", "muri", folder, "--out", folder / "figures")
        what = f"weft figures muri, all variants of {len(trace.jobs)} jobs"
        yield Figure(what, spent.wall_s, "s", 120.0)
        yield Figure("  all processes", spent.cpu_s, "CPU s")
        trace = philly()
        _write(trace, folder / "philly.csv", "weft")
        words = ("compare", folder / "philly.csv", "--cluster", "56x8", "--policies", POLICIES)
        spent = weft(*words, "--out", folder / "report")
        yield Figure(f"weft compare, {len(trace.jobs)} jobs on 56x8, 6 policies", spent.wall_s, "s", 90.0)
        yield Figure("  all processes", spent.cpu_s, "CPU s")
        yield Figure("  report.html", (folder / "report" / "report.html").stat().st_size / 1e6, "MB", 5.0)
    yield Figure("  drawing the report", _measure_drawing(trace), "CPU s", 10.0)


def _write(trace: Trace, path: Path, format: str) -> None:
    path.write_bytes(to_bytes(trace, format))


def _measure_drawing(trace: Trace) -> float:
    """Return the CPU seconds from six journals, all the same, to a page."""
    done = run(trace.jobs, "56x8", "srsf")
    record = gather(done.journal.read())
    gc.freeze()  # as a worker process does
    began = time.process_time()
    names = POLICIES.split(",")
    series = [Series(name, make_digest(done.journal.read(), record, record.jobs)) for name in names]
    outcomes = [summarise(name, [dict.fromkeys(FIGURES, 1.0)]) for name in names]
    charts = [Chart(each.policy, draw_gantt(each.digest.gantt), "") for each in series]
    render_page(Report(trace.name, [], [], list(draw_pictures(series, outcomes, outcomes[0])), charts))
    return time.process_time() - began
