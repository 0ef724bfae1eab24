"""Lines of the screen: widths, hostile text, sparklines, tables, the grid of GPUs, logs."""

from __future__ import annotations

import pytest

from support.screen_source import cluster, detail, running
from weft.text import display_width, natural
from weft.tui.model import rows
from weft.tui.model.board import Board
from weft.tui.model.detail import detail_lines
from weft.tui.model.gpu_layout import ZOOMS, make_layout
from weft.tui.model.log_text import MAX_LINE_CHARS, MAX_LINES, LogText
from weft.tui.model.spans import bar, clean, cut, fit, sparkline, width_of, wrap
from weft.tui.model.summary import keys_line, title_line, totals_line
from weft.tui.model.tables import head, layout, row
from weft.views.answers.base import replace_fields
from weft.views.answers.explain import ExplainView, ReasonView

HOSTILE = "\x1b[31mred\x1b[0m \x1b]0;title\x07[bold]x[/bold]\r\n\x9b2J\x00 end 漢字"


def board_of(nodes: int, gpus: int, waiting: int = 5, *, usage: bool = True) -> Board:
    board = Board()
    for changes in cluster(nodes, gpus, waiting, usage=usage):
        board.apply(changes, 0.0)
    return board


def test_no_escape_code_is_left() -> None:
    text = clean(HOSTILE)
    assert text.isprintable()
    assert text == "red [bold]x[/bold]    end 漢字"
    assert display_width(fit(HOSTILE, 12)) == 12
    assert all(display_width(line) <= 7 for line in wrap(HOSTILE, 7))


@pytest.mark.parametrize("width", [0, 1, 5, 30])
def test_text_fits_exactly(width: int) -> None:
    for text in ("", "short", "a long name that does not fit", "漢字漢字漢字", HOSTILE):
        assert display_width(fit(text, width)) == width
        assert width_of(cut([(text, ""), ("more", "")], width)) <= width


def test_bars_and_sparklines() -> None:
    assert [text for text, _ in bar(0.5, 8)] == ["━━━━", "━━━━"]
    assert [width_of(bar(part, 10)) for part in (-1, 0, 0.01, 0.99, 1, 7)] == [10] * 6
    assert sparkline([0, 1, 2, 3], 10) == "▁▃▆█"
    assert sparkline([1.0] * 5, 10) == "▄▄▄▄▄"
    assert len(sparkline(list(range(1000)), 20)) == 20
    assert sparkline([], 20) == ""


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
def test_tables_fill_the_width_and_no_more(width: int) -> None:
    board = board_of(3, 4)
    shown = layout(rows.JOBS, width)
    assert width_of(head(shown, "name")) <= width
    for job in board.jobs.values():
        assert width_of(row(shown, rows.job_cells(job, board, 0.0))) <= width
    assert {"id", "name", "state"} <= {column.key for column, _ in shown} or width < 40


def test_columns_without_content_are_left_out() -> None:
    board = board_of(1, 1)
    names = [column.key for column in rows.job_columns(list(board.jobs.values()))]
    assert "group" not in names
    assert "progress" in names


@pytest.mark.parametrize("zoom", ZOOMS)
@pytest.mark.parametrize("width", [10, 40, 80, 200])
@pytest.mark.parametrize(("nodes", "gpus"), [(1, 2), (2, 1), (4, 8), (125, 8), (1, 100), (3, 0)])
def test_every_gpu_has_a_cell(zoom: str, width: int, nodes: int, gpus: int) -> None:
    board = board_of(nodes, gpus)
    _, grid = make_layout(board, width, zoom, 10)
    lines = [grid.line(at) for at in range(grid.height)]
    held = sum(bool(cell.job) for line in lines for cell in line)
    assert held == sum(bool(gpu.jobs) for gpu in board.gpus.values()) * (3 if zoom == "cards" else 1)
    if width >= 40:
        assert max((width_of([span for cell in line for span in cell.spans]) for line in lines), default=0) <= width + 2
    assert grid.line(grid.height + 5) == []


def test_cells_are_as_large_as_fits() -> None:
    zooms = [make_layout(board_of(nodes, gpus), 120, "auto", 12)[0] for nodes, gpus in ((1, 2), (10, 8), (125, 8))]
    assert zooms == ["cards", "compact", "dense"]


def test_nodes_are_in_natural_order() -> None:
    assert sorted(["n10", "n9", "gpu", "n1"], key=natural) == ["gpu", "n1", "n9", "n10"]


@pytest.mark.parametrize("width", [20, 59, 80, 120, 250])
def test_the_top_lines_fit(width: int) -> None:
    board = board_of(4, 8)
    for _ in range(5):
        board.usage.append((0.5, 0.5))
    assert width_of(title_line(board, "gpu1:50051", ("● live", "live"), "08:00:00", width)) <= max(width, 20)
    assert width_of(totals_line(board, width)) <= width
    shown = keys_line([("c", "cancel"), ("h", "hold"), ("w", "why")], width)
    assert sum(len(key[0]) + len(text[0]) for key, text, _ in shown) <= width


def test_the_page_of_a_job() -> None:
    import random

    job = detail(running("7", "n1", [0, 1], random.Random(1)))
    job = replace_fields(job, team="vision/ar", spec={"deadline": "2040-01-02T08:00:00"})
    why = ExplainView(reasons=[ReasonView("Resources", HOSTILE)], position=2, waiting=9)
    lines = detail_lines(job, why, 1_800_000_000.0, 60)
    text = "\n".join("".join(part for part, _ in line) for line in lines)
    for part in ("loss", "▇", "2 of 9", "stopped (preempted)", "failed 1", "running", "lr=0.1", "/data/ada/vision",
                 "vision/ar", "2040-01-02 08:00:00"):  # fmt: skip
        assert part in text
    assert all(part.isprintable() for line in lines for part, _ in line)


def test_logs_show_what_a_terminal_would() -> None:
    log = LogText()
    log.feed(b"one\r\nepoch 1:  10%\repoch 1:  99%\n\x1b[2J\x1b[1mbold\x1b[0m [red]no markup[/red]\n\xff\xe2\x82")
    log.feed(b"\xac\ttab")
    text = ["".join(part for part, _ in line) for line in log.lines(80)]
    assert text == ["one", "epoch 1:  99%", "bold [red]no markup[/red]", "\ufffd€      tab"]


def test_logs_are_limited() -> None:
    log = LogText()
    log.feed(b"x" * 1_000_000)
    log.feed(b"\n" + b"line\n" * (MAX_LINES + 100))
    assert len(log.lines(80)) == MAX_LINES
    log.feed(b"y" * 1_000_000)
    assert sum(len(part) for line in log.lines(80) for part, _ in line) < MAX_LINES * 4 + 2 * MAX_LINE_CHARS
