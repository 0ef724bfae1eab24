"""The files of a report: pictures, charts, the page and a summary."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.lab.report.page import Report, render_page
from weft.lab.report.pictures import Picture

SUMMARY: Final = "summary.json"


def write_report(folder: Path, report: Report, summary: Mapping[str, Any]) -> None:
    write_pictures(folder, report.pictures)
    for number, chart in enumerate(report.charts, start=1):
        (folder / f"gantt-{number}.png").write_bytes(chart.png)
    (folder / "report.html").write_text(render_page(report), encoding="utf-8")
    write_summary(folder, summary)


def write_pictures(folder: Path, pictures: Iterable[Picture]) -> None:
    for picture in pictures:
        (folder / f"{picture.name}.png").write_bytes(picture.png)
        (folder / f"{picture.name}.svg").write_text(picture.svg, encoding="utf-8")


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def write_summary(folder: Path, summary: Mapping[str, Any]) -> None:
    """Write the summary last: it lists all files, by which `is_report` recognises the folder."""
    files = sorted(entry.name for entry in folder.iterdir())
    text = json.dumps({**summary, "files": files}, indent=2, allow_nan=False)
    (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")


def is_report(folder: Path) -> bool:
    """Return whether the folder holds nothing but a report."""
    try:
        found = json.loads((folder / SUMMARY).read_bytes())
        names = {entry.name for entry in folder.iterdir()}
    except (OSError, ValueError, RecursionError):
        return False
    if not isinstance(found, dict) or found.get("kind") not in ("comparison", "figures", "study"):
        return False
    files = found.get("files")
    return isinstance(files, list) and names <= {SUMMARY, *(name for name in files if isinstance(name, str))}
