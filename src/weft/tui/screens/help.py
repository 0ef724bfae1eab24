"""The page of keys."""

from __future__ import annotations

from typing import Final

from weft.tui.model.spans import Line, fit

SECTIONS: Final = {
    "Move": [
        ("1 to 7", "pages: overview, GPUs, queue, nodes, services, weaves, events"),
        ("Tab", "next pane"),
        ("↑ ↓ PgUp PgDn Home End", "move; j k g G as in vi; the mouse works too"),
        ("Enter", "open a job; Escape goes back"),
        ("+ - 0", "size of the GPU cells; 0: as large as fits"),
    ],
    "Queue": [
        ("/", "filter: words of names, or user:ada state:running group:g name:train-* node:n1; ! negates"),
        ("s, S", "sort by the next column, reverse; or click on a title"),
        ("e", "show or hide ended jobs"),
        ("Space", "mark jobs: the next command is for all marked jobs"),
    ],
    "Jobs": [
        ("c", "cancel (asks)"),
        ("h, r", "hold a waiting job, release it"),
        ("p", "change the priority of a waiting job"),
        ("l", "log, which follows"),
        ("w", "why it waits"),
    ],
    "Simulation": [
        ("P", "pause, or play on"),
        ("<, >", "half or twice as fast"),
    ],
    "": [("?", "this page"), ("q", "leave")],
}


def help_lines(*, simulated: bool) -> list[Line]:
    lines: list[Line] = []
    for title, keys in SECTIONS.items():
        if title == ("Jobs" if simulated else "Simulation"):
            continue
        if lines:
            lines.append([])
        if title:
            lines.append([(title, "title")])
        lines += [[(fit(f"  {key}", 26), "key"), (text, "")] for key, text in keys]
    return lines
