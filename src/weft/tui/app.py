"""The screen of `weft top`: pages of panes over one board, which a source of changes keeps up to date."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from weft.text import natural
from weft.tui.job_actions import JobActions
from weft.tui.model import rows
from weft.tui.model.board import Board
from weft.tui.model.detail import headline
from weft.tui.model.job_list import SORTS, Term, parse_filter, select
from weft.tui.model.pages import preview_lines, service_lines, weave_lines
from weft.tui.model.spans import Line
from weft.tui.model.summary import title_line, totals_line
from weft.tui.screens.dialogs import Page, plain_title
from weft.tui.screens.help import help_lines
from weft.tui.screens.job import JobScreen
from weft.tui.sources.base import Link, News, Source
from weft.tui.theme import CSS, THEME
from weft.tui.widgets.bars import KeyBar, Summary, Tabs
from weft.tui.widgets.gpu_grid import AUTO, GpuGrid
from weft.tui.widgets.lines import Lines
from weft.tui.widgets.table import Table
from weft.views.answers.changes import ChangesView

PAGES: Final = ("Overview", "GPUs", "Queue", "Nodes", "Services", "Weaves", "Events")
SHOWN: Final = {
    "Overview": ("gpus", "queue"), "GPUs": ("gpus",), "Queue": ("queue",), "Nodes": ("nodes",),
    "Services": ("services",), "Weaves": ("weaves",), "Events": ("events",),
}  # fmt: skip
"""The panes of each page; the first or last one gets the focus."""
TICK_S: Final = 0.25
MAX_TICK_S: Final = 0.05
"""The time for messages in one tick: keys must not wait."""
WIDE: Final = 150
"""From this width on, the overview has a column with the chosen job and the last events."""
CONNECTING: Final = Link("◌ connecting", False)


class Top(JobActions, App[None]):
    CSS: ClassVar[str] = CSS
    TITLE = "weft top"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS: ClassVar[str | None] = "#queue"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(at + 1), f"page({at})", show=False) for at in range(len(PAGES))),
        Binding("q,ctrl+c", "quit", show=False), Binding("question_mark", "help", show=False),
        Binding("slash", "filter", show=False), Binding("escape", "clear", show=False),
        Binding("s", "sort(1)", show=False), Binding("S", "sort(0)", show=False), Binding("e", "ended", show=False),
        Binding("plus,equals_sign", "zoom(1)", show=False), Binding("minus", "zoom(-1)", show=False),
        Binding("0", "zoom(0)", show=False),
        Binding("c", "cancel", show=False), Binding("h", "hold", show=False), Binding("r", "release", show=False),
        Binding("p", "priority", show=False), Binding("l", "log", show=False), Binding("w", "why", show=False),
        Binding("P", "pause_playback", show=False), Binding("greater_than_sign", "speed(2.0)", show=False),
        Binding("less_than_sign", "speed(0.5)", show=False),
    ]  # fmt: skip

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source, self.board, self.link = source, Board(simulated=source.simulated), CONNECTING
        self._news: deque[News] = deque()
        self._page = 0
        self._filter: list[Term] = []
        self._sort, self._reverse, self._ended = "queue", False, True
        self._drawn: dict[str, object] = {}
        """The content that each pane last drew."""
        self._second = 0

    # ---- building

    def compose(self) -> ComposeResult:
        board = self.board
        yield Summary(self._summary, id="summary")
        yield Tabs(PAGES, self.action_page, id="tabs")
        with Horizontal(id="body"):
            with Vertical(id="main"):
                yield GpuGrid(board, id="gpus", auto_height=True)
                yield Table(
                    rows.JOBS, lambda job: job.id, lambda job: rows.job_cells(job, board, time.monotonic()),
                    id="queue", title="queue", empty="no jobs: weft submit puts one into the queue",
                )  # fmt: skip
                yield Table(rows.NODES, lambda node: node.node, rows.node_cells, id="nodes", title="nodes")
                yield Table(
                    rows.SERVICES, lambda service: service.name, rows.service_cells, id="services", title="services",
                    empty="no services: weft deploy FILE deploys one",
                )  # fmt: skip
                yield Table(
                    rows.WEAVES, lambda weave: weave.weave,
                    lambda weave: rows.weave_cells(weave, board.clock(time.monotonic())), id="weaves", title="weaves",
                    empty="no weaves: no jobs take turns on shared GPUs (policies muri-s and muri-l weave)",
                )  # fmt: skip
                yield self._event_table("events", "nothing has happened since this screen was opened")
            with Vertical(id="side"):
                yield Lines(id="preview", title="job")
                yield self._event_table("recent", "nothing yet")
        yield Input(placeholder="filter: words, user:NAME state:running name:train-* !…", id="filter", compact=True)
        yield KeyBar(self._keys, self.press_key, id="keys")

    def _event_table(self, name: str, empty: str) -> Table:
        simulated = self.source.simulated
        return Table(
            rows.EVENTS, lambda event: str(id(event)), lambda event: rows.event_cells(event, simulated=simulated),
            id=name, title="events", empty=empty,
        )  # fmt: skip

    def on_mount(self) -> None:
        self.register_theme(THEME)
        self.theme = THEME.name
        self.action_page(0)
        self.source.start(self._news.append)
        self.set_interval(TICK_S, self._tick)

    def on_unmount(self) -> None:
        self.source.stop()

    def on_resize(self, event: events.Resize) -> None:
        self._fit_side(event.size.width)
        self._drawn.clear()
        self.call_after_refresh(self._draw)

    # ---- changes

    def _tick(self) -> None:
        until = time.monotonic() + MAX_TICK_S
        while self._news and time.monotonic() < until:
            news = self._news.popleft()
            if isinstance(news, Link):
                self._set_link(news)
            else:
                self._apply(news)
        self._draw()

    def _apply(self, changes: ChangesView) -> None:
        self.board.apply(changes, time.monotonic())

    def _set_link(self, link: Link) -> None:
        if link.is_live and self.link is not CONNECTING and not self.link.is_live:
            self.notify("connected again", markup=False)
        elif not link.is_live and self.link.is_live:
            self.notify(link.text, severity="warning", markup=False)
        self.link = link
        self._drawn.pop("summary", None)

    # ---- drawing

    def _draw(self) -> None:
        """Draw the panes whose content has changed, and once a second the times."""
        base = self.screen_stack[0] if self.screen_stack else None
        if base is None or not base.query("#gpus"):
            return  # it is being closed
        second, versions = int(time.monotonic()), self.board.versions
        if self._changed("summary", (second, versions["counts"], versions["gpus"], self.link)):
            base.query_one("#summary", Summary).refresh()
        if self.screen is not base:
            return  # another screen covers the panes
        self._draw_gpus()
        self._draw_queue(second)
        for name in ("nodes", "services", "weaves"):
            if self._is_shown(name) and self._changed(name, (versions[name], second if name == "weaves" else 0)):
                found = getattr(self.board, name)
                values = sorted(found.values(), key=lambda node: natural(node.node)) if name == "nodes" else found
                table = self.query_one(f"#{name}", Table)
                table.show_rows(values)
                table.border_title = f"{name} {len(values):,}"
        for name in ("events", "recent"):
            if self._is_shown(name) and self._changed(name, versions["events"]):
                self.query_one(f"#{name}", Table).show_rows(list(reversed(self.board.events)))

    def _changed(self, name: str, content: object) -> bool:
        if self._drawn.get(name) == content:
            return False
        self._drawn[name] = content
        return True

    def _is_shown(self, name: str) -> bool:
        if name in ("recent", "preview"):
            return self.query_one("#side").has_class("shown")
        return name in SHOWN[PAGES[self._page]]

    def _draw_gpus(self) -> None:
        grid = self.query_one("#gpus", GpuGrid)
        if not self._is_shown("gpus"):
            return
        body = self.query_one("#body").size.height
        most = max(int(body * 0.45) - 2, 2) if self._is_shown("queue") else max(body - 2, 2)
        key = (self.board.versions["gpus"], self.board.versions["nodes"], grid.zoom, most, grid.size.width)
        if self._changed("gpus", key):
            grid.update_grid(most)
            grid.border_title = f"GPUs {len(self.board.gpus):,}"

    def _draw_queue(self, second: int) -> None:
        if not self._is_shown("queue"):
            return
        table = self.query_one("#queue", Table)
        chosen = (self.board.versions["jobs"], tuple(self._filter), self._sort, self._reverse, self._ended)
        if self._changed("queue", chosen):
            found = select(self.board, self._filter, self._sort, reverse=self._reverse, ended=self._ended)
            table.sort, table.reverse = self._sort, self._reverse
            table.columns = rows.job_columns(found)
            table.show_rows(found)
            text = self.query_one("#filter", Input).value
            shown = f"{len(found):,} of {len(self.board.jobs):,}" if self._filter else f"{len(found):,}"
            order = "" if self._sort == "queue" else f"  by {self._sort}"
            table.border_title = f"queue {shown}{order}"
            table.border_subtitle = plain_title(f"/{text}") if self._filter else ""
            self._drawn["queue-second"] = second
        elif self._changed("queue-second", second):
            table.refresh()
        if self._is_shown("preview") and self._changed("preview", (table.cursor_key, chosen[0], second)):
            self._draw_preview(table.cursor_key)

    def _draw_preview(self, key: str) -> None:
        pane = self.query_one("#preview", Lines)
        job = self.board.jobs.get(key)
        width = max(pane.content_size.width - 1, 20)
        if job is None:
            pane.show_lines([])
            return
        time_s = self.board.time_of(job, time.monotonic())
        pane.show_lines([headline(job, time_s), [], *preview_lines(job, self.board, width)])

    def _summary(self, width: int) -> list[Line]:
        now = self.board.clock(time.monotonic())
        clock = rows.clock_text(now, simulated=self.source.simulated) if self.board.now else ""
        style = "live" if self.link.is_live else "on-alert"
        room = max(width // 2, 12)
        text = self.link.text if len(self.link.text) <= room else f"{self.link.text[: room - 1]}…"
        return [
            title_line(self.board, self.source.title, (text, style), clock, width),
            totals_line(self.board, width),
        ]

    def _keys(self) -> list[tuple[str, str]]:
        if self.source.simulated:
            return [
                ("P", "pause"), ("<", "slower"), (">", "faster"), ("/", "filter"), ("⏎", "open"), ("w", "why"),
                ("?", "help"), ("q", "quit"), ("s", "sort"), ("e", "ended"), ("+", "zoom"),
            ]  # fmt: skip
        return [
            ("?", "help"), ("/", "filter"), ("⏎", "open"), ("c", "cancel"), ("h", "hold"), ("r", "release"),
            ("p", "prio"), ("l", "log"), ("w", "why"), ("q", "quit"), ("s", "sort"), ("e", "ended"), ("+", "zoom"),
        ]  # fmt: skip

    def press_key(self, key: str) -> None:
        """Press a key that was clicked."""
        names = {"/": "slash", "⏎": "enter", "?": "question_mark", "esc": "escape", "+": "plus", "<": "less_than_sign",
                 ">": "greater_than_sign"}  # fmt: skip
        self.simulate_key(names.get(key, key))

    # ---- actions

    def action_page(self, at: int) -> None:
        self._page = at
        tabs = self.query_one("#tabs", Tabs)
        tabs.active = at
        tabs.refresh()
        shown = SHOWN[PAGES[at]]
        for name in ("gpus", "queue", "nodes", "services", "weaves", "events"):
            self.query_one(f"#{name}").set_class(name not in shown, "hidden")
        self._fit_side(self.size.width)
        self.query_one("#gpus").set_class("queue" not in shown, "page")
        self.query_one(f"#{shown[-1]}").focus()
        self._drawn.clear()
        self.call_after_refresh(self._draw)

    def _fit_side(self, width: int) -> None:
        """Show the column at the side where the screen is wide enough for it; another screen may cover the panes."""
        shown = width >= WIDE and "queue" in SHOWN[PAGES[self._page]]
        for side in self.screen_stack[0].query("#side"):
            side.set_class(shown, "shown")

    def action_help(self) -> None:
        self.push_screen(Page("keys", help_lines(simulated=self.source.simulated)))

    def action_filter(self) -> None:
        if "queue" not in SHOWN[PAGES[self._page]]:
            self.action_page(2)
        box = self.query_one("#filter", Input)
        box.display = True
        self.screen.set_focus(box)  # at once: the next keys belong to the filter

    def action_clear(self) -> None:
        """Close the filter; then clear it; then clear the marks."""
        box, table = self.query_one("#filter", Input), self.query_one("#queue", Table)
        if self._filter or box.display:
            box.value = ""
            box.display = False
            table.focus()
        elif table.marked:
            table.marked.clear()
            table.refresh()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "filter":
            self._filter = parse_filter(event.value)
            self._draw()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "filter":
            event.input.display = False
            self.query_one("#queue", Table).focus()

    def action_sort(self, by: int) -> None:
        """Sort by the next column, or the other way round."""
        names = list(SORTS)
        if by:
            self._sort, self._reverse = names[(names.index(self._sort) + 1) % len(names)], False
        else:
            self._reverse = not self._reverse
        self._draw()

    def action_ended(self) -> None:
        self._ended = not self._ended
        self._draw()

    def action_zoom(self, by: int) -> None:
        grid = self.query_one("#gpus", GpuGrid)
        if by:
            grid.zoom_by(by)
        else:
            grid.zoom = AUTO
        self._draw()

    def open_job(self, job: str, *, log: bool = False) -> None:
        if job and not isinstance(self.screen, JobScreen):
            self.push_screen(JobScreen(job, log=log), lambda _: self._redraw())

    def _redraw(self) -> None:
        self._drawn.clear()
        self._draw()

    # ---- messages of panes

    def on_table_sort_wanted(self, message: Table.SortWanted) -> None:
        if message.table.id != "queue" or message.column not in SORTS:
            return
        self._reverse = not self._reverse if self._sort == message.column else False
        self._sort = message.column
        self._draw()

    def on_table_moved(self, _message: Table.Moved) -> None:
        self._drawn.pop("preview", None)

    def on_gpu_grid_job_clicked(self, message: GpuGrid.JobClicked) -> None:
        self.open_job(message.job)

    def on_table_chosen(self, message: Table.Chosen) -> None:
        name, key = message.table.id, message.key
        if name == "queue":
            self.open_job(key)
        elif name in ("events", "recent"):
            event = next((each for each in self.board.events if str(id(each)) == key), None)
            self.open_job(event.job if event is not None and event.job in self.board.jobs else "")
        elif name == "nodes":
            self.query_one("#filter", Input).value = f"node:{key}"
            self.action_page(2)
        elif name == "services":
            found = [each for each in self.board.services if each.name == key]
            self._show_page(f"service {key}", service_lines(found[0]) if found else [])
        elif name == "weaves":
            weaves = [each for each in self.board.weaves if each.weave == key]
            self._show_page(f"weave {key}", weave_lines(weaves[0]) if weaves else [])

    def _show_page(self, title: str, lines: Sequence[Line]) -> None:
        if lines:
            self.push_screen(Page(title, lines))
