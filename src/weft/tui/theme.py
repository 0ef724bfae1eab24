"""The colours. Spans name styles; this module says what they look like."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rich.style import Style
from textual.theme import Theme

BACKGROUND: Final = "#0f141b"
PANEL: Final = "#151b24"
LINE: Final = "#2a3442"
TEXT: Final = "#c8d3df"
DIM: Final = "#6b7a8c"
HOLDERS: Final = (
    "#5fb3f9", "#7ee787", "#f2a65a", "#c792ea", "#4dd0c4", "#ff8fa3", "#d4c35a", "#8fa8ff", "#67d98f", "#e59ad8",
    "#58c7e0", "#c5b08a",
)  # fmt: skip
"""The colours of the jobs on GPUs, by turns."""
THEME: Final = Theme(
    name="weft", primary="#5fb3f9", secondary="#4dd0c4", accent="#f2a65a", warning="#e0c15a", error="#ff6b6b",
    success="#7ee787", foreground=TEXT, background=BACKGROUND, surface=PANEL, panel="#1b232e", dark=True,
    variables={"footer-key-foreground": "#f2a65a", "scrollbar": LINE, "scrollbar-background": BACKGROUND,
               "scrollbar-hover": "#3c4a5e", "scrollbar-active": "#5fb3f9", "scrollbar-background-hover": BACKGROUND,
               "scrollbar-background-active": BACKGROUND, "border": LINE, "border-blurred": LINE},
)  # fmt: skip
STYLES: Final = {
    "": TEXT,
    "dim": DIM,
    "faint": "#3b4758",
    "strong": f"bold {'#e8eef5'}",
    "title": "bold #5fb3f9",
    "key": "bold #f2a65a",
    "head": f"bold {DIM}",
    "sorted": "bold #5fb3f9",
    "id": "#8fb8de",
    "user": "#a9b7c6",
    "ok": "#7ee787",
    "warn": "#e0c15a",
    "bad": "#ff6b6b",
    "done": "#6ea8fe",
    "away": "#7a8899",
    "moved": "#d58fe8",
    "bar": "#4dd0c4",
    "bar-warn": "#e0c15a",
    "bar-bad": "#ff6b6b",
    "bar-cool": "#5fb3f9",
    "bar-rest": "#2a3442",
    "on-cursor": "on #24405c",
    "on-mark": "on #3a3320",
    "on-tab": "bold #0f141b on #5fb3f9",
    "on-alert": "bold #0f141b on #e0c15a",
    "on-bad": "bold #ffffff on #b03a3a",
    "live": "bold #7ee787",
    "idle": "#3b4758",
    "blocked": "bold #ff6b6b",
    "closed": "#e0c15a",
    **{f"holder{at}": colour for at, colour in enumerate(HOLDERS)},
    **{f"on-holder{at}": f"#0b0f14 on {colour}" for at, colour in enumerate(HOLDERS)},
    "on-idle": f"{DIM} on #1b232e",
    "on-blocked": "bold #ffffff on #8c2f39",
    "on-closed": "#0b0f14 on #b99a3d",
}
"""The meaning of each name, in the words of `rich.style.Style`."""


@lru_cache(maxsize=512)
def style(name: str) -> Style:
    """Return the style of a name, or of several names apart by spaces, the later ones on top."""
    found = Style.parse(f"{STYLES['']} on {BACKGROUND}")
    for word in name.split():
        found += Style.parse(STYLES[word])
    return found


def ink(name: str) -> Style:
    """Return the style of a name without a background, for boxes that have one."""
    return style(name).without_color + Style(color=style(name).color)


CSS: Final = """
Screen { background: $background; color: $foreground; }
#tabs { height: 1; }
#summary { height: 2; padding: 0 1; }
#keys { height: 1; dock: bottom; }
.pane { border: round $border; border-title-color: $primary; border-title-style: bold;
        border-subtitle-color: $text-muted; }
.pane:focus, .pane:focus-within { border: round $primary; }
Lines { overflow-x: hidden; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
#body { height: 1fr; }
#main { width: 1fr; height: 1fr; }
#gpus { height: auto; max-height: 45%; min-height: 3; }
#side { width: 34%; max-width: 72; min-width: 44; display: none; }
#side.shown { display: block; }
#preview { height: auto; max-height: 60%; }
#recent { height: 1fr; }
#queue { height: 1fr; }
.page { height: 1fr; }
.hidden { display: none; }
#filter { height: 1; border: none; background: $panel; padding: 0 1; display: none; dock: bottom; margin-bottom: 1; }
Dialog { align: center middle; background: $background 60%; }
Dialog > #box { width: auto; max-width: 90%; min-width: 40; height: auto; max-height: 90%; padding: 1 2;
                background: $surface; border: round $primary; }
Dialog.danger > #box { border: round $error; }
Dialog Input { border: tall $border; margin-top: 1; width: 40; }
Dialog #buttons { height: auto; margin-top: 1; align-horizontal: right; width: 100%; }
Dialog Button { margin-left: 2; min-width: 12; }
#detail-info { width: 46%; min-width: 40; }
#detail-log { width: 1fr; }
JobScreen.narrow #detail-panes { layout: vertical; }
JobScreen.narrow #detail-info { width: 100%; height: 50%; }
JobScreen.narrow #detail-log { width: 100%; height: 50%; }
JobScreen.log #detail-info { display: none; }
JobScreen.log #detail-log { width: 100%; height: 100%; }
#detail-panes { height: 1fr; }
#detail-head { height: 1; padding: 0 1; }
"""
