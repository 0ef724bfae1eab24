"""The screen of one job: what is known of it, and its log, which follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from weft.errors import WeftError
from weft.model.status import ENDED
from weft.tui.model.detail import detail_lines, headline
from weft.tui.model.log_text import LogText
from weft.tui.model.spans import Line
from weft.tui.screens.dialogs import plain_title
from weft.tui.widgets.bars import KeyBar, Summary
from weft.tui.widgets.lines import Lines
from weft.views.answers.base import replace_fields
from weft.views.answers.explain import ExplainView
from weft.views.answers.forecasts import ForecastView
from weft.views.answers.jobs import JobDetailView, JobView

if TYPE_CHECKING:
    from weft.tui.app import Top

NARROW: Final = 110
MIN_LOAD_S: Final = 1.0
"""The least time between two queries for the job."""
MAX_LOAD_S: Final = 5.0
"""A job that waits is asked about this often: jobs ahead of it change."""
FORECAST_S: Final = 15.0
"""The least time between two questions for its forecast."""


class JobScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,backspace", "back", show=False), Binding("l", "log", show=False),
        Binding("f", "follow", show=False),
    ]  # fmt: skip

    def __init__(self, job: str, *, log: bool = False) -> None:
        super().__init__()
        self.job = job
        self._log_text = LogText()
        self._detail: JobDetailView | None = None
        self._explained: ExplainView | None = None
        self._forecast: ForecastView | None = None
        self._row: JobView | None = None
        self._loaded_at, self._is_loading, self._problem = 0.0, False, ""
        self._forecast_at, self._is_forecasting = 0.0, False
        self._stop_log: Callable[[], None] = lambda: None
        self._shown_log, self._shown_width = -1, -1
        if log:
            self.add_class("log")

    @property
    def _top(self) -> Top:
        app: Any = self.app
        return app  # type: ignore[no-any-return]

    def compose(self) -> ComposeResult:
        yield Summary(self._head, id="detail-head")
        with Horizontal(id="detail-panes"):
            yield Lines(id="detail-info", title="job")
            yield Lines(id="detail-log", title="log")
        yield KeyBar(self._keys, self._top.press_key, id="keys")

    def on_mount(self) -> None:
        log = self.query_one("#detail-log", Lines)
        log.follows = True
        (log if self.has_class("log") else self.query_one("#detail-info", Lines)).focus()
        self.run_worker(self._open_log, thread=True, group="log")
        self.set_interval(0.25, self.tick)
        self.tick()

    def on_unmount(self) -> None:
        self._stop_log()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < NARROW, "narrow")
        self._shown_width = -1
        self.call_after_refresh(self._show)

    # ---- keys

    def action_back(self) -> None:
        self.dismiss()

    def action_log(self) -> None:
        """Show the log alone, or next to the rest."""
        self.toggle_class("log")
        self._shown_width = -1
        if self.has_class("log"):
            self.query_one("#detail-log", Lines).focus()
        self.call_after_refresh(self._show)

    def action_follow(self) -> None:
        self.query_one("#detail-log", Lines).scroll_end(animate=False)

    def _keys(self) -> list[tuple[str, str]]:
        if self._top.source.simulated:
            return [("esc", "back"), ("w", "why"), ("?", "help")]
        return [
            ("esc", "back"), ("l", "log only"), ("f", "end of log"), ("c", "cancel"), ("h", "hold"), ("r", "release"),
            ("p", "priority"), ("w", "why"), ("?", "help"),
        ]  # fmt: skip

    # ---- content

    def tick(self) -> None:
        """Ask again when the row of the job has changed, and draw what came in."""
        row, now = self._top.board.jobs.get(self.job), time.monotonic()
        age_s = now - self._loaded_at
        is_old = row is not None and row.status not in ENDED and age_s > MAX_LOAD_S
        if not self._is_loading and age_s > MIN_LOAD_S and (self._detail is None or row is not self._row or is_old):
            self._row, self._loaded_at, self._is_loading = row, now, True
            self.run_worker(self._load, thread=True, group="detail")
        is_open = self._detail is not None and self._detail.status not in ENDED
        if is_open and not self._is_forecasting and now - self._forecast_at > FORECAST_S:
            self._forecast_at, self._is_forecasting = now, True
            self.run_worker(self._look_ahead, thread=True, group="forecast")
        self.query_one("#detail-head", Summary).refresh()
        self._show_log()

    def _load(self) -> None:
        """In a thread: query the job and why it waits."""
        source, explained = self._top.source, None
        try:
            detail = source.job(self.job)
            if detail.status not in ENDED:
                explained = source.explain(self.job)
        except WeftError as error:
            self.app.call_from_thread(self._receive, None, None, str(error).partition("\n")[0])
        else:
            self.app.call_from_thread(self._receive, detail, explained, "")

    def _receive(self, detail: JobDetailView | None, explained: ExplainView | None, problem: str) -> None:
        self._is_loading, self._problem = False, problem
        if detail is not None:
            self._detail, self._explained = detail, explained
        if self.is_attached:
            self._show()

    def _look_ahead(self) -> None:
        """In a thread: ask for the forecast, which may take seconds; the screen does not wait for it."""
        found = None
        with suppress(WeftError):  # the load reports a lost connection
            found = self._top.source.explain(self.job, forecast=True).forecast
        self.app.call_from_thread(self._receive_forecast, found)

    def _receive_forecast(self, found: ForecastView | None) -> None:
        self._is_forecasting, self._forecast = False, found
        if self.is_attached:
            self._show()

    def _open_log(self) -> None:
        """In a thread: begin to follow the log."""
        try:
            self._stop_log = self._top.source.follow_log(self.job, self._log_text.feed)
        except WeftError as error:
            self._log_text.feed(f"[{str(error).partition(chr(10))[0]}]\n".encode())
        if not self.is_attached:
            self._stop_log()

    def _head(self, width: int) -> list[Line]:  # noqa: ARG002
        board = self._top.board
        row = board.jobs.get(self.job) or self._detail
        if row is None:
            return [[(f"job {self.job}", "strong"), (f"  {self._problem or 'loading'}", "dim")]]
        link = self._top.link
        alert: Line = () if link.is_live else [(f"  {link.text} ", "on-alert")]
        return [[*headline(row, board.time_of(row, time.monotonic())), *alert]]

    def _show(self) -> None:
        pane = self.query_one("#detail-info", Lines)
        width = max(pane.content_size.width - 1, 20)
        if self._detail is not None:
            now = self._top.board.clock(time.monotonic())
            found = self._explained
            found = found and replace_fields(found, forecast=self._forecast)
            pane.show_lines(detail_lines(self._detail, found, now, width))
        elif self._problem:
            pane.show_lines([[(self._problem, "bad")]])
        pane.border_subtitle = plain_title(self._problem) if self._detail is not None else ""
        self._show_log()

    def _show_log(self) -> None:
        pane = self.query_one("#detail-log", Lines)
        width = max(pane.content_size.width - 1, 20)
        if (self._log_text.version, width) == (self._shown_log, self._shown_width):
            return
        self._shown_log, self._shown_width = self._log_text.version, width
        pane.show_lines(self._log_text.lines(width))
