"""A table of many rows. Its cursor stays with its row while the rows change their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip

from weft.tui.model.tables import Cells, Column, column_at, head, layout, row
from weft.tui.widgets.lines import Lines, to_strip


class Table(Lines):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False), Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False), Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home,g", "jump(0)", show=False), Binding("end,G", "jump(-1)", show=False),
        Binding("enter", "choose", show=False), Binding("space", "mark", show=False),
    ]  # fmt: skip

    class Chosen(Message):
        """A row was opened with Enter or a double click."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, table: Table, key: str) -> None:
            super().__init__()
            self.table, self.key = table, key

    class SortWanted(Message):
        """The title of a column was clicked."""

        def __init__(self, table: Table, column: str) -> None:
            super().__init__()
            self.table, self.column = table, column

    def __init__(
        self, columns: Sequence[Column], key_of: Callable[[Any], str], cells_of: Callable[[Any], Cells], *,
        id: str, title: str = "", empty: str = "nothing here",
    ) -> None:  # fmt: skip
        super().__init__(id=id, title=title)
        self.columns, self._key_of, self._cells_of, self.empty = columns, key_of, cells_of, empty
        self._rows: Sequence[Any] = ()
        self.cursor = 0
        self.cursor_key = ""
        self.marked: set[str] = set()
        self.sort, self.reverse = "", False

    # ---- rows

    def show_rows(self, rows: Sequence[Any]) -> None:
        """Show these rows. The cursor stays on its row if that is still there."""
        self._rows = rows
        if self.cursor_key and not (self.cursor < len(rows) and self._key_of(rows[self.cursor]) == self.cursor_key):
            found = next((at for at, each in enumerate(rows) if self._key_of(each) == self.cursor_key), None)
            self.cursor = min(self.cursor, max(len(rows) - 1, 0)) if found is None else found
        self._set_cursor(self.cursor, scroll=False)
        self.set_height(len(rows) + 1)
        self.refresh()

    @property
    def chosen(self) -> list[str]:
        """The marked rows, or the one under the cursor."""
        there = {self._key_of(each) for each in self._rows} if self.marked else set()
        marked = sorted(self.marked & there)
        return marked or ([self.cursor_key] if self._rows else [])

    def _set_cursor(self, at: int, *, scroll: bool = True) -> None:
        self.cursor = min(max(at, 0), max(len(self._rows) - 1, 0))
        key = self._key_of(self._rows[self.cursor]) if self._rows else ""
        if key != self.cursor_key:
            self.cursor_key = key
            self.post_message(self.Moved(self, key))
        if scroll:
            self._scroll_to_cursor()
        self.refresh()

    def _scroll_to_cursor(self) -> None:
        top, height = self.scroll_offset.y, max(self.scrollable_content_region.height - 1, 1)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, force=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, force=True)

    def set_height(self, height: int) -> None:
        self.virtual_size = Size(self.content_size.width, height)

    # ---- keys and mouse

    def action_move(self, by: int) -> None:
        self._set_cursor(self.cursor + by)

    def action_page(self, by: int) -> None:
        self._set_cursor(self.cursor + by * max(self.scrollable_content_region.height - 2, 1))

    def action_jump(self, to: int) -> None:
        self._set_cursor(len(self._rows) - 1 if to < 0 else to)

    def action_choose(self) -> None:
        if self._rows:
            self.post_message(self.Chosen(self, self.cursor_key))

    def action_mark(self) -> None:
        if self._rows:
            self.marked ^= {self.cursor_key}
            self.action_move(1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        if offset.y == 0:
            shown = layout(self.columns, self.scrollable_content_region.width)
            if column := column_at(shown, offset.x):
                self.post_message(self.SortWanted(self, column))
            return
        at = self.scroll_offset.y + offset.y - 1
        if at < len(self._rows):
            self._set_cursor(at)
            if event.chain == 2:
                self.action_choose()

    # ---- drawing

    def render_line(self, y: int) -> Strip:
        width = self.scrollable_content_region.width
        shown = layout(self.columns, width)
        if y == 0:
            return to_strip(head(shown, self.sort, reverse=self.reverse), width)
        at = self.scroll_offset.y + y - 1
        if at >= len(self._rows):
            return to_strip([(f" {self.empty}", "dim")] if at == 0 else (), width)
        each = self._rows[at]
        key = self._key_of(each)
        under = "on-mark" if key in self.marked else ""
        if at == self.cursor and self.has_focus:
            under = "on-cursor"
        return to_strip(row(shown, self._cells_of(each)), width, under)
