"""The screen, driven as a user would: panes, keys, filters, questions, the mouse, sizes, hostile text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from support.screen_source import FORECAST, NOW, ScreenSource, cluster, detail
from weft.text import format_time
from weft.tui.app import PAGES, Top
from weft.tui.screens.dialogs import Confirmation, Page, Question
from weft.tui.screens.job import JobScreen
from weft.tui.sources.base import Link
from weft.tui.widgets.gpu_grid import GpuGrid
from weft.tui.widgets.lines import Lines
from weft.tui.widgets.table import Table
from weft.views.answers.changes import ChangesView
from weft.views.answers.jobs import JobView

LIVE = Link("● live", True)
HOSTILE = "\x1b[31m[bold]rm -rf[/bold]\x1b]0;owned\x07\n[@click=app.quit]x[/]"
PATIENCE_S = 20.0


class PatientTop(Top):
    """Notes stay: a busy machine may look at them late."""

    NOTIFICATION_TIMEOUT = 600.0


class Seat:
    """A user in front of the screen."""

    def __init__(self, app: Top, source: ScreenSource, pilot: Pilot[None]) -> None:
        self.app, self.source, self.pilot = app, source, pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(int(PATIENCE_S / 0.05)):
            if condition():
                return
            await self.pilot.pause(0.05)
        raise AssertionError(f"not within {PATIENCE_S} s; the screen shows:\n{self.text()}")

    async def sees(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text() for text in texts))

    def text(self) -> str:
        """The characters on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text for strip in strips)

    @property
    def queue(self) -> Table:
        return self.app.screen_stack[0].query_one("#queue", Table)


def sit(
    play: Callable[[Seat], Awaitable[None]], *, size: tuple[int, int] = (120, 40), nodes: int = 4, gpus: int = 8,
    waiting: int = 20,
) -> None:  # fmt: skip
    async def run() -> None:
        source = ScreenSource()
        app = PatientTop(source)
        async with app.run_test(size=size, notifications=True) as pilot:
            messages = cluster(nodes, gpus, waiting)
            source.send(LIVE, *messages)
            source.details = {job.id: detail(job) for each in messages for job in each.jobs or ()}
            seat = Seat(app, source, pilot)
            await seat.until(lambda: not app._news and bool(app.board.jobs))
            await pilot.pause()
            await play(seat)

    asyncio.run(run())


def test_the_overview_shows_gpus_and_jobs() -> None:
    async def play(seat: Seat) -> None:
        await seat.sees(
            "gpu1:50051", "muri-l", "● live", "32/32", "n4", "JOB NAME", "llama2-7b-sft-3", "n1[0]", "20 waiting"
        )

    sit(play)


def test_pages() -> None:
    async def play(seat: Seat) -> None:
        for key, texts in SEEN.items():
            await seat.press(key)
            await seat.sees(*texts)

    sit(play)


SEEN = {
    "2": ("GPUs 32", "A100-40G"), "3": ("queue 45", "JOB NAME"), "4": ("nodes 4", "HEARD", "closed"),
    "5": ("services 2", "chat", "3/4"), "6": ("weaves 1", "gpt2-ablation 0.93"), "7": ("events", "joined with 8 GPUs"),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "gpus", "waiting"), [(1, 2, 3), (125, 8, 300)])
def test_every_page_at_every_size(nodes: int, gpus: int, waiting: int) -> None:
    async def play(seat: Seat) -> None:
        for size in ((80, 24), (200, 60), (40, 12), (20, 6)):
            await seat.pilot.resize_terminal(*size)
            for at in range(len(PAGES)):
                await seat.press(str(at + 1))
            await seat.press("1")
            if size[0] >= 80:
                await seat.sees("queue", "GPUs")

    sit(play, size=(80, 24), nodes=nodes, gpus=gpus, waiting=waiting)


def test_a_resize_never_breaks_it() -> None:
    async def play(seat: Seat) -> None:
        for size in ((200, 60), (81, 24), (30, 5), (10, 3), (160, 50), (120, 40)):
            await seat.pilot.resize_terminal(*size)
            await seat.pilot.pause(0.05)
        await seat.sees("JOB NAME", "● live")
        await seat.press("enter")
        for size in ((60, 15), (200, 60), (15, 4), (80, 24)):
            await seat.pilot.resize_terminal(*size)
            await seat.pilot.pause(0.05)
        await seat.sees("log", "progress")

    sit(play)


