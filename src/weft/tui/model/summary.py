"""The two lines at the top: where this is, whether it is live, and the totals."""

from __future__ import annotations

from weft.tui.model.board import Board
from weft.tui.model.spans import Line, Span, bar, clean, cut, sparkline, width_of

METER: int = 12


def title_line(board: Board, where: str, link: Span, clock: str, width: int) -> Line:
    """Return the first line: name, scheduler, policy and pauses; on the right the connection and the time."""
    policy = board.counts.policy
    left: list[Span] = [("weft ", "title"), (clean(where), "strong")]
    if policy:
        left += [("  policy ", "dim"), (clean(policy), "")]
    if board.counts.paused_for:
        left.append((f"  paused: {clean(', '.join(board.counts.paused_for))} ", "on-alert"))
    right: list[Span] = [(clean(link[0]), link[1]), (f"  {clock}", "dim")]
    room = width - width_of(right) - 1
    left = cut(left, max(room, 0))
    return [*left, (" " * max(width - width_of(left) - width_of(right), 1), ""), *right]


def totals_line(board: Board, width: int) -> Line:
    """Return the second line: meters of the GPUs, and the numbers of jobs."""
    counts = board.counts
    busy, total = sum(bool(gpu.jobs) for gpu in board.gpus.values()), len(board.gpus)
    jobs: list[Span] = [
        (f"{counts.running:,}", "ok"), (" running  ", "dim"), (f"{counts.waiting:,}", "warn"), (" waiting  ", "dim"),
        (f"{counts.ended:,}", "done"), (" ended", "dim"),
    ]  # fmt: skip
    if width < 60:
        return cut(jobs, width)
    long = METER if width >= 100 else 8
    line: list[Span] = [
        ("GPUs ", "dim"),
        *bar(busy / max(total, 1), long, "bar-cool"),
        (f" {busy:,}/{total:,}", "strong"),
    ]
    utilisation = board.mean_utilisation()
    if width >= 132 or (utilisation is None and width >= 100):
        line += [("  mem ", "dim"), *bar(board.memory_part(), long, "bar-warn"), (f" {board.memory_part():.0%}", "")]
    if utilisation is not None and width >= 100:
        line += [("  util ", "dim"), *bar(utilisation, long), (f" {utilisation:.0%}", "")]
    space = width - width_of(line) - width_of(jobs)
    if space >= 26 and len(board.usage) > 1:
        history = sparkline([busy for busy, _ in board.usage][-(space - 14) :], space - 14)
        line += [("  use ", "dim"), (history, "bar")]
        space = width - width_of(line) - width_of(jobs)
    if space < 2:
        return cut([*line, ("  ", ""), *jobs], width)
    return [*line, (" " * space, ""), *jobs]


def keys_line(keys: list[tuple[str, str]], width: int) -> list[tuple[Span, Span, str]]:
    """Return the keys that fit, each with what it does, and the key itself for clicks."""
    found: list[tuple[Span, Span, str]] = []
    used = 0
    for key, text in keys:
        need = len(key) + len(text) + 3
        if used + need > width:
            break
        found.append(((f" {key}", "key"), (f" {text} ", "dim"), key))
        used += need
    return found
