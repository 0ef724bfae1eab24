"""The self-contained HTML page of a report: tables, bounds, pictures and Gantt charts.

Names come from traces and command lines, so all text from outside is escaped.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final, NamedTuple

from weft.lab.report import style
from weft.lab.report.pictures import Picture


class Cell(NamedTuple):
    """A cell of a table."""

    text: str
    best: bool = False


class Table(NamedTuple):
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


class Chart(NamedTuple):
    policy: str
    png: bytes
    description: str


class Report(NamedTuple):
    title: str
    about: Sequence[tuple[str, str]]
    tables: Sequence[Table]
    pictures: Sequence[Picture]
    charts: Sequence[Chart]
    failures: Sequence[tuple[str, str]] = ()
    """Policies, each with its error."""


CSS: Final = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fafaf8; --card: #ffffff; --faint: #6b6b6b;
  --line: #dcdcd6; --best: #00694d; --bad: #a33a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: #161616; --card: #202020; --faint: #a5a5a5;
  --line: #3a3a3a; --best: #5fd3ac; --bad: #ff9a5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h1, h2, figcaption, td, th, dd { overflow-wrap: anywhere; }
dl { display: flex; flex-wrap: wrap; gap: .2rem 1.6rem; margin: 0; color: var(--faint); }
dl div { display: flex; gap: .4rem; } dt::after { content: ":"; } dd { margin: 0; color: var(--ink); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; background: var(--card); min-width: 60%; }
caption { text-align: left; font-weight: 600; padding: .4rem 0; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 9rem; }
td.best { color: var(--best); font-weight: 700; } td.best::after { content: " *"; }
figure { margin: 0 0 1.4rem; padding: .8rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; }
figcaption { font-weight: 600; margin-bottom: .4rem; }
figure svg, figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
figure img { background: #fff; border-radius: 4px; }
.note { color: var(--faint); max-width: 60rem; } .failed { color: var(--bad); white-space: pre-wrap; }
"""

_ID: Final = re.compile(r'(\bid="|url\(#|href="#)')


def render_page(report: Report) -> str:
    body = [
        f"<h1>{escape(report.title)}</h1>",
        f"<dl>{''.join(_about(report.about))}</dl>",
        *_failures(report.failures),
        *(part for table in report.tables for part in _table(table)),
        *_section("Pictures", (_inline_picture(number, picture) for number, picture in enumerate(report.pictures))),
        *_section("GPUs over time", (_chart(chart) for chart in report.charts)),
    ]
    return "\n".join([_HEAD.format(title=escape(report.title), css=CSS), *body, "</body>", "</html>", ""])


_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{css}</style>
</head>
<body>"""


def _about(pairs: Iterable[tuple[str, str]]) -> Iterable[str]:
    return (f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)


def _failures(failures: Sequence[tuple[str, str]]) -> Iterable[str]:
    return (f'<p class="failed"><b>{escape(policy)}</b> failed: {escape(what)}</p>' for policy, what in failures)


def _table(table: Table) -> Iterable[str]:
    yield f'<h2>{escape(table.caption)}</h2><div class="scroll"><table><thead><tr>'
    yield "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = (f"<td{' class=best' if cell.best else ''}>{escape(cell.text)}</td>" for cell in row)
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"
    if table.note:
        yield f'<p class="note">{escape(table.note)}</p>'


def _section(title: str, parts: Iterable[str]) -> list[str]:
    found = list(parts)
    return [f"<h2>{escape(title)}</h2>", *found] if found else []


def _inline_picture(number: int, picture: Picture) -> str:
    """Return the SVG inline, in the page's colours."""
    drawing = picture.svg[picture.svg.index("<svg") :]
    drawing = re.sub(r"<metadata>.*?</metadata>", "", drawing, flags=re.DOTALL)
    drawing = _ID.sub(rf"\g<1>p{number}-", drawing)
    drawing = drawing.replace(style.INK, "currentColor").replace(style.PAPER, "var(--card)")
    drawing = drawing.replace("<svg ", f'<svg role="img" aria-label="{escape(picture.title)}" ', 1)
    return f"<figure><figcaption>{escape(picture.title)}</figcaption>{drawing}</figure>"


def _chart(chart: Chart) -> str:
    data = base64.b64encode(chart.png).decode("ascii")
    image = f'<img alt="{escape(chart.description)}" src="data:image/png;base64,{data}">'
    return f"<figure><figcaption>{escape(chart.policy)}</figcaption>{image}</figure>"