def test_the_side_column_follows_the_width() -> None:
    async def play(seat: Seat) -> None:
        base = seat.app.screen_stack[0]
        side, main = base.query_one("#side"), base.query_one("#main")
        for width, shown in ((80, False), (200, True), (80, False), (149, False), (150, True)):
            await seat.pilot.resize_terminal(width, 40)
            await seat.until(lambda shown=shown: side.display == shown)  # type: ignore[misc]
            await seat.until(lambda width=width: main.size.width + side.size.width == width)  # type: ignore[misc]
            assert (side.size.width > 0) == shown
        await seat.press("4")  # a page without the queue
        assert not side.display
        await seat.press("1", "enter")
        await seat.pilot.resize_terminal(80, 24)
        await seat.press("escape")
        await seat.until(lambda: main.size.width == 80)

    sit(play, size=(200, 60))


def test_changes_appear_and_the_cursor_stays_on_its_job() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("down", "down")
        chosen = seat.queue.cursor_key
        new = JobView(id="0", name="very-first", user="ada", state="R", status="running", gpus=1, place="n9[0]")
        seat.source.send(ChangesView(now=NOW + 1, jobs=[new]))
        await seat.sees("very-first")
        assert seat.queue.cursor_key == chosen
        assert seat.queue.cursor == 3

    sit(play)


def test_filter_and_sort() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("slash", *"user:ada", "space", *"state:running", "enter")
        await seat.until(lambda: {job.user for job in seat.queue._rows} == {"ada"})
        assert {job.status for job in seat.queue._rows} == {"running"}
        await seat.sees("/user:ada state:running")
        await seat.press("escape")
        await seat.until(lambda: len(seat.queue._rows) == 45)
        await seat.press("s", "s")
        await seat.sees("by name", "NAME▼")
        names = [job.name for job in seat.queue._rows]
        assert names == sorted(names)
        await seat.press("S", "e")
        await seat.until(lambda: len(seat.queue._rows) == 33)
        assert [job.name for job in seat.queue._rows] == sorted((job.name for job in seat.queue._rows), reverse=True)

    sit(play)


def test_cancel_asks_and_only_then_acts() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("c")
        assert isinstance(seat.app.screen, Confirmation)
        await seat.sees("Cancel 1 job?", "llama2-7b-sft-3")
        await seat.press("enter")  # no has the focus
        await seat.press("c", "escape", "c", "n")
        assert seat.source.asked == []
        await seat.press("space", "space", "c")
        await seat.sees("Cancel 2 jobs?")
        await seat.press("y")
        await seat.until(lambda: seat.source.asked == [("cancel", ("1", "2"), {})])
        await seat.sees("cancelled 2 jobs")
        assert not seat.queue.marked

    sit(play)


def test_hold_release_and_priority() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("h")
        await seat.until(lambda: len(seat.source.asked) == 1)
        await seat.press("r")
        await seat.until(lambda: len(seat.source.asked) == 2)
        await seat.press("p")
        assert isinstance(seat.app.screen, Question)
        await seat.press("backspace", "4", "2", "enter")
        await seat.until(lambda: len(seat.source.asked) == 3)
        assert seat.source.asked == [("hold", ("1",), {}), ("release", ("1",), {}), ("set", ("1",), {"priority": "42"})]
        seat.source.refused = [("1", "it is running: [bold]hold[/bold] waits")]
        await seat.press("h")
        await seat.sees("1: it is running: [bold]hold[/bold]")

    sit(play)


def test_a_job_with_its_log() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("enter")
        await seat.sees("epoch 2 loss 0.42", "accuracy", "stopped (preempted)", "python train.py", "n2[0,1]")
        assert seat.source.is_following == {"1"}
        screen = seat.app.screen
        assert isinstance(screen, JobScreen)
        screen._log_text.feed(b"line\n" * 100 + b"the end\n")
        await seat.sees("the end")
        pane = screen.query_one("#detail-log", Lines)
        pane.scroll_to(y=0, animate=False)
        await seat.pilot.pause()
        screen._log_text.feed(b"more\n" * 50)
        await seat.pilot.pause(0.6)
        assert pane.scroll_offset.y == 0, "who reads above is left alone"
        await seat.press("f", "l")
        assert screen.has_class("log")
        await seat.press("escape")
        await seat.until(lambda: not seat.source.is_following)
        assert seat.app.screen is seat.app.screen_stack[0]

    sit(play)


def test_why_help_and_logs() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("w")
        await seat.until(lambda: isinstance(seat.app.screen, Page))
        await seat.sees("needs 8 GPUs", "3 of 12 waiting jobs", "7 (ada, 8 GPUs)")
        await seat.press("escape", "question_mark")
        await seat.sees("cancel (asks)", "why it waits")
        await seat.press("escape", "l")
        await seat.until(lambda: isinstance(seat.app.screen, JobScreen) and seat.app.screen.has_class("log"))

    sit(play)


