"""The page needs nothing else and says nothing that a name could smuggle in; a folder is ours or not."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from weft.lab.report import style
from weft.lab.report.folder import is_report, write_report
from weft.lab.report.page import Cell, Chart, Report, Table, render_page
from weft.lab.report.pictures import draw_pictures
from weft.lab.report.stats import FIGURES, summarise

EVIL = "<script>alert(1)</script>&\"'$_\x00"


@pytest.fixture(scope="module")
def report() -> Report:
    outcomes = [summarise(name, [dict.fromkeys(FIGURES, value)]) for name, value in ((EVIL, 2.0), ("b", 1.0))]
    drawn = list(draw_pictures([], outcomes, outcomes[0]))
    tables = [Table(EVIL, [EVIL, "x"], [[Cell(EVIL), Cell("1", best=True)]], EVIL)]
    return Report(EVIL, [(EVIL, EVIL)], tables, drawn, [Chart(EVIL, b"\x89PNG", EVIL)], [(EVIL, EVIL)])


def test_nothing_is_fetched(report: Report) -> None:
    text = render_page(report)
    links = re.findall(r"https?://[^\s\"'<>)]+", text)
    assert set(links) <= {"http://www.w3.org/1999/xlink", "http://www.w3.org/2000/svg"}, "names, not addresses"
    assert not re.search(r"<(?:script|link|iframe|object)\b|@import|url\((?!#)", text)
    assert "default-src 'none'" in text


def test_names_are_escaped(report: Report) -> None:
    assert "<script" not in render_page(report)
    assert "&lt;script&gt;" in render_page(report)


def test_ids_of_drawings_are_their_own(report: Report) -> None:
    twice = report._replace(pictures=[*report.pictures, *report.pictures])
    ids = re.findall(r'\bid="([^"]+)"', render_page(twice))
    assert ids
    assert len(ids) == len(set(ids))


def test_a_folder_is_ours_while_nothing_was_added(report: Report, tmp_path: Path) -> None:
    assert not is_report(tmp_path)
    write_report(tmp_path, report, {"kind": "comparison"})
    names = {entry.name for entry in tmp_path.iterdir()}
    assert names == {"report.html", "summary.json", "normalised.png", "normalised.svg", "gantt-1.png"}
    assert set(json.loads((tmp_path / "summary.json").read_text())["files"]) == names - {"summary.json"}
    assert is_report(tmp_path)
    (tmp_path / "thesis.tex").touch()
    assert not is_report(tmp_path)


def test_the_same_picture_is_the_same_text(report: Report) -> None:
    outcomes = [summarise(name, [dict.fromkeys(FIGURES, value)]) for name, value in ((EVIL, 2.0), ("b", 1.0))]
    assert list(draw_pictures([], outcomes, outcomes[0])) == list(report.pictures)


def test_no_two_of_sixteen_look_alike() -> None:
    lines = {(style.colour(at), str(style.dashes(at))) for at in range(16)}
    bars = {(style.colour(at), style.hatch(at)) for at in range(16)}
    assert len(lines) == len(bars) == 16
    assert len({str(style.dashes(at)) for at in range(8)}) == len({style.hatch(at) for at in range(8)}) == 8
