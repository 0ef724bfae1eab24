"""Questions and texts in a box. Escape closes each of them and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.markup import escape
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Static

from weft.tui.model.spans import Line, clean, width_of
from weft.tui.theme import ink

BOX_EDGES: Final = 8
"""The columns of a box around its text: border, padding, scroll bar."""


def plain_title(text: str) -> str:
    """Return text of a job for the title of a pane, where Textual would read markup."""
    return escape(clean(text))


class Dialog(ModalScreen[str]):
    """A box. It returns a text, or an empty one if it was closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", show=False)]

    def action_close(self) -> None:
        self.dismiss("")


class Confirmation(Dialog):
    """Asks before something is done that cannot be undone. The answer no has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('yes')", show=False), Binding("n,q", "answer('')", show=False),
        Binding("left,right", "app.focus_next", show=False),
    ]  # fmt: skip

    def __init__(self, question: str, lines: Sequence[str], yes: str) -> None:
        super().__init__(classes="danger")
        self._question, self._about, self._yes = question, lines, yes

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(Text(clean(self._question), style=ink("strong")))
            for line in self._about:
                yield Static(Text(f"  {clean(line)}", style=ink("dim"), no_wrap=True, overflow="ellipsis"))
            with Horizontal(id="buttons"):
                yield Button(Text("no (n)"), id="no")
                yield Button(Text(f"{self._yes} (y)"), id="yes", variant="error")

    def on_mount(self) -> None:
        self.query_one("#no", Button).focus()

    def action_answer(self, answer: str) -> None:
        self.dismiss(answer)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        self.dismiss("yes" if event.button.id == "yes" else "")


class Question(Dialog):
    """Asks for a value."""

    def __init__(self, question: str, value: str, *, integer: bool = False) -> None:
        super().__init__()
        self._question, self._value, self._integer = question, value, integer

    def compose(self) -> ComposeResult:
        with Vertical(id="box"):
            yield Static(Text(clean(self._question), style=ink("strong")))
            yield Input(self._value, type="integer" if self._integer else "text", id="answer")
            yield Static(Text("Enter accepts, Escape changes nothing", style=ink("dim")))

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class Page(Dialog):
    """Shows lines to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("q,enter,question_mark,w", "close", show=False)]

    def __init__(self, title: str, lines: Sequence[Line]) -> None:
        super().__init__()
        self._page_title, self._page_lines = title, lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="box") as box:
            box.border_title = plain_title(self._page_title)
            yield Static(id="page")

    def on_mount(self) -> None:
        self.show_lines(self._page_lines)

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Show other lines instead."""
        self._page_lines = lines
        if not self.query("#page"):
            return  # not composed yet, or closed again
        text = Text()
        for at, line in enumerate(lines):
            text.append("\n" if at else "")
            for part, name in line:
                text.append(part, ink(name))
        widest = max(map(width_of, lines), default=0)
        self.query_one("#box").styles.width = max(widest, len(self._page_title)) + BOX_EDGES
        self.query_one("#page", Static).update(text)
