"""The report of a testbed: tables as Markdown and JSON, pictures, and a page with all of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from weft.inputs.atomic import write_atomic
from weft.lab.report.folder import write_pictures
from weft.lab.report.page import Cell, Report, Table, render_page
from weft.lab.report.pictures import Picture, Series, draw_pictures
from weft.lab.report.stats import choose_baseline, summarise
from weft.lab.testbed.cell import read_cell_facts
from weft.lab.testbed.failures import warning
from weft.lab.testbed.measures import digest_of
from weft.lab.testbed.published import SOURCE
from weft.lab.testbed.store import Store
from weft.lab.testbed.summary import FIGURES, Row, Setup, as_json, by_setup, published_ratios

NOTE: Final = (
    "Schedulers, agents and job processes are real; GPUs are emulated. Figures are in seconds of the trace. "
    "sim: the difference from the simulator; published: from " + SOURCE + "."
)


def write_report(store: Store, rows: Sequence[Row]) -> list[Path]:
    """Write the report of the finished cells into the folder of the testbed. Return the files."""
    files: list[Path] = []
    pages: list[Table] = []
    drawn: list[Picture] = []
    for at, (setup, of_setup) in enumerate(by_setup(rows).items(), 1):
        tables = tables_of(setup, of_setup)
        pages += tables
        pictures = list(_draw(store, of_setup, at))
        write_pictures(store.root, pictures)
        files += [store.root / f"{picture.name}.png" for picture in pictures]
        drawn += pictures
    summary: dict[str, Any] = as_json(rows)
    write_atomic(store.root / "summary.json", (json.dumps(summary, indent=2, allow_nan=False) + "\n").encode())
    write_atomic(store.root / "tables.md", "\n".join(map(_markdown, pages)).encode())
    page = render_page(Report("Testbed, with emulated GPUs", [("cells", str(len(rows)))], pages, drawn, ()))
    write_atomic(store.root / "report.html", page.encode())
    return [*(store.root / name for name in ("report.html", "tables.md", "summary.json")), *files]


def tables_of(setup: Setup, rows: Sequence[Row]) -> list[Table]:
    """Return the tables of one setup: figures, costs, and ratios where there are published ones."""
    tables = [_figures(setup, rows), _costs(setup, rows)]
    ratios = [
        [
            Cell(each.row.label),
            Cell(FIGURES[each.key]),
            Cell(each.baseline.label),
            Cell(f"{each.live:.2f}"),
            Cell(f"{each.published:.2f}"),
            Cell(_signed(each.excess)),
        ]
        for each in published_ratios(rows)
    ]
    if ratios:
        columns = ("policy", "figure", "relative to", "here", "published", "difference")
        tables.append(Table(f"Ratios: {setup.title}", columns, ratios, f"Source: {SOURCE}."))
    return tables


def _figures(setup: Setup, rows: Sequence[Row]) -> Table:
    columns = ["policy"]
    for label in FIGURES.values():
        columns += [label, "sim", "published"]
    cells = []
    for row in rows:
        line = [Cell(row.label)]
        for key in FIGURES:
            line += [Cell(_seconds(row.live(key))), Cell(_signed(row.against_simulated(key)))]
            line.append(Cell(_signed(row.against_published(key))))
        cells.append(line)
    return Table(f"Figures: {setup.title}", columns, cells, NOTE)


def _costs(setup: Setup, rows: Sequence[Row]) -> Table:
    columns = (
        "policy", "speed", "wall s", "starts", "restarts", "start ms p50 / p90", "stop ms p50 / p90", "CPU s", "load",
        "GPUs in use", "jobs done", "late s",
    )  # fmt: skip
    cells = []
    for row in rows:
        found, latencies = row.result, row.result["latencies"]
        figures = found["figures"]
        texts = (
            row.label, f"{row.cell.speed:g}", f"{found['wall_s']:,.0f}", f"{latencies['start']['count']:,}",
            f"{figures['restarts']:,}", _latency(latencies["start"]), _latency(latencies["stop"]),
            f"{found['cpu_s']:.0f}", f"{found['load']['mean']:.1f}",
            "-" if figures["gpu_utilisation"] is None else f"{figures['gpu_utilisation']:.1%}",
            f"{figures['finished']:,} of {figures['jobs']:,}", f"{found['late_s']:.2f}",
        )  # fmt: skip
        cells.append([Cell(text) for text in texts])
    note = "Milliseconds from a decision until the run works, or is gone. CPU: scheduler and agents with what they ran."
    for row in rows:
        if words := warning(row.result.get("failed", [])):
            note += f" Warning: {row.label}: {words}."
    return Table(f"Costs: {setup.title}", columns, cells, note)


def _draw(store: Store, rows: Sequence[Row], number: int) -> Iterable[Picture]:
    series = []
    for row in rows:
        facts = read_cell_facts(store, row.cell, row.group)
        series.append(Series(row.label, digest_of(facts, row.cell.speed, row.group)))
    outcomes = [summarise(row.label, [row.result["figures"]]) for row in rows]
    for picture in draw_pictures(series, outcomes, choose_baseline(outcomes, None)):
        yield picture._replace(name=f"{number}-{picture.name}", title=f"{picture.title} (emulated GPUs)")


def _markdown(table: Table) -> str:
    lines = [f"### {table.caption}", "", f"| {' | '.join(table.columns)} |", "|---" * len(table.columns) + "|"]
    lines += [f"| {' | '.join(cell.text for cell in row)} |" for row in table.rows]
    return "\n".join([*lines, *(["", table.note] if table.note else []), ""])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _signed(part: float | None) -> str:
    return "-" if part is None else f"{part:+.1%}"


def _latency(found: dict[str, Any]) -> str:
    if found["p50_ms"] is None:
        return "-"
    return f"{found['p50_ms']:.0f} / {found['p90_ms']:.0f}"