def test_a_forecast_comes_later_and_replaces_the_earliest_start() -> None:
    async def play(seat: Seat) -> None:
        start = f"{format_time(FORECAST.start_p50)} (P50),"
        seat.source.may_forecast.clear()
        await seat.press("w")
        await seat.sees("needs 8 GPUs", "when 5 has ended", "may start")
        seat.source.may_forecast.set()
        await seat.sees(start, "duration: from 4 finished jobs")
        assert "may start" not in seat.text()
        seat.source.may_forecast.clear()
        await seat.press("escape", "enter")
        await seat.sees("needs 8 GPUs", "may start")
        assert start not in seat.text()
        seat.source.may_forecast.set()
        await seat.sees(start)
        assert "may start" not in seat.text()

    sit(play)


def test_the_mouse() -> None:
    async def play(seat: Seat) -> None:
        await seat.pilot.click("#queue", offset=(20, 5))
        assert seat.queue.cursor == 3
        await seat.pilot.click("#queue", offset=(14, 1))
        await seat.sees("by name")
        await seat.pilot.click("#tabs", offset=(36, 0))
        await seat.sees("HEARD")
        await seat.pilot.click("#tabs", offset=(3, 0))
        await seat.sees("JOB NAME")
        await seat.pilot.click("#keys", offset=(2, 0))
        await seat.until(lambda: isinstance(seat.app.screen, Page))
        await seat.press("escape")
        await seat.pilot.click("#gpus", offset=(8, 1))
        await seat.until(lambda: isinstance(seat.app.screen, JobScreen))
        await seat.press("escape")
        await seat.pilot.click("#queue", offset=(20, 4), times=2)
        await seat.until(lambda: isinstance(seat.app.screen, JobScreen))

    sit(play)


def test_zoom() -> None:
    async def play(seat: Seat) -> None:
        grid = seat.app.query_one(GpuGrid)
        shown = [grid.shown_zoom]
        for key in ("plus", "plus", "minus", "minus", "minus", "0"):
            await seat.press(key)
            await seat.pilot.pause()
            shown.append(grid.shown_zoom)
        assert shown == ["compact", "cards", "cards", "compact", "dense", "dense", "compact"]

    sit(play)


def test_nodes_services_and_weaves_open() -> None:
    async def play(seat: Seat) -> None:
        await seat.press("5", "enter")
        await seat.sees("10.0.0.2:9001", "ready")
        await seat.press("escape", "6", "enter")
        await seat.sees("order fair", "0.93")
        await seat.press("escape", "4", "down", "enter")
        assert seat.app.query_one("#filter", Input).value == "node:n2"
        await seat.until(lambda: all("n2" in job.place for job in seat.queue._rows) and bool(seat.queue._rows))

    sit(play)


def test_it_says_when_the_connection_is_lost_and_when_it_is_back() -> None:
    async def play(seat: Seat) -> None:
        seat.source.send(Link("◌ reconnecting: the scheduler [at] /x does not answer", False))
        await seat.sees("◌ reconnecting: the scheduler [at]", "llama2-7b-sft-3")
        await seat.press("down")  # what is known stays usable
        seat.source.send(LIVE, ChangesView(now=NOW, reset=True, order=[], jobs=[JobView(id="77", name="new-world")]))
        await seat.sees("● live", "new-world", "connected again")
        assert len(seat.queue._rows) == 1

    sit(play)


def test_hostile_names_and_logs_are_text() -> None:
    async def play(seat: Seat) -> None:
        bad = JobView(id="1", name=HOSTILE, user=HOSTILE, state="PD", status="waiting", reason=HOSTILE, group=HOSTILE)
        seat.source.details["1"] = detail(bad)
        seat.source.log = (HOSTILE * 3).encode() + b"\x1b[?1049l\n"
        seat.source.send(ChangesView(now=NOW, reset=True, order=["1"], jobs=[bad]))
        await seat.sees("[bold]rm -rf[/bold]")
        await seat.press("c")
        await seat.sees("[bold]rm -rf[/bold]")
        await seat.press("escape", "enter")
        await seat.sees("[@click=app.quit]x[/]")
        await seat.press("w")
        await seat.pilot.pause(0.1)
        assert "\x1b" not in seat.text()

    sit(play)


def test_ten_thousand_jobs() -> None:
    async def play(seat: Seat) -> None:
        await seat.sees("queue 10,", "1,000")
        await seat.press("end")
        await seat.until(lambda: seat.queue.cursor == len(seat.queue._rows) - 1)
        await seat.press("home", "slash", *"user:ada")
        await seat.until(lambda: 0 < len(seat.queue._rows) < 5000)

    sit(play, nodes=125, waiting=10_000)
