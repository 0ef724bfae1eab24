"""The lines around the panes: the summary at the top, the pages, and the keys at the bottom."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from weft.tui.model.spans import Line
from weft.tui.model.summary import keys_line
from weft.tui.theme import style
from weft.tui.widgets.lines import to_strip


class Summary(Widget):
    """Lines that are made again at each refresh."""

    def __init__(self, make: Callable[[int], Sequence[Line]], *, id: str) -> None:
        super().__init__(id=id)
        self._make = make

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        lines = self._make(width)
        return to_strip(lines[y] if y < len(lines) else (), width)


class Tabs(Widget):
    """The pages by number. A click shows one."""

    def __init__(self, names: Sequence[str], choose: Callable[[int], None], *, id: str) -> None:
        super().__init__(id=id)
        self._names, self._choose, self.active = names, choose, 0

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        width = self.size.width
        segments = []
        for text, at in self._cells(width):
            segments.append(Segment(text, style("on-tab" if at == self.active else "dim")))
            segments.append(Segment(" ", style("")))
        return Strip(segments).adjust_cell_length(width, style(""))

    def _cells(self, width: int) -> list[tuple[str, int]]:
        cells = [(f" {at + 1} {name} ", at) for at, name in enumerate(self._names)]
        if sum(len(text) + 1 for text, _ in cells) > width:
            cells = [
                (f" {at + 1} {name} " if at == self.active else f" {at + 1} {name[:5]} ", at)
                for at, name in enumerate(self._names)
            ]
        return cells

    def on_click(self, event: events.Click) -> None:
        x = 0
        for text, at in self._cells(self.size.width):
            x += len(text) + 1
            if event.x < x:
                self._choose(at)
                return


class KeyBar(Widget):
    """The keys and what they do. A click presses one."""

    def __init__(self, keys: Callable[[], list[tuple[str, str]]], press: Callable[[str], None], *, id: str) -> None:
        super().__init__(id=id)
        self._keys, self._press = keys, press

    def render_line(self, y: int) -> Strip:  # noqa: ARG002
        width = self.size.width
        segments = []
        for key, text, _ in keys_line(self._keys(), width):
            segments += [Segment(key[0], style(key[1])), Segment(text[0], style(text[1]))]
        return Strip(segments).adjust_cell_length(width, style(""))

    def on_click(self, event: events.Click) -> None:
        x = 0
        for key, text, name in keys_line(self._keys(), self.size.width):
            x += len(key[0]) + len(text[0])
            if event.x < x:
                self._press(name)
                return
