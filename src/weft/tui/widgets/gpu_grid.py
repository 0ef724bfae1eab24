"""The grid of GPUs. A click on a cell opens the job that holds the GPU."""

from __future__ import annotations

from rich.segment import Segment
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from weft.text import display_width
from weft.tui.model.board import Board
from weft.tui.model.gpu_layout import ZOOMS, Layout, make_layout
from weft.tui.theme import style
from weft.tui.widgets.lines import Lines

AUTO = "auto"


class GpuGrid(Lines):
    class JobClicked(Message):
        def __init__(self, job: str) -> None:
            super().__init__()
            self.job = job

    def __init__(self, board: Board, *, id: str, auto_height: bool = False) -> None:
        super().__init__(id=id, title="GPUs")
        self._board, self._auto_height = board, auto_height
        self.zoom = AUTO
        """One of ZOOMS, or auto."""
        self.shown_zoom = ZOOMS[0]
        self._layout: Layout | None = None

    def update_grid(self, most_lines: int) -> None:
        """Lay out the GPUs again; automatic sizes use at most this many lines."""
        width = max(self.content_size.width - 1, 8)
        self.shown_zoom, self._layout = make_layout(self._board, width, self.zoom, most_lines)
        self.virtual_size = Size(self.content_size.width, self._layout.height)
        if self._auto_height:
            self.styles.height = min(self._layout.height, max(most_lines, 2)) + 2
        self.border_subtitle = f"{self.shown_zoom}  + - zoom"
        self.refresh()

    def zoom_by(self, by: int) -> None:
        at = ZOOMS.index(self.shown_zoom) + by
        self.zoom = ZOOMS[min(max(at, 0), len(ZOOMS) - 1)]

    def render_line(self, y: int) -> Strip:
        width, at = self.scrollable_content_region.width, self.scroll_offset.y + y
        if self._layout is None or at >= self._layout.height:
            empty = " no GPUs" if at == 0 and not self._board.is_empty else ""
            return Strip([Segment(empty, style("dim"))]).adjust_cell_length(width, style(""))
        cells = self._layout.line(at)
        segments = [Segment(text, style(name)) for cell in cells for text, name in cell.spans if text]
        return Strip(segments).adjust_cell_length(width, style(""))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or self._layout is None:
            return
        at, x = self.scroll_offset.y + offset.y, 0
        for cell in self._layout.line(at) if at < self._layout.height else ():
            x += sum(display_width(text) for text, _ in cell.spans)
            if offset.x < x:
                if cell.job:
                    self.post_message(self.JobClicked(cell.job))
                return
