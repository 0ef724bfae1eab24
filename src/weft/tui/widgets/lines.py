"""A pane of lines, which scrolls. Text is drawn as it is: there is no markup that a job could write."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from weft.tui.model.spans import Line
from weft.tui.theme import style


class Lines(ScrollView, can_focus=True):
    """Lines of spans. Subclasses override `line` to make them on demand."""

    def __init__(self, *, id: str | None = None, classes: str = "pane", title: str = "") -> None:
        super().__init__(id=id, classes=classes)
        self._lines: Sequence[Line] = ()
        self.follows = False
        """Stay at the end when lines are added."""
        if title:
            self.border_title = title

    def show_lines(self, lines: Sequence[Line]) -> None:
        at_end = self.is_at_end
        self._lines = lines
        self.set_height(len(lines))
        if self.follows and at_end:
            self.scroll_end(animate=False)
        self.refresh()

    @property
    def is_at_end(self) -> bool:
        return self.scroll_offset.y >= self.max_scroll_y - 1

    def set_height(self, height: int) -> None:
        if self.virtual_size.height != height or self.virtual_size.width != self.content_size.width:
            self.virtual_size = Size(self.content_size.width, height)

    def line(self, at: int, width: int) -> Line:  # noqa: ARG002
        return self._lines[at] if 0 <= at < len(self._lines) else ()

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        return to_strip(self.line(self.scroll_offset.y + y, width), width)


def to_strip(line: Line, width: int, under: str = "") -> Strip:
    """Return a line as wide as the pane. `under` is the style below it, such as that of the cursor."""
    segments = [Segment(text, style(f"{name} {under}" if under else name)) for text, name in line if text]
    return Strip(segments).adjust_cell_length(width, style(under))
